//! Months of simulated time: authorities that fail, refuse and come back, and clocks that are set.

mod shares;

use super::*;

const DAY: u64 = 86_400;
const HOUR: u64 = 3600;
/// The calendar at the begin of every simulation.
const BEGIN: u64 = 1_800_000_000;
/// The usual life of a certificate.
const LIFE: u64 = 90 * DAY;
/// The time that an order takes.
const ORDER: u64 = 10;

/// A machine with its clocks, and authorities that answer as `authority` says.
struct SimulatedMachine<'a> {
    schedule: Schedule,
    now: ClockReading,
    authority: Box<dyn FnMut(usize, usize, ClockReading) -> Answer + 'a>,
    under_way: Vec<(Duration, ScheduleStep)>,
    /// Every order: steady seconds, certificate, directory.
    orders: Vec<(u64, usize, usize)>,
    held: Vec<Option<Validity>>,
}

#[derive(Clone, Copy)]
enum Answer {
    Certificate(u64),
    Fails(FailureKind),
}

impl<'a> SimulatedMachine<'a> {
    fn new(
        certificates: usize,
        directories: usize,
        authority: impl FnMut(usize, usize, ClockReading) -> Answer + 'a,
    ) -> SimulatedMachine<'a> {
        let now = ClockReading {
            calendar: BEGIN,
            steady: Duration::from_secs(1000),
        };
        SimulatedMachine {
            schedule: Schedule::new(&vec![None; certificates], directories, 7, now),
            now,
            authority: Box::new(authority),
            under_way: Vec::new(),
            orders: Vec::new(),
            held: vec![None; certificates],
        }
    }

    fn pass(&mut self, time: Duration) {
        let before = self.now.steady.as_secs();
        self.now.steady += time;
        self.now.calendar += self.now.steady.as_secs() - before;
    }

    /// Lets `seconds` pass.
    fn run(&mut self, seconds: u64) {
        let end = self.now.steady + Duration::from_secs(seconds);
        while self.now.steady < end {
            match self.schedule.next(self.now) {
                ScheduleStep::Wait(wait) => {
                    let done = self.under_way.iter().map(|(at, _)| *at).min();
                    let wait = done.map_or(wait, |at| wait.min(at.saturating_sub(self.now.steady)));
                    self.pass(wait.min(end - self.now.steady));
                    self.finish();
                }
                step => {
                    self.begin(step);
                    self.under_way.push((self.now.steady + Duration::from_secs(ORDER), step));
                }
            }
        }
    }

    fn begin(&mut self, step: ScheduleStep) {
        let ScheduleStep::Order { certificate, directory, .. } = step else {
            return;
        };
        let same = |(_, other): &(Duration, ScheduleStep)| match other {
            ScheduleStep::Order { certificate: one, .. } => *one == certificate,
            _ => false,
        };
        assert!(!self.under_way.iter().any(same), "two orders of one name");
        let at = |(_, other): &&(Duration, ScheduleStep)| match other {
            ScheduleStep::Order { directory: one, .. } => *one == directory,
            _ => false,
        };
        assert!(self.under_way.iter().filter(at).count() < MOST_ORDERS);
        self.orders.push((self.now.steady.as_secs(), certificate, directory));
    }

    fn finish(&mut self) {
        let now = self.now;
        let (done, rest) = self.under_way.drain(..).partition(|(at, _)| *at <= now.steady);
        self.under_way = rest;
        let done: Vec<(Duration, ScheduleStep)> = done;
        for (_, step) in done {
            match step {
                ScheduleStep::Order { certificate, directory, .. } => {
                    match (self.authority)(certificate, directory, now) {
                        Answer::Certificate(life) => {
                            let not_before = now.calendar - HOUR.min(life / 10);
                            let validity = Validity { not_before, not_after: not_before + life };
                            self.held[certificate] = Some(validity);
                            self.schedule.obtained(certificate, directory, validity, now);
                        }
                        Answer::Fails(kind) => {
                            self.schedule.failed(certificate, directory, kind, now)
                        }
                    }
                }
                ScheduleStep::Ask { certificate, .. } => self.schedule.no_window(certificate, now),
                ScheduleStep::Wait(_) => unreachable!("a wait is never under way"),
            }
        }
    }

    /// A visitor asks for a new name of these parties.
    fn visit(&mut self, claimant: Claimant) -> usize {
        self.held.push(None);
        let certificate = self.schedule.add(None, claimant, self.now);
        self.schedule.demand(certificate, self.now);
        certificate
    }

    /// The orders within the last `seconds`.
    fn recent(&self, seconds: u64) -> usize {
        let since = self.now.steady.as_secs().saturating_sub(seconds);
        self.orders.iter().filter(|(at, ..)| *at >= since).count()
    }
}

/// A domain of its own, at the only site.
fn of_domain(domain: usize) -> Claimant {
    Claimant { site: 0, owner: None, domain }
}

fn always(_: usize, _: usize, _: ClockReading) -> Answer {
    Answer::Certificate(LIFE)
}

#[test]
fn every_name_gets_a_certificate_and_renews_it_at_two_thirds_of_its_life() {
    let mut world = SimulatedMachine::new(60, 1, always);
    world.run(HOUR);
    assert!(world.held.iter().all(Option::is_some));
    assert_eq!(world.orders.len(), 60, "one order each");
    let mut before = world.held.clone();
    world.run(55 * DAY);
    assert_eq!(world.orders.len(), 60, "no renewal before its time");
    world.run(10 * DAY);
    assert_eq!(world.orders.len(), 120, "one renewal each");
    assert!(world.held.iter().zip(&before).all(|(now, then)| now != then));
    // The renewals are spread: no hour has a fifth of them.
    let renewals: Vec<u64> = world.orders[60..].iter().map(|(at, ..)| *at).collect();
    let busiest = renewals
        .iter()
        .map(|at| renewals.iter().filter(|other| (*at..at + HOUR).contains(other)).count())
        .max();
    assert!(busiest.unwrap() < 12, "{busiest:?} within an hour");
    before.clone_from(&world.held);
    world.run(200 * DAY);
    let now = world.now.calendar;
    assert!(world.held.iter().flatten().all(|held| held.not_after > now + 20 * DAY));
}

#[test]
fn an_authority_that_is_down_for_a_day_is_asked_seldom_and_used_soon_after() {
    let back = BEGIN + DAY;
    let mut world = SimulatedMachine::new(50, 1, |_, _, now| match now.calendar < back {
        true => Answer::Fails(FailureKind::Unreachable),
        false => Answer::Certificate(LIFE),
    });
    world.run(DAY);
    let attempts = world.orders.len();
    assert!((90..160).contains(&attempts), "{attempts} attempts on a day");
    world.run(20 * 60 + 1000);
    assert!(world.held.iter().all(Option::is_some), "all certificates 20 minutes later");
    assert!(world.orders.len() <= attempts + 51);
}

#[test]
fn a_second_authority_takes_over_and_the_first_is_tried_again() {
    let back = BEGIN + 2 * HOUR;
    let mut world = SimulatedMachine::new(3, 2, |_, directory, now| {
        match directory == 0 && now.calendar < back {
            true => Answer::Fails(FailureKind::Unreachable),
            false => Answer::Certificate(LIFE),
        }
    });
    world.run(60);
    assert!(world.held.iter().all(Option::is_some));
    assert!(world.orders.iter().any(|(_, _, directory)| *directory == 1));
    world.run(70 * DAY);
    let renewals = &world.orders[world.orders.len() - 3..];
    assert!(renewals.iter().all(|(_, _, directory)| *directory == 0), "{renewals:?}");
}

#[test]
fn a_refused_name_fails_five_times_an_hour_at_most_and_no_other_name_waits() {
    let mut world = SimulatedMachine::new(10, 1, |certificate, _, _| match certificate {
        3 => Answer::Fails(FailureKind::Refused),
        _ => Answer::Certificate(LIFE),
    });
    world.run(60);
    assert_eq!(world.held.iter().flatten().count(), 9);
    world.run(HOUR - 60);
    let refused =
        |world: &SimulatedMachine<'_>| world.orders.iter().filter(|(_, one, _)| *one == 3).count();
    assert!(refused(&world) <= 5, "{} orders within an hour", refused(&world));
    world.run(30 * DAY);
    assert!(refused(&world) < 140, "{} orders within a month", refused(&world));
    assert!(world.recent(13 * HOUR) >= 1, "never given up");
}

#[test]
fn the_next_challenge_is_tried_at_once_and_all_together_fail_five_times_an_hour_at_most() {
    for challenges in 1..=3 {
        let mut failed = 0;
        let mut world = SimulatedMachine::new(1, 1, move |_, _, _| {
            failed += 1;
            match failed < challenges {
                true => Answer::Fails(FailureKind::OtherChallenge),
                false => Answer::Fails(FailureKind::Refused),
            }
        });
        world.run(60);
        assert_eq!(world.orders.len(), challenges, "{:?}", world.orders);
        world.run(3 * DAY);
        let at: Vec<u64> = world.orders.iter().map(|(at, ..)| *at).collect();
        for (number, first) in at.iter().enumerate() {
            let within = at[number..].iter().filter(|at| **at < first + HOUR).count();
            assert!(within <= 5, "{within} orders within an hour: {at:?}");
        }
    }
}

#[test]
fn a_rate_limit_is_obeyed() {
    let mut first = None;
    let mut world = SimulatedMachine::new(5, 1, |certificate, _, now| {
        if certificate == 0 && now.calendar < BEGIN + 3 * DAY {
            first.get_or_insert(now.calendar);
            return Answer::Fails(FailureKind::RateLimited(Duration::from_secs(3 * DAY)));
        }
        Answer::Certificate(LIFE)
    });
    world.run(2 * DAY);
    assert_eq!(world.orders.iter().filter(|(_, one, _)| *one == 0).count(), 1);
    assert_eq!(world.held.iter().flatten().count(), 4, "the other names go on");
    world.run(2 * DAY);
    assert!(world.held[0].is_some());
}

#[test]
fn a_full_disk_delays_the_name_whatever_the_authority() {
    let mut world = SimulatedMachine::new(1, 3, |_, _, _| Answer::Fails(FailureKind::Local));
    world.run(HOUR);
    assert!(world.orders.len() <= 5, "{:?}", world.orders);
}

#[test]
fn a_clock_that_is_set_neither_stops_renewals_nor_makes_orders_follow_each_other() {
    // The authority knows the time.
    let truth = |now: ClockReading| BEGIN + now.steady.as_secs() - 1000;
    for (jump, orders_of_a_month) in [(400 * DAY as i64, 40), (-(400 * DAY as i64), 3)] {
        let mut world = SimulatedMachine::new(1, 1, always);
        world.run(DAY);
        world.now.calendar = world.now.calendar.checked_add_signed(jump).unwrap();
        let mut wrong = world;
        for _ in 0..30 {
            wrong.run(DAY);
            // A certificate of the true time.
            if let Some(held) = &mut wrong.held[0] {
                held.not_before = truth(wrong.now);
            }
        }
        assert!(wrong.orders.len() <= orders_of_a_month, "{jump}: {}", wrong.orders.len());
        let mut right = wrong;
        right.now.calendar = truth(right.now);
        right.run(200 * DAY);
        let now = right.now.calendar;
        assert!(right.held[0].is_some_and(|held| held.not_after > now), "{jump}");
    }
}

#[test]
fn an_issued_certificate_that_seems_to_have_ended_is_not_ordered_in_a_loop() {
    let now = ClockReading { calendar: BEGIN, steady: Duration::ZERO };
    let mut schedule = Schedule::new(&[None], 1, 1, now);
    assert_eq!(
        schedule.next(now),
        ScheduleStep::Order {
            certificate: 0,
            directory: 0,
            refusals: 0
        }
    );
    let past = Validity {
        not_before: BEGIN - 200 * DAY,
        not_after: BEGIN - 110 * DAY,
    };
    schedule.obtained(0, 0, past, now);
    assert!(matches!(schedule.next(now), ScheduleStep::Ask { .. }));
    schedule.no_window(0, now);
    let later = ClockReading {
        steady: Duration::from_secs(DAY - 1),
        ..now
    };
    for _ in 0..3 {
        match schedule.next(later) {
            ScheduleStep::Ask { certificate, .. } => schedule.no_window(certificate, later),
            step => assert!(matches!(step, ScheduleStep::Wait(_)), "{step:?}"),
        }
    }
    let later = ClockReading { steady: Duration::from_secs(DAY), ..now };
    assert!(matches!(schedule.next(later), ScheduleStep::Order { .. }));
}

/// A schedule with one certificate of 90 days that is a day old, whose window was told.
fn with_window(window: RenewalWindow, seed: u64) -> (Schedule, ClockReading) {
    let now = ClockReading { calendar: BEGIN, steady: Duration::ZERO };
    let validity = Validity {
        not_before: BEGIN - DAY,
        not_after: BEGIN - DAY + LIFE,
    };
    let held = HeldCertificate { validity, directory: Some(0) };
    let mut schedule = Schedule::new(&[Some(held)], 1, seed, now);
    let asked = ClockReading { steady: QUESTION_SPREAD, ..now };
    assert_eq!(schedule.next(asked), ScheduleStep::Ask { certificate: 0, directory: 0 });
    schedule.window(0, window, Duration::from_secs(HOUR), asked);
    (schedule, asked)
}

#[test]
fn the_renewal_is_a_random_time_in_the_window() {
    let window = RenewalWindow {
        start: BEGIN + 50 * DAY,
        end: BEGIN + 52 * DAY,
    };
    let times: Vec<u64> =
        (0..200).map(|seed| with_window(window, seed).0.renewal(0).unwrap()).collect();
    assert!(times.iter().all(|time| (window.start..=window.end).contains(time)));
    let early = times.iter().filter(|time| **time < window.start + DAY).count();
    assert!((60..140).contains(&early), "{early} of 200 in the first half");
}

#[test]
fn a_window_that_is_over_means_at_once() {
    let (mut schedule, now) = with_window(RenewalWindow { start: 1, end: BEGIN - 1 }, 3);
    assert!(matches!(schedule.next(now), ScheduleStep::Order { .. }));
}

#[test]
fn a_choice_within_the_window_stays_and_a_moved_window_moves_it() {
    let window = RenewalWindow {
        start: BEGIN + 50 * DAY,
        end: BEGIN + 52 * DAY,
    };
    let (mut schedule, now) = with_window(window, 5);
    let chosen = schedule.renewal(0);
    for hours in 1..20 {
        let later = ClockReading {
            steady: now.steady + Duration::from_secs(hours * HOUR),
            ..now
        };
        assert!(matches!(schedule.next(later), ScheduleStep::Ask { .. }), "asked every hour");
        schedule.window(0, window, Duration::from_secs(HOUR), later);
        assert_eq!(schedule.renewal(0), chosen);
    }
    let later = ClockReading {
        steady: now.steady + Duration::from_secs(20 * HOUR),
        ..now
    };
    assert!(matches!(schedule.next(later), ScheduleStep::Ask { .. }));
    let earlier = RenewalWindow {
        start: BEGIN + 40 * DAY,
        end: BEGIN + 41 * DAY,
    };
    schedule.window(0, earlier, Duration::from_secs(HOUR), later);
    assert!((earlier.start..=earlier.end).contains(&schedule.renewal(0).unwrap()));
}

#[test]
fn windows_without_sense_leave_the_renewal_at_two_thirds() {
    for (start, end) in
        [(BEGIN + 60 * DAY, BEGIN + 50 * DAY), (BEGIN + 100 * DAY, BEGIN + 200 * DAY)]
    {
        let (schedule, _) = with_window(RenewalWindow { start, end }, 9);
        let renewal = schedule.renewal(0).unwrap();
        assert!((BEGIN + 54 * DAY..BEGIN + 65 * DAY).contains(&renewal), "{renewal}");
    }
    // A window around a certificate's whole life: neither at once nor at its end.
    let (schedule, _) = with_window(RenewalWindow { start: 0, end: u64::MAX }, 9);
    let renewal = schedule.renewal(0).unwrap();
    assert!((BEGIN + 29 * DAY..=BEGIN + 80 * DAY).contains(&renewal), "{renewal}");
}

#[test]
fn whatever_happens_orders_are_bounded_and_success_is_kept() {
    for seed in 0..40 {
        let mut dice = Random(seed);
        let mut world = SimulatedMachine::new(6, 2, move |_, _, _| match dice.below(8) {
            0 => Answer::Fails(FailureKind::Unreachable),
            1 => Answer::Fails(FailureKind::RateLimited(Duration::from_secs(dice.below(2 * HOUR)))),
            2 | 3 => Answer::Fails(FailureKind::Refused),
            4 => Answer::Fails(FailureKind::Local),
            _ => Answer::Certificate(3 * DAY + dice.below(90 * DAY)),
        });
        let mut jumps = Random(seed + 1000);
        for _ in 0..60 {
            world.run(DAY);
            // At worst, each name gets a certificate of three days and fails again and again.
            assert!(world.recent(DAY) <= 6 * 2 * 24, "seed {seed}: {}", world.recent(DAY));
            if jumps.below(20) == 0 {
                world.now.calendar += jumps.below(3 * DAY);
            }
        }
        let now = world.now.calendar;
        assert!(
            world.held.iter().all(|held| held.is_some_and(|held| held.not_after > now)),
            "seed {seed}"
        );
    }
}

#[test]
fn names_on_demand_are_bounded_in_an_hour_and_delay_no_name_of_the_configuration() {
    let mut world = SimulatedMachine::new(1, 1, always);
    world.schedule.limit_first_orders(5, false);
    world.run(HOUR);
    for number in 0..20 {
        world.visit(of_domain(number));
    }
    world.run(60);
    let mut had = world.held.iter().flatten().count();
    assert_eq!(had, 6, "its own name, and five of those on demand");
    let used_up = |one| world.schedule.held_back(one, world.now);
    assert_eq!((1..21).filter(|one| used_up(*one) == Some(UsedUp::Hour)).count(), 15);
    while had < 21 {
        world.run(HOUR);
        let has = world.held.iter().flatten().count();
        assert!(has - had <= 5 && has > had, "{had} and {has}");
        assert!(world.recent(HOUR - 60) <= 5);
        had = has;
    }
}

#[test]
fn a_name_on_demand_is_renewed_while_it_is_asked_for() {
    let mut world = SimulatedMachine::new(0, 1, always);
    world.schedule.limit_first_orders(1, false);
    for number in 0..2 {
        world.held.push(None);
        world.schedule.add(None, of_domain(number), world.now);
    }
    world.run(HOUR);
    assert_eq!(world.orders.len(), 0, "nobody asks");
    world.schedule.demand(0, world.now);
    world.schedule.demand(1, world.now);
    world.run(3 * HOUR);
    assert_eq!(world.orders.len(), 2);
    // The first one is asked for every day, the other one never again.
    for _ in 0..80 {
        world.schedule.demand(0, world.now);
        world.run(DAY - HOUR);
    }
    let renewals: Vec<usize> = world.orders[2..].iter().map(|(_, one, _)| *one).collect();
    assert_eq!(renewals, [0]);
    // A visit after a long time renews at once, however many first orders there were.
    world.schedule.demand(1, world.now);
    world.run(60);
    assert_eq!(world.orders.last().map(|(_, one, _)| *one), Some(1));
}
