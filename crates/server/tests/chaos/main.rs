//! Chaos: ten kinds of visitors, and processes that are killed, stopped, hung, starved and reloaded
//! under them.
//!
//! `make chaos` runs [`nothing_is_wrong_and_nothing_is_left_after_chaos`] for ten minutes
//! (`CHAOS_SECONDS` changes that), and the reloads for two. `cargo test` runs the reloads for some
//! seconds. Every body is checked byte for byte. A request may fail only if a process died that was
//! concerned with it, or with a status that tells of a full disk or of missing descriptors.

#![allow(clippy::unwrap_used)] // Whatever is not as a test expects makes it fail.

#[path = "../support/mod.rs"]
#[allow(unused_imports)] // Of what other test programs use.
mod support;

mod census;
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
use stage::{Limits, Stage};
use support::{has_php, wait_until};

/// Time of the chaos without `CHAOS_SECONDS`.
const TEN_MINUTES: u64 = 600;
/// Time in which each load runs undisturbed, for the census before.
const CALM: Duration = Duration::from_secs(6);

#[test]
#[ignore = "takes ten minutes: make chaos"]
fn nothing_is_wrong_and_nothing_is_left_after_chaos() {
    if !has_php() {
        return;
    }
    let stage = Stage::build(Limits::SHORT);
    let ledger = Ledger::default();
    Visitors::start(&stage, &ledger, &Load::ALL).visit_for(CALM);
    let before = Census::settled(&stage);
    ledger.assert_undisturbed();

    let visitors = Visitors::start(&stage, &ledger, &Load::ALL);
    let time = Duration::from_secs(seconds(TEN_MINUTES));
    let mut events = Events::new(&stage, &ledger);
    let end = Instant::now() + time;
    while Instant::now() < end {
        events.cause_one();
    }
    events.undo();
    visitors.visit_for(Duration::from_secs(2));

    println!("{}", ledger.summary(time));
    println!("before: {before}");
    let mut violations = ledger.violations();
    violations.extend(before.differences(&stage));
    violations.extend(stage.stop());
    assert!(violations.is_empty(), "{} violations: {violations:#?}", violations.len());
}

#[test]
fn a_reload_every_second_loses_nothing() {
    reload_every_second(Duration::from_secs(6));
}

#[test]
#[ignore = "takes two minutes: make chaos"]
fn a_reload_every_second_for_two_minutes_loses_nothing() {
    reload_every_second(Duration::from_secs(seconds(TEN_MINUTES) / 5));
}

fn reload_every_second(time: Duration) {
    if !has_php() {
        return;
    }
    let stage = Stage::build(Limits::FAR);
    let ledger = Ledger::default();
    let visitors = Visitors::start(&stage, &ledger, &Load::ALL);
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
    let left = stage.stop();
    assert!(left.is_empty(), "{left:#?}");
}

fn seconds(otherwise: u64) -> u64 {
    let told = std::env::var("CHAOS_SECONDS").ok().filter(|text| !text.is_empty());
    told.map_or(otherwise, |text| text.parse().expect("CHAOS_SECONDS is a number"))
}
