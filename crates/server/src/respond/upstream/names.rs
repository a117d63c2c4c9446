//! The addresses of upstreams that have names.
//!
//! Looking a name up may take many seconds, and no call of the system does it without waiting. So
//! each name has a thread of its own, which looks the name up at the start and again and again. A
//! request takes the addresses that were found last; only before the first answer it waits for one.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Config;
use tokio::sync::watch;

use crate::log::{ErrorLog, Level};

/// Addresses of a name that are used. Further ones are left out.
const MOST_ADDRESSES: usize = 16;
/// The least time between two lookups of a name.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// The most time until a lookup that has failed is repeated.
const MOST_PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The known addresses of each name.
#[derive(Debug, Default)]
pub(crate) struct UpstreamNames(HashMap<String, watch::Receiver<KnownAddresses>>);

/// The known addresses of a name.
#[derive(Debug, Clone)]
enum KnownAddresses {
    /// There was no answer yet.
    Pending,
    /// The addresses that were found last, at least one.
    Found(Arc<[IpAddr]>),
    /// There has never been an address, for this reason.
    Failed(Arc<str>),
}

impl UpstreamNames {
    /// Starts a thread for each name of the sites' upstreams.
    ///
    /// # Errors
    /// The system has no further thread.
    pub(crate) fn start(config: &Config, log: &Arc<ErrorLog>) -> io::Result<UpstreamNames> {
        let mut pauses: BTreeMap<&str, Duration> = BTreeMap::new();
        for site in &config.sites {
            for name in site.upstreams.iter().filter_map(|upstream| upstream.name()) {
                let pause = pauses.entry(name).or_insert(site.upstream_resolve);
                *pause = site.upstream_resolve.min(*pause);
            }
        }
        let mut names = HashMap::new();
        for (name, pause) in pauses {
            let (sender, receiver) = watch::channel(KnownAddresses::Pending);
            let follower = Follower {
                name: name.to_owned(),
                pause: pause.max(LEAST_PAUSE),
                lookup: sender,
                log: Arc::clone(log),
            };
            let thread = std::thread::Builder::new().name("resolver".to_owned());
            thread.spawn(move || follower.run())?;
            names.insert(name.to_owned(), receiver);
        }
        Ok(UpstreamNames(names))
    }

    /// Returns the addresses of a name. Waits for the first answer.
    ///
    /// # Errors
    /// The name has never had an address.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<Arc<[IpAddr]>> {
        let unknown = |why: &str| io::Error::new(io::ErrorKind::NotFound, why.to_owned());
        let mut lookup = self.0.get(name).ok_or_else(|| unknown("nobody looks it up"))?.clone();
        let known = lookup.wait_for(|lookup| !matches!(lookup, KnownAddresses::Pending)).await;
        match known.as_deref() {
            Ok(KnownAddresses::Found(addresses)) => Ok(Arc::clone(addresses)),
            Ok(KnownAddresses::Failed(why)) => Err(unknown(why)),
            Ok(KnownAddresses::Pending) | Err(_) => Err(unknown("nobody looks it up any more")),
        }
    }
}

/// Looks a name up again and again.
struct Follower {
    name: String,
    pause: Duration,
    lookup: watch::Sender<KnownAddresses>,
    log: Arc<ErrorLog>,
}

impl Follower {
    /// Ends when nobody asks for the name any more, or with the process.
    fn run(self) {
        let mut fails = false;
        while !self.lookup.is_closed() {
            let found = look_up(&self.name);
            let failed = found.is_err();
            match found {
                Ok(addresses) => {
                    self.lookup.send_replace(KnownAddresses::Found(addresses));
                    if fails {
                        let what = format!("the upstream name {} is known again", self.name);
                        self.log.say(Level::Notice, None, &what);
                    }
                }
                Err(why) => self.fail(&why.to_string(), !fails),
            }
            fails = failed;
            std::thread::sleep(match fails {
                true => self.pause.min(MOST_PAUSE_AFTER_FAILURE),
                false => self.pause,
            });
        }
    }

    /// Keeps the former addresses. `is_news`: the lookup before has succeeded.
    fn fail(&self, why: &str, is_news: bool) {
        let mut has_former = false;
        self.lookup.send_if_modified(|lookup| {
            has_former = matches!(lookup, KnownAddresses::Found(_));
            if !has_former {
                *lookup = KnownAddresses::Failed(why.into());
            }
            !has_former
        });
        if is_news {
            let meanwhile = match has_former {
                true => "its former addresses are used",
                false => "its requests get 503",
            };
            let name = &self.name;
            let what = format!(
                "the upstream name {name} cannot be looked up: {why}; {meanwhile} until it can"
            );
            self.log.say(Level::Warning, None, &what);
        }
    }
}

/// Asks the system for the addresses of a name.
fn look_up(name: &str) -> io::Result<Arc<[IpAddr]>> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for found in (name, 0).to_socket_addrs()? {
        if !addresses.contains(&found.ip()) && addresses.len() < MOST_ADDRESSES {
            addresses.push(found.ip());
        }
    }
    match addresses.is_empty() {
        true => Err(io::Error::other("the name has no address")),
        false => Ok(addresses.into()),
    }
}
