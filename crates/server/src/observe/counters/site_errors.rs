//! The responses of a site by which a probation judges its configuration.

use super::super::histogram::Histogram;
use super::SiteTotals;
use super::clients::{PlaceNumbers, Tally};

/// Responses that scripts have ended, or upstreams begun, from which on others that wait in vain
/// tell of too many requests alone.
const ENOUGH: u64 = 10;

/// The responses of a site by client. Those of 5xx that have an
/// [`Excuse`](super::super::culprit::Excuse) are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteErrors {
    /// The site.
    pub(crate) name: String,
    /// The clients that have got responses, each at a place of its own.
    pub(crate) clients: Vec<ClientResponses>,
}

/// The responses that a client has got from a site. Clients at the same place are one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientResponses {
    pub(crate) place: u8,
    /// Responses that have ended.
    pub(crate) all: Tally,
    /// Those that scripts and upstreams were to make: those that no file has answered.
    pub(crate) made: Tally,
    /// Responses of 5xx that are excused if scripts end, or upstreams answer, of which too few have
    /// done so yet. They are in no other number.
    pub(crate) unproven: u32,
}

/// Responses of a site and the errors among them, over all clients.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ErrorShare {
    pub(crate) responses: u64,
    /// Responses with a status of 5xx.
    pub(crate) errors: u64,
    /// Clients that have got a response.
    pub(crate) clients: u64,
    /// Clients that have got an error.
    pub(crate) failed: u64,
    /// The percentage of errors among a client's responses, on average over the clients.
    pub(crate) percent: f64,
}

impl SiteErrors {
    /// Returns the responses of the site with that name, of which `places` has those of its
    /// clients.
    pub(super) fn of(name: &str, site: SiteTotals<'_>, places: &[PlaceNumbers]) -> SiteErrors {
        let lacks_scripts = Histogram::of(site.pool().took()).count < ENOUGH;
        let lacks_upstreams = site.upstream_answers() < ENOUGH;
        let client = |(place, numbers): (u8, &PlaceNumbers)| {
            let (by_scripts, by_upstreams) = numbers.excused;
            let unproven = [(lacks_scripts, by_scripts), (lacks_upstreams, by_upstreams)];
            let unproven = unproven.into_iter().filter(|(is_lacking, _)| *is_lacking);
            ClientResponses {
                place,
                all: numbers.all,
                made: numbers.made,
                unproven: unproven.fold(0, |sum, (_, excused)| excused.saturating_add(sum)),
            }
        };
        let clients = (0..).zip(places).map(client);
        SiteErrors {
            name: name.to_owned(),
            clients: clients.filter(ClientResponses::is_any).collect(),
        }
    }

    /// Returns the share of errors among all responses.
    pub(crate) fn of_all(&self) -> ErrorShare {
        ErrorShare::over(self.clients.iter().map(|client| client.all))
    }

    /// Returns the share of errors among the responses that scripts and upstreams were to make.
    pub(crate) fn of_made(&self) -> ErrorShare {
        ErrorShare::over(self.clients.iter().map(|client| client.made))
    }

    /// Counts the responses as errors whose excuse is not proven.
    pub(crate) fn without_patience(mut self) -> SiteErrors {
        for client in &mut self.clients {
            let errors = std::mem::take(&mut client.unproven);
            for tally in [&mut client.all, &mut client.made] {
                tally.add(Tally { responses: errors, errors });
            }
        }
        self
    }

    /// Adds other responses of the site.
    pub(crate) fn add(&mut self, other: &SiteErrors) {
        for client in &other.clients {
            match self.clients.iter_mut().find(|own| own.place == client.place) {
                Some(own) => {
                    own.all.add(client.all);
                    own.made.add(client.made);
                    own.unproven = own.unproven.saturating_add(client.unproven);
                }
                None => self.clients.push(*client),
            }
        }
    }

    /// Returns the responses that are not among `former`, those of the same site at an earlier
    /// time.
    pub(crate) fn since(&self, former: &SiteErrors) -> SiteErrors {
        let since = |client: &ClientResponses| {
            let before = former.clients.iter().find(|before| before.place == client.place);
            let before = before.copied().unwrap_or_default();
            ClientResponses {
                place: client.place,
                all: client.all.since(before.all),
                made: client.made.since(before.made),
                unproven: client.unproven.saturating_sub(before.unproven),
            }
        };
        SiteErrors {
            name: self.name.clone(),
            clients: self.clients.iter().map(since).filter(ClientResponses::is_any).collect(),
        }
    }
}

impl ClientResponses {
    /// Returns whether the client has got a response.
    fn is_any(&self) -> bool {
        self.all.responses > 0 || self.unproven > 0
    }
}

impl ErrorShare {
    /// Returns the share over clients with these responses. Each client that has got one counts
    /// once: the number of its requests is its own choice.
    fn over(clients: impl Iterator<Item = Tally>) -> ErrorShare {
        let mut share = ErrorShare::default();
        for Tally { responses, errors } in clients.filter(|client| client.responses > 0) {
            share.responses += u64::from(responses);
            share.errors += u64::from(errors);
            share.clients += 1;
            share.failed += u64::from(errors > 0);
            share.percent += 100.0 * f64::from(errors) / f64::from(responses);
        }
        share.percent /= share.clients.max(1) as f64;
        share
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use howdah_http::Status;

    use super::super::super::culprit::Excuse;
    use super::super::{CountedFigures, FrontCounters};

    /// Counts a response of site 0 on thread 0 for the client 192.0.2.`client`.
    fn count_for(
        (front, client): (&FrontCounters, u8),
        status: Status,
        (is_made, excuse): (bool, Option<Excuse>),
    ) {
        let figures = CountedFigures {
            status,
            bytes: 0,
            took: Duration::from_millis(3),
            is_complete: true,
            is_made,
            excuse,
            client: [192, 0, 2, client].into(),
        };
        front.thread(0).count(Some(0), figures);
    }

    /// Counts a response of site 0 on thread 0.
    fn count(front: &FrontCounters, status: Status, made: (bool, Option<Excuse>)) {
        count_for((front, 1), status, made);
    }

    fn front() -> FrontCounters {
        FrontCounters::new(1, vec![("shop".to_owned(), Vec::new())], Vec::new()).unwrap()
    }

    /// Responses, those made by scripts and upstreams, and errors, as long as there is patience and
    /// afterwards.
    fn judged(front: &FrontCounters) -> [(u64, u64, u64); 2] {
        let early = front.server_errors().remove(0);
        let late = early.clone().without_patience();
        [early, late].map(|site| {
            let (all, made) = (site.of_all(), site.of_made());
            (all.responses, made.responses, all.errors)
        })
    }

    /// Visitors who ask for too much cannot undo a reload. Scripts of which none ends can, once
    /// they had time to end.
    #[test]
    fn a_full_queue_is_no_server_error_where_scripts_run() {
        for (scripts, early, late) in [
            (0, (10, 10, 10), (30, 30, 30)),
            (9, (19, 19, 10), (39, 39, 30)),
            (10, (20, 20, 10), (20, 20, 10)),
        ] {
            let front = front();
            let thread = front.thread(0);
            let pool = &thread.pool(0).all;
            for _ in 0..scripts {
                count(&front, Status::OK, (true, None));
                pool.count_figures(&howdah_php::RequestFigures::default());
            }
            for _ in 0..10 {
                for _ in 0..2 {
                    let excused = (true, Some(Excuse::ScriptsEnd));
                    count(&front, Status::SERVICE_UNAVAILABLE, excused);
                }
                count(&front, Status::INTERNAL_SERVER_ERROR, (true, None));
            }
            assert_eq!(judged(&front), [early, late], "{scripts}");
        }
    }

    #[test]
    fn busy_connections_to_upstreams_are_no_server_errors_where_upstreams_answer() {
        for (answers, early, late) in [(9, (9, 9, 0), (29, 29, 20)), (10, (10, 10, 0), (10, 10, 0))]
        {
            let front = front();
            for _ in 0..answers {
                count(&front, Status::OK, (true, None));
                front.thread(0).count_upstream_answer(0);
            }
            for _ in 0..20 {
                count(&front, Status::SERVICE_UNAVAILABLE, (true, Some(Excuse::UpstreamsAnswer)));
            }
            assert_eq!(judged(&front), [early, late], "{answers}");
        }
    }

    #[test]
    fn what_visitors_alone_cause_is_no_server_error() {
        let front = front();
        for _ in 0..20 {
            count(&front, Status::SERVICE_UNAVAILABLE, (false, Some(Excuse::Always)));
            count(&front, Status::INSUFFICIENT_STORAGE, (false, Some(Excuse::Always)));
        }
        count(&front, Status::UNAUTHORIZED, (false, None));
        assert_eq!(judged(&front), [(1, 0, 0); 2]);
        // A site in which nothing works fails under any load.
        for _ in 0..10 {
            count(&front, Status::INTERNAL_SERVER_ERROR, (false, None));
        }
        assert_eq!(judged(&front), [(11, 0, 10); 2]);
    }

    #[test]
    fn each_client_counts_once() {
        let front = front();
        for _ in 0..1000 {
            count_for((&front, 1), Status::INTERNAL_SERVER_ERROR, (true, None));
        }
        let attacker = front.server_errors().remove(0);
        assert_eq!((attacker.of_made().clients, attacker.of_made().percent), (1, 100.0));
        // Until one of the others has another place.
        let other = (2..=255).find(|client| {
            count_for((&front, *client), Status::OK, (false, None));
            front.server_errors()[0].clients.len() == 2
        });
        let site = front.server_errors().remove(0);
        let (all, made) = (site.of_all(), site.of_made());
        assert_eq!((all.clients, all.failed, made.clients), (2, 1, 1), "{other:?}");
        // Good responses of others at the first place make its share of errors smaller.
        assert!(all.percent <= 50.0 && all.percent > 30.0, "{all:?}");
        assert_eq!(made, attacker.of_made());

        let later = site.since(&attacker);
        assert_eq!((later.of_all().errors, later.of_made().clients), (0, 0));
        let mut sum = later.clone();
        sum.add(&attacker);
        assert_eq!((sum.of_all().responses, sum.of_all().clients), (all.responses, 2));
        assert_eq!(site.since(&site).clients, []);
    }
}
