//! Certificates on demand: names that are in no configuration, and that visitors ask for.
//!
//! A name gets a certificate if its site has a folder for it, or if the `ask` URL allows it. The
//! schedule bounds the orders of an hour. A name is renewed while visitors ask for it.

use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::mpsc;

use crate::ask::Permission;
use crate::names;
use crate::process::{Orders, StepResult};

/// Names that are known at most. Further ones get no certificate, and the error log says so.
const MOST_NAMES: usize = 100_000;
/// Questions to the `ask` URL under way. A name beyond is forgotten, and told again with a later
/// visit.
const MOST_QUESTIONS: usize = 8;

/// A name that a visitor asks for.
#[derive(Debug)]
pub(crate) struct Demand {
    pub(crate) name: String,
    /// The name's site has a folder for it.
    pub(crate) has_folder: bool,
}

/// The names that visitors have asked for.
pub(crate) struct DemandedNames {
    permission: Option<Rc<Permission>>,
    incoming: mpsc::Receiver<Demand>,
    /// By name, the index of the certificate.
    known: HashMap<Rc<str>, usize>,
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
        let Demand { name, has_folder } = demand;
        if self.settings.on_demand_per_hour == 0 || self.is_configured(&name) {
            return;
        }
        let are_own = !matches!(&self.settings.roots, Ok(roots) if roots.is_empty());
        if names::is_wildcard(&name) || names::check_for(&name, are_own).is_err() {
            return;
        }
        if has_folder {
            return self.allow(&name);
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
            let result = permission.of_name(&name).await;
            // The receiver lives as long as the event loop.
            let _ = done.send(StepResult::Permission { name, result });
        });
    }

    /// Takes the answer of the `ask` URL.
    pub(crate) fn permitted(&mut self, name: &str, result: Result<bool, String>) {
        self.demands.questions -= 1;
        let failure = match result {
            Ok(is_allowed) => {
                self.demands.failure = None;
                if is_allowed {
                    self.allow(name);
                }
                return;
            }
            Err(failure) => failure,
        };
        if self.demands.failure.as_ref() != Some(&failure) {
            let what = format!(
                "{name} gets no certificate on demand: `acme.ask` gives no answer: {failure}; the \
                 next visit asks again"
            );
            self.presenter.log(true, what);
            self.demands.failure = Some(failure);
        }
    }

    /// Orders or renews the certificate of `name` when it is time.
    fn allow(&mut self, name: &str) {
        let certificate = match self.demands.known.get(name) {
            Some(certificate) => *certificate,
            None if self.demands.known.len() >= MOST_NAMES => return self.tell_of_bound(name),
            None => {
                let certificate = self.add(name);
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
                "{name} gets no certificate on demand: {MOST_NAMES} other names have one; use a \
                 wildcard with `dns_hook`"
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
