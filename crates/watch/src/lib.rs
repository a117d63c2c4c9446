//! The terminal screen of `howdah status --watch`: sites, pools and workers, brought up to date
//! every second.
//!
//! The caller gives a function that asks the server for its state as JSON. `state` reads that,
//! `rates` compares it with the state before, and `screen` draws both. `keys` says what keys mean.
#![forbid(unsafe_code)]

mod keys;
mod order;
pub mod printed;
mod rates;
mod screen;
mod state;
mod table_position;
mod tables;

use std::io::{self, IsTerminal};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::keys::KeyAction;
use self::screen::View;
use self::state::ShownServer;

/// Time between two questions to the server.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest time until a signal has an effect.
const SIGNAL_CHECK: Duration = Duration::from_millis(250);
/// Time that the screen gets to end by itself after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Shows the state that `ask` returns as JSON until the person at the terminal presses `q` or
/// Ctrl-C, or the process is told to end. Afterwards the terminal is as before. While `ask` fails,
/// the screen says why and keeps the last state.
///
/// # Errors
/// There is no terminal, the first question fails, or the answer is none of this version's. The
/// reason is text for a person.
pub fn run(mut ask: impl FnMut() -> Result<String, String>) -> Result<(), String> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(
            "--watch needs a terminal; `howdah status` and `howdah status --json` need none"
                .to_owned(),
        );
    }
    // Before the screen is taken: a mistake in the command line is told as usual.
    let first = ShownServer::parse(&ask()?)?;
    let ends = Arc::new(AtomicBool::new(false));
    end_at_a_signal(Arc::clone(&ends))
        .map_err(|error| format!("cannot handle signals: {error}"))?;
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("cannot use the terminal: {error}"))?;
    let shown = show(&mut terminal, first, &mut ask, &ends);
    let restored = ratatui::try_restore();
    shown.and(restored).map_err(|error| format!("cannot use the terminal: {error}"))
}

/// Sets `ends` at a signal, and ends the process a little later if it has not ended by then: the
/// library that reads the keys never returns from a terminal that has been closed.
fn end_at_a_signal(ends: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT])?;
    thread::Builder::new().spawn(move || {
        if let Some(signal) = signals.forever().next() {
            ends.store(true, Ordering::Relaxed);
            thread::sleep(GRACE);
            // A terminal that is gone cannot be restored.
            let _ = ratatui::try_restore();
            process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// Draws until the end.
fn show(
    terminal: &mut DefaultTerminal,
    first: ShownServer,
    ask: &mut impl FnMut() -> Result<String, String>,
    ends: &AtomicBool,
) -> io::Result<()> {
    let mut view = View::new(first);
    let mut asked = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, &mut view))?;
        let wait = INTERVAL.saturating_sub(asked.elapsed()).min(SIGNAL_CHECK);
        if event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match KeyAction::of(key) {
                    KeyAction::Quit => return Ok(()),
                    action => view.act(action),
                },
                // Anything else, such as a new size, is drawn.
                _ => {}
            }
        }
        if asked.elapsed() >= INTERVAL {
            view.update(ask().and_then(|text| ShownServer::parse(&text)));
            asked = Instant::now();
        }
    }
    Ok(())
}
