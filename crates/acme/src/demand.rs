//! Certificates on demand: names that are in no configuration, and that visitors ask for.
//!
//! A name gets a certificate if its site has a folder for it, or if the `ask` URL allows it. The
//! schedule bounds the orders of an hour, also those of each site, owner and domain. A name is
//! renewed while visitors ask for it.

use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::mpsc;

use crate::ask::Permission;
use crate::message::Demand;
use crate::names;
use crate::process::{Orders, StepResult};
use crate::schedule::Claimant;

/// Names that are known at most. Further ones get no certificate, and the error log says so. Those
/// of one owner are at most half of what others have left.
const MOST_NAMES: usize = 100_000;
/// Questions to the `ask` URL under way. A name beyond is forgotten, and told again with a later
/// visit.
const MOST_QUESTIONS: usize = 8;

/// The names that visitors have asked for.
pub(crate) struct DemandedNames {
    permission: Option<Rc<Permission>>,
    incoming: mpsc::Receiver<Demand>,
    /// By name, the index of the certificate.
    known: HashMap<Rc<str>, usize>,
    parties: Parties,
    questions: usize,
    /// The last reason why a question had no answer. The same one is logged once.
    failure: Option<String>,
    /// Whether the log says that there are too many names.
    is_full: bool,
}

impl DemandedNames {
    pub(crate) fn new(
        permission: Option<Permission>,
        incoming: mpsc::Receiver<Demand>,
    ) -> DemandedNames {
        DemandedNames {
            permission: permission.map(Rc::new),
            incoming,
            known: HashMap::new(),
            parties: Parties::default(),
            questions: 0,
            failure: None,
            is_full: false,
        }
    }

    /// Waits for the next demand. `None` once nothing can send any more.
    pub(crate) async fn next(&mut self) -> Option<Demand> {
        self.incoming.recv().await
    }
}

impl Orders {
    /// Takes a name that a visitor asks for. The answer to a question is sent to `done`.
    pub(crate) fn take_demand(&mut self, demand: Demand, done: &mpsc::UnboundedSender<StepResult>) {
        let name = &demand.name;
        if self.settings.on_demand_per_hour == 0 || self.is_configured(name) {
            return;
        }
        let are_own = !matches!(&self.settings.roots, Ok(roots) if roots.is_empty());
        if names::is_wildcard(name) || names::check_for(name, are_own).is_err() {
            return;
        }
        if demand.has_folder {
            return self.allow(&demand);
        }
        let Some(permission) = self.demands.permission.clone() else {
            return;
        };
        if self.demands.questions >= MOST_QUESTIONS {
            return;
        }
        self.demands.questions += 1;
        let done = done.clone();
        tokio::task::spawn_local(async move {
            let result = permission.of_name(&demand.name).await;
            // The receiver lives as long as the event loop.
            let _ = done.send(StepResult::Permission { demand, result });
        });
    }

    /// Takes the answer of the `ask` URL.
    pub(crate) fn permitted(&mut self, demand: &Demand, result: Result<bool, String>) {
        self.demands.questions -= 1;
        let failure = match result {
            Ok(is_allowed) => {
                self.demands.failure = None;
                if is_allowed {
                    self.allow(demand);
                }
                return;
            }
            Err(failure) => failure,
        };
        if self.demands.failure.as_ref() != Some(&failure) {
            let what = format!(
                "{} gets no certificate on demand: `acme.ask` gives no answer: {failure}; the next \
                 visit asks again",
                demand.name
            );
            self.presenter.log(true, what);
            self.demands.failure = Some(failure);
        }
    }

    /// Orders or renews the certificate of a name when it is time.
    fn allow(&mut self, demand: &Demand) {
        let certificate = match self.demands.known.get(&*demand.name) {
            Some(certificate) => *certificate,
            None => {
                let Some(claimant) = self.demands.parties.claimant(demand, MOST_NAMES) else {
                    return self.tell_of_bound(&demand.name);
                };
                let certificate = self.add(&demand.name, claimant);
                let name = Rc::clone(&self.certificates[certificate].name);
                self.demands.known.insert(name, certificate);
                certificate
            }
        };
        let now = self.now();
        self.schedule.demand(certificate, now);
        self.tell(certificate);
    }

    fn tell_of_bound(&mut self, name: &str) {
        if !std::mem::replace(&mut self.demands.is_full, true) {
            let what = format!(
                "{name} gets no certificate on demand: too many other names have one, of at most \
                 {MOST_NAMES}, of which one owner's are half of what others leave; use a wildcard \
                 with `dns_hook`"
            );
            self.presenter.log(true, what);
        }
    }

    /// Returns whether the configuration has `name`, or a wildcard for it.
    fn is_configured(&self, name: &str) -> bool {
        let above = name.split_once('.').map(|(_, above)| above);
        self.settings.names.iter().any(|own| match own.strip_prefix("*.") {
            Some(domain) => above == Some(domain),
            None => own == name,
        })
    }
}

/// The sites, owners and domains of the known names.
#[derive(Debug, Default)]
struct Parties {
    numbers: HashMap<(String, Option<u32>, Option<String>), usize>,
    /// Known names, by site and owner.
    names: HashMap<(usize, Option<usize>), usize>,
    all: usize,
}

impl Parties {
    /// Returns the parties of a new name, which is known from now on. `None`: of `most` names there
    /// is no room for it.
    fn claimant(&mut self, demand: &Demand, most: usize) -> Option<Claimant> {
        let Demand { site, owner, domain, .. } = demand;
        let site_number = self.number(site, None, None);
        let owner_number = owner.map(|owner| self.number(site, Some(owner), None));
        let domain = self.number(site, *owner, Some(domain));
        let own = self.names.entry((site_number, owner_number)).or_default();
        let room = most - (self.all - *own);
        // Names without an owner of their own are the operator's.
        let share = owner.map_or(room, |_| (room / 2).max(1));
        if self.all >= most || *own >= share {
            return None;
        }
        *own += 1;
        self.all += 1;
        Some(Claimant {
            site: site_number,
            owner: owner_number,
            domain,
        })
    }

    fn number(&mut self, site: &str, owner: Option<u32>, domain: Option<&str>) -> usize {
        let next = self.numbers.len();
        let key = (site.to_owned(), owner, domain.map(str::to_owned));
        *self.numbers.entry(key).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(site: &str, owner: Option<u32>, domain: &str) -> Demand {
        Demand {
            name: "a.example.org".into(),
            has_folder: true,
            site: site.into(),
            owner,
            domain: domain.into(),
        }
    }

    #[test]
    fn parties_have_numbers_of_their_own() {
        let mut parties = Parties::default();
        let mut of = |site, owner, domain| {
            parties.claimant(&demand(site, owner, domain), MOST_NAMES).unwrap()
        };
        let first = of("a", Some(1), "x.org");
        assert_eq!(of("a", Some(1), "x.org"), first);
        let second = of("a", Some(1), "y.org");
        assert_eq!((second.site, second.owner), (first.site, first.owner));
        let others =
            [second, of("a", Some(2), "x.org"), of("b", Some(1), "x.org"), of("a", None, "x.org")];
        for (number, one) in others.iter().enumerate() {
            assert!(others[..number].iter().all(|other| other.domain != one.domain), "{one:?}");
            assert_ne!(one.domain, first.domain);
        }
        assert!(others[1].owner != first.owner && others[2].owner != first.owner);
        assert_eq!(others[3].owner, None);
        assert_ne!(others[2].site, first.site);
    }

    #[test]
    fn an_owner_has_half_of_the_names_that_others_leave() {
        let mut parties = Parties::default();
        let mut take = |owner, wanted: usize| {
            let one = demand("a", owner, "x.org");
            (0..wanted).filter(|_| parties.claimant(&one, 100).is_some()).count()
        };
        assert_eq!(take(Some(1), 1000), 50);
        assert_eq!(take(Some(2), 1000), 25);
        assert_eq!(take(Some(3), 2), 2);
        assert_eq!(take(None, 1000), 23, "the operator's own");
        assert_eq!(take(Some(4), 1), 0);
    }
}
