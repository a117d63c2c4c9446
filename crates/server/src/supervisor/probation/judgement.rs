//! The judgement of a probation: which responses are compared, and when they are too bad.

use std::time::{Duration, Instant};

use crate::observe::{ErrorShare, PLACES, SiteErrors};

/// Responses of a site before which its errors are not judged.
pub(super) const LEAST_RESPONSES: u64 = 10;
/// Clients of a site before which its errors are not judged, as long as there is patience. A client
/// alone can provoke errors faster than others come, and a person may have two networks. A site
/// that had fewer clients before is judged with as many.
const LEAST_CLIENTS: u64 = 4;
/// The time within which ten scripts of an application that works have ended, and ten responses of
/// its upstreams have begun, whatever visitors ask for, and in which some of the visitors of a site
/// with many have come. Then requests that wait in vain are errors, and as many clients count as
/// there are. The same applies at the end of a shorter probation.
const PATIENCE: Duration = Duration::from_secs(5);

/// The responses of the generation that serves, as they were half a minute ago and before. Errors
/// that are older say nothing of the generation that a reload replaces.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct FormerAnswers {
    /// Number of the generation.
    number: u64,
    /// The responses at the last two looks, the older one first.
    looks: [Vec<SiteErrors>; 2],
    /// Time of the next look; `None` before the first one.
    pub(super) due: Option<Instant>,
}

impl FormerAnswers {
    /// Notes the responses of a generation until now.
    pub(super) fn note(&mut self, number: u64, present: Vec<SiteErrors>) {
        if std::mem::replace(&mut self.number, number) != number {
            self.looks = Default::default();
        }
        self.looks.rotate_left(1);
        self.looks[1] = present;
    }

    /// Returns the responses of a generation since the older look; all of `present` for a site with
    /// few since then.
    pub(super) fn lately(&self, number: u64, present: Vec<SiteErrors>) -> Vec<SiteErrors> {
        let before = |name: &str| {
            let mut former = self.looks[0].iter().filter(|_| self.number == number);
            former.find(|site| site.name == name)
        };
        let lately = |site: SiteErrors| {
            let Some(former) = before(&site.name) else {
                return site;
            };
            let since = site.since(former);
            match since.of_all().responses < LEAST_RESPONSES {
                true => site,
                false => since,
            }
        };
        present.into_iter().map(lately).collect()
    }
}

/// Returns whether scripts and upstreams had enough time to answer in a probation of `time`, of
/// which `left` is left.
pub(super) fn is_patience_over(time: Duration, left: Duration) -> bool {
    left <= time.saturating_sub(PATIENCE)
}

/// The terms of a judgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Percent of a site's responses that may be server errors.
    pub(super) most: u64,
    /// Responses of a site before which its errors are not judged.
    pub(super) least: u64,
    /// Clients that have not come yet may still come.
    pub(super) is_patient: bool,
}

/// The responses of a site that are too often errors.
struct TooManyErrors {
    share: ErrorShare,
    /// The makers of these responses, as words of a message; empty for all responses.
    makers: &'static str,
}

/// Returns the responses of `site` of which more than `most` percent were server errors, on average
/// over its clients; `None` where they were fewer. The percentage is of all responses, or of those
/// that scripts and upstreams were to make: pictures do not make up for an application that fails.
/// `least`: the clients that have to have got responses of the one and of the other kind.
fn too_many_errors(most: u64, site: &SiteErrors, least: [u64; 2]) -> Option<TooManyErrors> {
    let (all, made) = (site.of_all(), site.of_made());
    // Where there are others, the only client that asks scripts may ask for their errors alone.
    let least_made = least[1].max(all.clients.min(2));
    let can_tell = made.responses >= LEAST_RESPONSES && made.clients >= least_made;
    [
        Some((all, "")).filter(|_| all.clients >= least[0]),
        Some((made, " by scripts and upstreams")).filter(|_| can_tell),
    ]
    .into_iter()
    .flatten()
    .find(|(share, _)| share.percent > most as f64 + ROUNDING)
    .map(|(share, makers)| TooManyErrors { share, makers })
}

/// Returns why a generation with the responses `present` has failed, where `former` are those of
/// the generation before; `None` if it has not.
pub(super) fn failure(
    terms: Terms,
    former: &[SiteErrors],
    present: &[SiteErrors],
) -> Option<String> {
    let bad = |site: &SiteErrors| {
        let before = former.iter().find(|former| former.name == site.name);
        let clients = |share: fn(&SiteErrors) -> ErrorShare| match terms.is_patient {
            true => before.map_or(0, |before| share(before).clients).min(LEAST_CLIENTS),
            false => 0,
        };
        let least = [SiteErrors::of_all, SiteErrors::of_made].map(clients);
        let was_bad = || before.is_some_and(|it| too_many_errors(terms.most, it, [0; 2]).is_some());
        let errors = too_many_errors(terms.most, site, least).filter(|_| !was_bad())?;
        Some(errors.describe(&site.name, terms.most))
    };
    present
        .iter()
        .filter(|site| site.of_all().responses >= terms.least)
        .find_map(bad)
}

impl TooManyErrors {
    /// Says how many responses of which site have failed, and for how many clients.
    fn describe(&self, site: &str, most: u64) -> String {
        let ErrorShare {
            responses,
            errors,
            clients,
            failed,
            percent,
        } = self.share;
        let makers = self.makers;
        // Rounded up: it is more than `most`.
        let percent = (percent * 10.0 - ROUNDING).ceil() / 10.0;
        let told = format!("{errors} of the first {responses} responses of site {site}{makers}");
        let told = match clients {
            1 => format!("{told}, all to one client, were server errors (5xx): {percent} %"),
            _ => {
                let groups = if clients < PLACES as u64 { "" } else { "groups of " };
                format!(
                    "{told} were server errors (5xx), to {failed} of {clients} {groups}clients: \
                     on average {percent} % of a client's responses"
                )
            }
        };
        format!("{told}, more than {most} % (`probation_errors`)")
    }
}

/// The most that an average is wrong by because shares are rounded. A single error among the
/// responses of a client is more.
const ROUNDING: f64 = 1e-11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{ClientResponses, Tally};

    const EARLY: Terms = Terms {
        most: 50,
        least: LEAST_RESPONSES,
        is_patient: true,
    };
    const LATE: Terms = Terms { is_patient: false, ..EARLY };

    /// A client at a place, with its responses, those that scripts have made, and the errors among
    /// both.
    fn client(place: u8, responses: u32, made: u32, errors: u32) -> ClientResponses {
        ClientResponses {
            place,
            all: Tally { responses, errors },
            made: Tally {
                responses: made,
                errors: errors.min(made),
            },
            unproven: 0,
        }
    }

    fn site(name: &str, clients: impl IntoIterator<Item = ClientResponses>) -> SiteErrors {
        SiteErrors {
            name: name.to_owned(),
            clients: clients.into_iter().collect(),
        }
    }

    /// A site with one client, whose responses scripts have made.
    fn alone(name: &str, responses: u32, errors: u32) -> SiteErrors {
        site(name, [client(0, responses, responses, errors)])
    }

    /// Returns clients from place 1 on, each with these responses of scripts, and errors.
    fn visitors(number: u8, responses: u32, errors: u32) -> impl Iterator<Item = ClientResponses> {
        (1..=number).map(move |place| client(place, responses, responses, errors))
    }

    #[test]
    fn errors_of_long_ago_do_not_excuse_a_new_generation() {
        let site = |responses, errors| vec![alone("shop", responses, errors)];
        let mut former = FormerAnswers::default();
        assert_eq!(former.lately(7, site(100, 90)), site(100, 90), "nothing is known");
        former.note(7, site(100, 90));
        assert_eq!(former.lately(7, site(200, 90)), site(200, 90), "too short a time");
        former.note(7, site(200, 90));
        for (present, lately) in [(site(200, 90), site(100, 0)), (site(250, 100), site(150, 10))] {
            assert_eq!(former.lately(7, present.clone()), lately);
            assert_eq!(former.lately(8, present.clone()), present, "another generation");
        }
        former.note(7, site(201, 91));
        assert_eq!(former.lately(7, site(205, 91)), site(205, 91), "too few");
        former.note(8, site(1, 1));
        assert_eq!(former.lately(8, site(20, 1)), site(20, 1));
    }

    #[test]
    fn clients_of_long_ago_are_none() {
        let mut former = FormerAnswers::default();
        let before = site("shop", visitors(5, 10, 0));
        former.note(7, vec![before.clone()]);
        former.note(7, vec![before.clone()]);
        let attacker = client(9, 50, 50, 50);
        let mut present = before;
        present.clients.push(attacker);
        assert_eq!(former.lately(7, vec![present]), [site("shop", [attacker])]);
    }

    #[test]
    fn numbers_that_begin_again_have_the_right_difference() {
        let before = site("shop", [client(3, u32::MAX - 4, u32::MAX - 4, 7)]);
        let present = site("shop", [client(3, 15, 15, 9)]);
        assert_eq!(present.since(&before), site("shop", [client(3, 20, 20, 2)]));
    }

    #[test]
    fn scripts_have_their_time_to_end_or_the_whole_probation() {
        let seconds = Duration::from_secs;
        for (time, left, is_over) in
            [(30, 30, false), (30, 26, false), (30, 25, true), (2, 1, false), (2, 0, true)]
        {
            assert_eq!(is_patience_over(seconds(time), seconds(left)), is_over, "{left}");
        }
    }

    #[test]
    fn a_site_fails_that_was_well_before() {
        let made =
            |name: &str, responses, made, errors| site(name, [client(0, responses, made, errors)]);
        let former = [alone("well", 1000, 10), alone("ill", 1000, 900)];
        for (present, fails) in [
            (vec![], false),
            (vec![alone("well", 10, 5)], false),
            (vec![alone("well", 9, 9)], false),
            (vec![alone("well", 10, 6)], true),
            (vec![alone("ill", 50, 50)], false),
            (vec![alone("new", 50, 50)], true),
            (vec![alone("ill", 50, 50), alone("well", 50, 50)], true),
            (vec![made("well", 1000, 40, 30)], true),
            (vec![made("well", 1000, 40, 20)], false),
            (vec![made("well", 1000, 9, 9)], false),
        ] {
            for terms in [EARLY, LATE] {
                let failure = failure(terms, &former, &present);
                assert_eq!(failure.is_some(), fails, "{present:?}: {failure:?}");
            }
        }
        let (none_at_all, strict) = ([alone("well", 10, 1)], Terms { most: 0, ..EARLY });
        assert!(failure(strict, &former, &none_at_all).is_none(), "it had errors before");
        assert!(failure(strict, &[], &none_at_all).is_some());
        assert!(failure(strict, &[], &[alone("well", u32::MAX, 1)]).is_some());
    }

    /// The former responses are those of as many visitors, and good.
    #[test]
    fn a_client_that_asks_for_errors_counts_once() {
        let attacker = client(0, 100_000, 100_000, 100_000);
        // The other ones' errors of ten responses each.
        for (others, errors, early, late) in [
            (0, 0, true, true),
            (1, 0, false, false),
            (1, 1, true, true),
            (2, 0, false, false),
            (50, 0, false, false),
            (50, 10, true, true),
            (50, 5, true, true),
            (50, 4, false, false),
        ] {
            let former = [site("shop", visitors(others, 10, 0))];
            let present = [site("shop", visitors(others, 10, errors).chain([attacker]))];
            for (terms, fails) in [(EARLY, early), (LATE, late)] {
                let failure = failure(terms, &former, &present);
                assert_eq!(failure.is_some(), fails, "{others} {errors}: {failure:?}");
            }
        }
        // The errors of a client at a place that it shares with good ones are fewer.
        let shared = client(0, 100, 100, 40);
        assert!(failure(LATE, &[], &[site("shop", [shared])]).is_none());
    }

    /// Somebody who waits for a reload is faster than others. It is worth some seconds to see
    /// whether these come.
    #[test]
    fn a_client_is_not_judged_before_others_had_time_to_come() {
        let attacker = |networks| (0..networks).map(|place| client(place, 500, 500, 500));
        for (former, networks, early) in [
            (0, 1, true),
            (1, 1, true),
            (2, 1, false),
            (3, 2, false),
            (60, 3, false),
            (60, 4, true),
        ] {
            let former = [site("shop", visitors(former, 1, 0))];
            let present = [site("shop", attacker(networks))];
            assert_eq!(failure(EARLY, &former, &present).is_some(), early, "{former:?}");
            assert!(failure(LATE, &former, &present).is_some(), "nobody else comes");
        }
    }

    #[test]
    fn the_only_client_that_asks_scripts_does_not_decide_for_those_that_ask_for_files() {
        let asks_files = |place| client(place, 20, 0, 0);
        let fails = |clients: &[ClientResponses]| {
            failure(LATE, &[], &[site("shop", clients.iter().copied())])
        };
        let asks_scripts = |place| client(place, 50, 50, 50);
        assert!(fails(&[asks_scripts(0)]).is_some());
        let files = [2, 3, 4, 5].map(asks_files);
        assert_eq!(fails(&[&files[..], &[asks_scripts(0)]].concat()), None);
        let failed = fails(&[&files[..], &[asks_scripts(0), asks_scripts(1)]].concat());
        assert!(failed.is_some_and(|told| told.contains(" by scripts and upstreams ")));
    }

    #[test]
    fn a_client_that_has_asked_for_errors_before_does_not_save_a_generation_that_fails() {
        let attacker = client(0, 100_000, 100_000, 100_000);
        let present = [site("shop", visitors(8, 3, 3).chain([attacker]))];
        for (others, fails) in [(0, false), (1, true), (8, true)] {
            let former = [site("shop", visitors(others, 1, 0).chain([attacker]))];
            assert_eq!(failure(EARLY, &former, &present).is_some(), fails, "{others}");
        }
    }

    #[test]
    fn a_failure_says_how_many_clients_have_failed() {
        let told = |clients: Vec<ClientResponses>| {
            failure(LATE, &[], &[site("shop", clients)]).unwrap_or_default()
        };
        assert_eq!(
            told(vec![client(0, 20, 20, 12)]),
            "12 of the first 20 responses of site shop, all to one client, were server errors \
             (5xx): 60 %, more than 50 % (`probation_errors`)"
        );
        let many = [client(8, 3, 3, 1), client(9, 9, 9, 0)].into_iter();
        assert_eq!(
            told(many.chain(visitors(4, 10, 10)).collect()),
            "41 of the first 52 responses of site shop were server errors (5xx), to 5 of 6 \
             clients: on average 72.3 % of a client's responses, more than 50 % \
             (`probation_errors`)"
        );
        let told = told((0..PLACES as u8).map(|place| client(place, 9, 2, 2)).collect());
        assert!(told.contains(" to 64 of 64 groups of clients: on average 100 % of "), "{told}");
        assert!(told.starts_with("128 of the first 128 responses of site shop by scripts and "));
    }
}
