//! The terminal screen of `howdah status --watch`: sites, pools and workers, brought up to date
//! every second.
//!
//! The caller gives a function that asks the server for its state as JSON. `state` reads that,
//! `rates` compares it with the state before, and `screen` draws both.
#![forbid(unsafe_code)]

pub mod printed;
mod rates;
mod screen;
mod state;

use std::io::{self, IsTerminal};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

use self::rates::Rates;
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
    let mut signals = Signals::new([SIGTERM, SIGHUP])?;
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
    let mut view = View {
        rates: Rates::of(&first, &first),
        status: first,
        problem: None,
        first: 0,
    };
    let mut asked = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, &mut view))?;
        let wait = INTERVAL.saturating_sub(asked.elapsed()).min(SIGNAL_CHECK);
        if event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match action(key) {
                    KeyAction::Quit => return Ok(()),
                    KeyAction::Move(lines) => view.scroll(lines),
                    KeyAction::Nothing => {}
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

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyAction {
    Quit,
    /// Scrolls the workers by this number of lines.
    Move(isize),
    Nothing,
}

/// Lines of a page of workers.
const PAGE: isize = 10;

fn action(key: KeyEvent) -> KeyAction {
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if has_control => KeyAction::Quit,
        KeyCode::Char('q') | KeyCode::Esc => KeyAction::Quit,
        KeyCode::Down | KeyCode::Char('j') => KeyAction::Move(1),
        KeyCode::Up | KeyCode::Char('k') => KeyAction::Move(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => KeyAction::Move(PAGE),
        KeyCode::PageUp => KeyAction::Move(-PAGE),
        KeyCode::Home => KeyAction::Move(isize::MIN),
        KeyCode::End => KeyAction::Move(isize::MAX),
        _ => KeyAction::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let key = |code, modifiers| action(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none), KeyAction::Quit);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), KeyAction::Quit);
        assert_eq!(key(KeyCode::Char('c'), none), KeyAction::Nothing);
        assert_eq!(key(KeyCode::Down, none), KeyAction::Move(1));
    }
}
