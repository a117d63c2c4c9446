//! Chaos: ten kinds of visitors, and processes that are killed, stopped, hung, starved and reloaded
//! under them.
//!
//! `make chaos` runs [`nothing_is_wrong_and_nothing_is_left_after_chaos`] for ten minutes
//! (`CHAOS_SECONDS` changes that), and the other modes of the pool and the reloads for a fifth of
//! that time each. `CHAOS_MODE` chooses one mode, which has the whole time. `cargo test` runs the
//! reloads for some seconds.
//!
//! Every body is checked byte for byte. A request may fail only if a process died that was
//! concerned with it, or with a status that tells of a full disk or of missing descriptors. At the
//! end the server must have counted the requests that were sent, and in a calm stretch every
//! counter must say what the visitors saw.

#![allow(clippy::unwrap_used)] // Whatever is not as a test expects makes it fail.

#[path = "../support/mod.rs"]
#[allow(unused_imports)] // Of what other test programs use.
mod support;

mod census;
mod counters;
mod events;
mod ledger;
mod loads;
mod stage;

use std::time::{Duration, Instant};

use howdah_sys::signal::SIGHUP;

use census::Census;
use events::Events;
use ledger::Ledger;
use loads::{Load, Visitors};
use stage::{Limits, Mode, Stage};
use support::{has_php, wait_until};

/// Time of the chaos without `CHAOS_SECONDS`.
const TEN_MINUTES: u64 = 600;
/// The part of the time that each mode but the first one has.
const OTHER_MODES: u64 = 5;
/// Time in which each load runs undisturbed, for the census before.
const CALM: Duration = Duration::from_secs(6);

#[test]
#[ignore = "takes ten minutes: make chaos"]
fn nothing_is_wrong_and_nothing_is_left_after_chaos() {
    chaos(Mode::Static, 1);
}

#[test]
#[ignore = "takes two minutes: make chaos"]
fn nothing_is_wrong_and_nothing_is_left_after_chaos_with_an_auto_pool() {
    chaos(Mode::Auto, OTHER_MODES);
}

#[test]
#[ignore = "takes two minutes: make chaos"]
fn nothing_is_wrong_and_nothing_is_left_after_chaos_with_a_dynamic_pool() {
    chaos(Mode::Dynamic, OTHER_MODES);
}

#[test]
#[ignore = "takes two minutes: make chaos"]
fn nothing_is_wrong_and_nothing_is_left_after_chaos_with_a_pool_on_demand() {
    chaos(Mode::OnDemand, OTHER_MODES);
}

/// Causes events for the `part`th part of the time, or for all of it if `CHAOS_MODE` is this mode.
fn chaos(mode: Mode, part: u64) {
    let chosen = std::env::var("CHAOS_MODE").ok().filter(|text| !text.is_empty());
    if chosen.as_deref().is_some_and(|chosen| chosen != mode.name()) || !has_php() {
        return;
    }
    let part = if chosen.is_some() { 1 } else { part };
    let stage = Stage::build(Limits::SHORT, mode);
    let ledger = Ledger::default();
    Visitors::start(&stage, &ledger, &Load::ALL).visit_for(CALM);
    let before = Census::settled(&stage);
    ledger.assert_undisturbed();

    let visitors = Visitors::start(&stage, &ledger, &Load::ALL);
    let time = Duration::from_secs(seconds(TEN_MINUTES) / part);
    let mut events = Events::new(&stage, &ledger);
    let end = Instant::now() + time;
    while Instant::now() < end {
        events.cause_one();
    }
    events.undo();
    visitors.visit_for(Duration::from_secs(2));

    println!("{}", ledger.summary(time));
    println!("{mode:?}, before: {before}");
    let mut violations = ledger.violations();
    violations.extend(before.differences(&stage, &ledger));
    violations.extend(counters::differences(&stage, &ledger));
    violations.extend(ledger.miscounted(stage.requests()));
    violations.extend(stage.stop());
    assert!(violations.is_empty(), "{} violations: {violations:#?}", violations.len());
}

#[test]
fn a_reload_every_second_loses_nothing() {
    reload_every_second(Duration::from_secs(6), Mode::Static, &Load::ALL);
}

#[test]
fn every_request_to_a_pool_on_demand_is_counted_across_reloads() {
    // Whether one that vanishes was a request is not known.
    reload_every_second(Duration::from_secs(2), Mode::OnDemand, &Load::patient());
}

#[test]
#[ignore = "takes two minutes: make chaos"]
fn a_reload_every_second_for_two_minutes_loses_nothing() {
    let time = Duration::from_secs(seconds(TEN_MINUTES) / 5);
    reload_every_second(time, Mode::Static, &Load::ALL);
}

fn reload_every_second(time: Duration, mode: Mode, loads: &[Load]) {
    if !has_php() {
        return;
    }
    let stage = Stage::build(Limits::FAR, mode);
    let ledger = Ledger::default();
    let visitors = Visitors::start(&stage, &ledger, loads);
    let end = Instant::now() + time;
    let mut reloads = 0;
    while Instant::now() < end {
        let front = stage.front();
        stage.server.signal(SIGHUP);
        reloads += 1;
        std::thread::sleep(Duration::from_secs(1));
        wait_until("another front serves", || stage.front() != front && stage.front().is_some());
    }
    visitors.visit_for(Duration::from_millis(500));
    println!("{reloads} reloads\n{}", ledger.summary(time));
    ledger.assert_undisturbed();
    let mut wrong = counters::differences(&stage, &ledger);
    wrong.extend(ledger.miscounted(stage.requests()));
    wrong.extend(stage.stop());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn seconds(otherwise: u64) -> u64 {
    let told = std::env::var("CHAOS_SECONDS").ok().filter(|text| !text.is_empty());
    told.map_or(otherwise, |text| text.parse().expect("CHAOS_SECONDS is a number"))
}
