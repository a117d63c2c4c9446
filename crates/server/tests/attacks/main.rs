//! The catalogue of attacks: one hostile site or client, one innocent site beside it.
//!
//! Each file of `tests/attacks` is an attack, and its header says what the attacker does, what must
//! not happen, and what is checked. This program starts a server with two sites whose pools have
//! different users, lets site A (or a client) attack, and asks site B at a fixed rate meanwhile. It
//! compares every byte of B's answers. [`scene::Scene::judge`] lists the checks after the attack.
//!
//! `cargo test` runs each attack for a moment. `make attacks` runs each attack for longer, compares
//! B's latencies with those before the attack, and writes the table in `docs/security.md`.
//! `docs/attacks.md` is made of the headers.

#![allow(clippy::unwrap_used)] // Whatever is not as a test expects makes it fail.

#[path = "../support/mod.rs"]
#[allow(unused_imports)] // Of what other test programs use.
mod support;

mod attack;
mod catalogue;
mod neighbour;
mod scene;
mod table;

use std::time::Duration;

use attack::Attack;

/// Time of an attack in `cargo test`.
const MOMENT: Duration = Duration::from_millis(700);
/// Time of an attack in `make attacks`, and of the measurement before the attack. The environment
/// variable `ATTACK_SECONDS` changes it.
const MEASURED: Duration = Duration::from_secs(8);

/// Runs one attack for a moment, without a verdict on time.
fn attack(name: &str) {
    let attack = catalogue::find(name);
    if let Some(scene) = scene::Scene::prepare(attack) {
        let outcome = scene.run(MOMENT, Duration::ZERO);
        let failures = &outcome.failures;
        assert!(failures.is_empty(), "{name}: {failures:#?}\n--- log\n{}", outcome.log);
    }
}

/// Every attack with its time, and the table. `ATTACK` limits the run to names that contain its
/// value; such a run writes no table.
#[test]
#[ignore = "takes minutes and needs an idle machine: make attacks"]
fn every_attack_leaves_the_neighbour_its_answers_and_its_speed() {
    let only = std::env::var("ATTACK").unwrap_or_default();
    let seconds = std::env::var("ATTACK_SECONDS").ok().map(|text| text.parse().unwrap());
    let time = seconds.map_or(MEASURED, Duration::from_secs);
    let chosen: Vec<&Attack> =
        catalogue::ALL.iter().filter(|attack| attack.name.contains(&only)).collect();
    let mut rows = Vec::new();
    for attack in chosen {
        let Some(scene) = scene::Scene::prepare(attack) else {
            panic!("the attacks need root and a howdah-php with PHP");
        };
        let outcome = scene.run(time, time);
        println!("{}", table::line(attack, &outcome));
        if outcome.is_too_slow() {
            println!("    slowest, in ms: {}", outcome.during.slowest());
        }
        outcome.failures.iter().for_each(|failure| println!("    {failure}"));
        if !outcome.failures.is_empty() {
            println!("--- log\n{}---", outcome.log);
        }
        rows.push((attack, outcome));
    }
    if only.is_empty() {
        table::write(&rows);
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|(_, outcome)| !outcome.failures.is_empty() || outcome.is_too_slow())
        .map(|(attack, _)| attack.name)
        .collect();
    assert!(failed.is_empty(), "{} of {} attacks succeeded: {failed:?}", failed.len(), rows.len());
}
