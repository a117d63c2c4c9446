//! The judgement of a probation: which responses are compared, and when they are too bad.

use std::time::{Duration, Instant};

use crate::observe::SiteErrors;

/// Responses of a site before which its errors are not judged.
pub(super) const LEAST_RESPONSES: u64 = 10;
/// The time within which ten scripts of an application that works have ended, and ten responses of
/// its upstreams have begun, whatever visitors ask for. Then requests that wait for these in vain
/// are errors, as they are at the end of a shorter probation.
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
            let responses = site.responses.saturating_sub(former.responses);
            if responses < LEAST_RESPONSES {
                return site;
            }
            let made = site.made.saturating_sub(former.made);
            let errors = site.errors.saturating_sub(former.errors);
            let unproven = site.unproven.saturating_sub(former.unproven);
            SiteErrors {
                name: site.name,
                responses,
                made,
                errors,
                unproven,
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

/// Returns of how many responses more than `most` percent were server errors; `None` where they
/// were fewer. The percentage is of all responses, or of those that scripts and upstreams have
/// made: pictures do not make up for an application that fails.
fn too_many_errors(most: u64, site: &SiteErrors) -> Option<u64> {
    let SiteErrors { responses, made, errors, .. } = *site;
    // More errors than that are not of scripts alone.
    let can_be_of_scripts = made >= LEAST_RESPONSES && errors <= made;
    [Some(responses), Some(made).filter(|_| can_be_of_scripts)]
        .into_iter()
        .flatten()
        .find(|all| errors * 100 > all * most)
}

/// Returns why a generation with the responses `present` has failed, where `former` are those of
/// the generation before; `None` if it has not. Up to `most` percent of a site's responses may be
/// server errors. Sites with fewer than `least` responses are not judged.
pub(super) fn failure(
    (most, least): (u64, u64),
    former: &[SiteErrors],
    present: &[SiteErrors],
) -> Option<String> {
    let was_bad = |name: &str| {
        let mut former = former.iter().filter(|site| site.name == name);
        former.any(|site| too_many_errors(most, site).is_some())
    };
    let enough = present.iter().filter(|site| site.responses >= least);
    let mut bad = enough.filter_map(|site| Some((site, too_many_errors(most, site)?)));
    let (SiteErrors { name, responses, errors, .. }, all) =
        bad.find(|(site, _)| !was_bad(&site.name))?;
    let makers = match all == *responses {
        true => "",
        false => " by scripts and upstreams",
    };
    Some(format!(
        "{errors} of the first {all} responses of site {name}{makers} were server errors (5xx), \
         more than {most} % (`probation_errors`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_long_ago_do_not_excuse_a_new_generation() {
        let site = |responses, errors| {
            vec![SiteErrors {
                name: "shop".to_owned(),
                responses,
                made: responses,
                errors,
                unproven: 0,
            }]
        };
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
        let made = |name: &str, responses, made, errors| SiteErrors {
            name: name.to_owned(),
            responses,
            made,
            errors,
            unproven: 0,
        };
        let site = |name: &str, responses, errors| made(name, responses, responses, errors);
        let former = [site("well", 1000, 10), site("ill", 1000, 900)];
        for (present, fails) in [
            (vec![], false),
            (vec![site("well", 10, 5)], false),
            (vec![site("well", 9, 9)], false),
            (vec![site("well", 10, 6)], true),
            (vec![site("ill", 50, 50)], false),
            (vec![site("new", 50, 50)], true),
            (vec![site("ill", 50, 50), site("well", 50, 50)], true),
            (vec![made("well", 1000, 40, 30)], true),
            (vec![made("well", 1000, 40, 20)], false),
            (vec![made("well", 1000, 9, 9)], false),
            // Not those of scripts.
            (vec![made("well", 1000, 10, 20)], false),
        ] {
            let failure = failure((50, LEAST_RESPONSES), &former, &present);
            assert_eq!(failure.is_some(), fails, "{present:?}: {failure:?}");
        }
        let none_at_all = [site("well", 10, 1)];
        assert!(
            failure((0, LEAST_RESPONSES), &former, &none_at_all).is_none(),
            "it had errors before"
        );
        assert!(failure((0, LEAST_RESPONSES), &[], &none_at_all).is_some());
    }
}
