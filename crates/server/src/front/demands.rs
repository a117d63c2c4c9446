//! Names that visitors ask for, of sites whose certificates are ordered on demand. A thread of its
//! own looks for the folders of the names, and tells the supervisor.

use std::collections::{HashSet, VecDeque};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_acme::message::Demand;
use howdah_acme::names;
use howdah_config::{Config, HostPattern, RootTemplate};
use howdah_site::Site;
use howdah_sys::seqpacket::SeqPacket;

use crate::supervisor::front_protocol::FromFront;

/// Names that wait to be looked at, and names without a folder that wait to be asked about. Further
/// ones are forgotten until a later visit.
const MOST_WAITING: usize = 256;
/// The time for which a visit of a name without a certificate is not told again.
const MISSING_AGAIN: Duration = Duration::from_secs(30);
/// The time for which a visit of a name with a certificate is not told again. Each tells that the
/// certificate is still wanted.
const HELD_AGAIN: Duration = Duration::from_secs(3600);
/// Names that are remembered as told. Beyond, all are forgotten, and told again.
const MOST_REMEMBERED: usize = 50_000;
/// The time between two names without a folder, which the `ask` URL is asked about: clients may
/// think of any number of names.
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// The destination of names that visitors ask for.
#[derive(Debug)]
pub(crate) struct Demands {
    /// By site, whether its certificates are ordered on demand.
    sites: Vec<bool>,
    waiting: SyncSender<(usize, String)>,
    missing: Mutex<ToldNames>,
    held: Mutex<ToldNames>,
}

/// The names that were told.
#[derive(Debug)]
struct ToldNames {
    names: HashSet<String>,
    since: Instant,
}

impl Demands {
    /// Starts the thread, which tells the supervisor at the other end of `channel`. `None` if no
    /// site has certificates on demand.
    ///
    /// # Errors
    /// The system gives no thread, or no descriptor.
    pub(super) fn start(config: &Config, channel: &SeqPacket) -> io::Result<Option<Demands>> {
        let on_demand = |site| config.acme.is_on_demand(site);
        let sites: Vec<bool> = config.sites.iter().map(on_demand).collect();
        if !sites.contains(&true) {
            return Ok(None);
        }
        let sites_of_looker = config.sites.iter().map(|site| LookerSite {
            name: site.name.clone(),
            root: site.root.clone(),
            hosts: site.hosts.clone(),
        });
        let looker = Looker {
            sites: sites_of_looker.collect(),
            asks: config.acme.ask.is_some(),
            channel: channel.duplicate()?,
        };
        let (waiting, names) = sync_channel(MOST_WAITING);
        std::thread::Builder::new()
            .name("demands".to_owned())
            .spawn(move || looker.run(&names))?;
        Ok(Some(Demands {
            sites,
            waiting,
            missing: Mutex::new(ToldNames::new()),
            held: Mutex::new(ToldNames::new()),
        }))
    }

    /// Returns whether certificates of the site are ordered on demand.
    pub(crate) fn has(&self, site: usize) -> bool {
        self.sites.get(site).is_some_and(|is_on_demand| *is_on_demand)
    }

    /// Notes that a visitor asks for `name`, which is in lower case. Never waits.
    pub(crate) fn note(&self, site: &Site, name: &str, has_certificate: bool) {
        let (told, again) = match has_certificate {
            true => (&self.held, HELD_AGAIN),
            false => (&self.missing, MISSING_AGAIN),
        };
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_new(name, again) && has_name(site, name) && names::check(name).is_ok() {
            let sent = self.waiting.try_send((site.number(), name.to_owned()));
            if sent.is_ok() {
                told.names.insert(name.to_owned());
            }
        }
    }
}

/// Returns whether the name is one of the site's. The first site also gets requests for names that
/// no site has.
fn has_name(site: &Site, name: &str) -> bool {
    let mut hosts = site.config().hosts.iter();
    hosts.any(|host| *host == HostPattern::Default || host.lists(name))
}

impl ToldNames {
    fn new() -> ToldNames {
        ToldNames {
            names: HashSet::new(),
            since: Instant::now(),
        }
    }

    fn is_new(&mut self, name: &str, again: Duration) -> bool {
        if self.names.len() >= MOST_REMEMBERED || self.since.elapsed() >= again {
            *self = ToldNames::new();
        }
        !self.names.contains(name)
    }
}

/// The thread that looks for folders.
struct Looker {
    sites: Vec<LookerSite>,
    /// Whether a URL is asked about names without a folder.
    asks: bool,
    channel: SeqPacket,
}

impl Looker {
    /// Runs until the front ends. Names with a folder are told at once: the number of other names
    /// that clients think of does not matter to them.
    fn run(&self, names: &Receiver<(usize, String)>) {
        let mut questions = VecDeque::new();
        let mut next_question = Instant::now();
        loop {
            let received = match questions.is_empty() {
                true => names.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => {
                    let pause = next_question.saturating_duration_since(Instant::now());
                    names.recv_timeout(pause)
                }
            };
            match received {
                Ok((site, name)) => {
                    let demand = self.sites[site].demand(name);
                    if demand.has_folder {
                        self.tell(demand);
                    } else if self.asks && questions.len() < MOST_WAITING {
                        questions.push_back(demand);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= next_question
                && let Some(demand) = questions.pop_front()
            {
                self.tell(demand);
                next_question = Instant::now() + ASK_PAUSE;
            }
        }
    }

    fn tell(&self, demand: Demand) {
        // A supervisor that is busy is told with a later visit.
        let _ = self.channel.send_now(&FromFront::Demand(demand).encode(), &[]);
    }
}

/// The part of a site's settings that the thread needs.
struct LookerSite {
    name: String,
    root: RootTemplate,
    hosts: Vec<HostPattern>,
}

impl LookerSite {
    /// Looks for the name's folder, and finds out who the name belongs to.
    fn demand(&self, name: String) -> Demand {
        let owner = self.owner(&name);
        let suffixes = self.hosts.iter().filter_map(|host| match host {
            HostPattern::Wildcard(suffix) if host.lists(&name) => Some(suffix.as_str()),
            _ => None,
        });
        let nearest = suffixes.max_by_key(|suffix| suffix.len());
        Demand {
            site: self.name.clone(),
            domain: names::domain(&name, nearest).to_owned(),
            has_folder: owner.is_some(),
            owner: owner.filter(|owner| *owner != 0),
            name,
        }
    }

    /// Returns the owner of the folder that has the name; `None` without a folder. A link belongs
    /// to the user who made it, wherever it leads.
    fn owner(&self, name: &str) -> Option<u32> {
        let RootTemplate::PerHost { before, .. } = &self.root else {
            return None;
        };
        let root = self.root.expand(name);
        root.metadata().ok().filter(Metadata::is_dir)?;
        let found = Path::new(before).join(name).symlink_metadata();
        found.ok().map(|found| found.uid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_the_owner_of_its_folder_and_to_a_domain() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a.shop.example.org/public")).unwrap();
        std::fs::create_dir_all(at("x.example.net/public")).unwrap();
        std::os::unix::fs::symlink("x.example.net", at("link.example.org")).unwrap();
        std::fs::write(at("file.example.org"), "x").unwrap();
        let is_root =
            std::os::unix::fs::chown(at("x.example.net/public"), Some(1001), None).is_ok();
        if is_root {
            std::os::unix::fs::chown(at("a.shop.example.org"), Some(1002), None).unwrap();
            std::os::unix::fs::lchown(at("link.example.org"), Some(1003), None).unwrap();
        } else {
            howdah_skip::skip!("only root can give folders away");
        }
        let site = LookerSite {
            name: "customers".to_owned(),
            root: RootTemplate::PerHost {
                before: format!("{}/", folder.path().display()),
                after: "/public".to_owned(),
            },
            hosts: vec![
                HostPattern::Wildcard("org".into()),
                HostPattern::Wildcard("example.org".into()),
                HostPattern::Default,
            ],
        };
        let own = at("").metadata().unwrap().uid();
        let or_own = |uid| Some(if is_root { uid } else { own }).filter(|uid| *uid != 0);
        for (name, has_folder, owner, domain) in [
            ("a.shop.example.org", true, or_own(1002), "shop.example.org"),
            // Not the owner of what is in the folder.
            ("x.example.net", true, or_own(own), "example.net"),
            ("link.example.org", true, or_own(1003), "link.example.org"),
            ("file.example.org", false, None, "file.example.org"),
            ("none.example.com", false, None, "example.com"),
        ] {
            let expected = Demand {
                name: name.to_owned(),
                has_folder,
                site: "customers".to_owned(),
                owner,
                domain: domain.to_owned(),
            };
            assert_eq!(site.demand(name.to_owned()), expected);
        }
    }

    #[test]
    fn names_with_a_folder_wait_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("good.example.org")).unwrap();
        let text = format!(
            "listen = [\":443\"]\n[acme]\nterms_agreed = true\nask = \"http://127.0.0.1:9/\"\n\
             [[site]]\nhosts = [\"*.example.org\"]\nroot = \"{}/{{host}}\"\nphp = false\n",
            folder.path().display()
        );
        let config = Config::parse(&text, "howdah.toml").unwrap();
        let (ours, theirs) = SeqPacket::pair().unwrap();
        let demands = Demands::start(&config, &theirs).unwrap().unwrap();
        let told = || {
            let mut room = [0; 1024];
            let length = ours.receive(&mut room).unwrap().length;
            match FromFront::decode(&room[..length]).unwrap() {
                FromFront::Demand(demand) => (demand.name, demand.has_folder),
                other => panic!("{other:?}"),
            }
        };
        for number in 0..MOST_WAITING - 1 {
            demands.waiting.send((0, format!("flood-{number}.example.org"))).unwrap();
        }
        demands.waiting.send((0, "good.example.org".to_owned())).unwrap();
        // One by one, with pauses, the others would take seconds.
        let before = (0..MOST_WAITING).map(|_| told()).position(|(name, has_folder)| {
            assert_eq!(has_folder, name == "good.example.org");
            has_folder
        });
        let before = before.expect("the good name is told");
        assert!(before < MOST_WAITING / 2, "{before} others came first");
        assert!(!told().1, "the others are told as well");
    }
}
