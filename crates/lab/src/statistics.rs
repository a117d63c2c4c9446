//! Medians of ratios, and their intervals.
//!
//! Rounds are interleaved: a disturbance of the machine affects all stacks of a round alike. Stacks
//! are compared round by round, and the median of these ratios is taken. The bootstrap (Efron 1979,
//! percentile interval) gives the bounds in which that median would fall if the rounds were drawn
//! again.

use crate::record::{Figure, StackOutcome};

/// The ratio of two stacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StackRatio {
    /// Median of the ratios of the rounds; above 1 the first is better, whatever the figure.
    pub ratio: f64,
    /// Lower end of the interval that holds 95 % of the bootstrap's medians.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Rounds that both stacks have.
    pub rounds: usize,
}

impl StackRatio {
    /// Returns whether the interval contains 1: no difference can be shown.
    pub fn is_no_difference(&self) -> bool {
        self.low <= 1.0 && self.high >= 1.0
    }
}

/// The median; the mean of the two middle values of an even number. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The ratios of all rounds, above 1 where `ours` is better. Rounds are matched by their number. A
/// round does not count where it is void, lacks the figure or has 0 for either.
pub fn ratios(ours: &StackOutcome, theirs: &StackOutcome, figure: Figure) -> Vec<f64> {
    let value = |outcome: &StackOutcome, number: usize| {
        let round = outcome.rounds.get(number).filter(|round| round.void.is_none())?;
        round.figures.get(&figure).copied().filter(|value| *value > 0.0)
    };
    (0..ours.rounds.len().min(theirs.rounds.len()))
        .filter_map(|number| {
            let (ours, theirs) = (value(ours, number)?, value(theirs, number)?);
            Some(if figure.more_is_better() {
                ours / theirs
            } else {
                theirs / ours
            })
        })
        .collect()
}

/// Compares two stacks in one cell; `None` where no round counts for both.
pub fn compare(ours: &StackOutcome, theirs: &StackOutcome, figure: Figure) -> Option<StackRatio> {
    let ratios = ratios(ours, theirs, figure);
    let ratio = median(&ratios)?;
    let (low, high) = interval(&ratios)?;
    Some(StackRatio { ratio, low, high, rounds: ratios.len() })
}

/// The 95 % percentile interval of the bootstrap for the median; `None` without values. The same
/// values always give the same interval.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut random = SplitMix(SEED);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let drawn: Vec<f64> =
                (0..values.len()).map(|_| values[random.below(values.len())]).collect();
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// Steele, Lea and Flood's SplitMix64: small, and good enough to draw rounds.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

const RESAMPLES: usize = 2000;
const SEED: u64 = 42;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Round;

    fn outcome(values: &[Option<f64>]) -> StackOutcome {
        let round = |value: &Option<f64>| Round {
            void: value.is_none().then(|| "a wrong answer".to_owned()),
            figures: value.iter().map(|value| (Figure::RequestsPerSecond, *value)).collect(),
            ..Round::default()
        };
        StackOutcome {
            rounds: values.iter().map(round).collect(),
            failure: None,
        }
    }

    #[test]
    fn medians() {
        let table: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[5.0, 1.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[f64::NAN, 4.0], Some(4.0)),
        ];
        for (values, expected) in table {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn void_rounds_take_their_partners_with_them() {
        let ours = outcome(&[Some(10.0), None, Some(30.0), Some(8.0)]);
        let theirs = outcome(&[Some(5.0), Some(5.0), None, Some(4.0)]);
        assert_eq!(ratios(&ours, &theirs, Figure::RequestsPerSecond), [2.0, 2.0]);
    }

    #[test]
    fn less_is_better_for_costs() {
        let cost = |value| StackOutcome {
            rounds: vec![Round {
                figures: [(Figure::CpuPerRequest, value)].into(),
                ..Round::default()
            }],
            failure: None,
        };
        let found = compare(&cost(10.0), &cost(30.0), Figure::CpuPerRequest).unwrap();
        assert_eq!((found.ratio, found.low, found.high), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_clear_difference_is_one_and_noise_is_none() {
        let steady: Vec<Option<f64>> = (0..9).map(|n| Some(200.0 + f64::from(n))).collect();
        let half: Vec<Option<f64>> = (0..9).map(|n| Some(100.0 + f64::from(n % 3))).collect();
        let clear = compare(&outcome(&steady), &outcome(&half), Figure::RequestsPerSecond).unwrap();
        assert!(!clear.is_no_difference() && clear.low > 1.9 && clear.high < 2.1, "{clear:?}");
        let noisy: Vec<Option<f64>> =
            (0..9).map(|n| Some(if n % 2 == 0 { 120.0 } else { 80.0 })).collect();
        let even: Vec<Option<f64>> = (0..9).map(|_| Some(100.0)).collect();
        let nothing =
            compare(&outcome(&noisy), &outcome(&even), Figure::RequestsPerSecond).unwrap();
        assert!(nothing.is_no_difference(), "{nothing:?}");
    }

    /// Of intervals for the median of a known distribution about 95 in 100 must hold it.
    #[test]
    fn the_interval_covers_what_it_says() {
        let mut random = SplitMix(7);
        let mut uniform = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let covered = (0..300)
            .filter(|_| {
                let values: Vec<f64> = (0..25).map(|_| uniform()).collect();
                interval(&values).is_some_and(|(low, high)| low <= 0.5 && high >= 0.5)
            })
            .count();
        assert!((264..=298).contains(&covered), "{covered} of 300");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(
            compare(&outcome(&[None]), &outcome(&[Some(1.0)]), Figure::RequestsPerSecond),
            None
        );
        assert_eq!(interval(&[]), None);
    }
}
