//! The meaning of the keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::order::SiteOrder;

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Quit,
    /// Moves the selection by this number of rows.
    Move(isize),
    /// Moves the selection by this number of screens.
    Page(isize),
    /// Moves between the sites and the workers.
    OtherTable,
    /// Shows the workers of the selected site only, or those of all sites again.
    OneSite,
    /// Sorts the sites; the other way round if they are sorted so already.
    Sort(SiteOrder),
    Nothing,
}

impl KeyAction {
    /// Returns the meaning of a key that is pressed.
    pub(crate) fn of(key: KeyEvent) -> KeyAction {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => KeyAction::Quit,
            KeyCode::Char(_) if has_control => KeyAction::Nothing,
            KeyCode::Char('q') | KeyCode::Esc => KeyAction::Quit,
            KeyCode::Down | KeyCode::Char('j') => KeyAction::Move(1),
            KeyCode::Up | KeyCode::Char('k') => KeyAction::Move(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => KeyAction::Page(1),
            KeyCode::PageUp => KeyAction::Page(-1),
            KeyCode::Home => KeyAction::Move(isize::MIN),
            KeyCode::End => KeyAction::Move(isize::MAX),
            KeyCode::Tab | KeyCode::BackTab => KeyAction::OtherTable,
            KeyCode::Enter => KeyAction::OneSite,
            KeyCode::Char(key) => {
                SiteOrder::of_key(key).map_or(KeyAction::Nothing, KeyAction::Sort)
            }
            _ => KeyAction::Nothing,
        }
    }
}

/// The keys in words, the longest text first. The screen shows the first one that fits.
pub(crate) const KEYS: [&str; 3] = [
    "q quit  ↑ ↓ PgUp PgDn Home End select  Tab sites/workers  Enter one site's workers  \
     sort: r req/s, u queue, m memory, c cpu, n name, again: reversed",
    "q quit  ↑↓ select  Tab table  sort: r req/s, u queue, m memory, c cpu, n name",
    "q quit  ↑↓ select  Tab table  rumcn sort",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_meaning_that_they_have_in_similar_programs() {
        let control = KeyModifiers::CONTROL;
        for (code, modifiers, expected) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, KeyAction::Quit),
            (KeyCode::Char('c'), control, KeyAction::Quit),
            (KeyCode::Char('n'), control, KeyAction::Nothing),
            (KeyCode::Down, KeyModifiers::NONE, KeyAction::Move(1)),
            (KeyCode::PageUp, KeyModifiers::NONE, KeyAction::Page(-1)),
            (KeyCode::Char('c'), KeyModifiers::NONE, KeyAction::Sort(SiteOrder::Cpu)),
            (KeyCode::Char('M'), KeyModifiers::SHIFT, KeyAction::Sort(SiteOrder::Memory)),
            (KeyCode::Char('x'), KeyModifiers::NONE, KeyAction::Nothing),
        ] {
            assert_eq!(KeyAction::of(KeyEvent::new(code, modifiers)), expected, "{code}");
        }
    }
}
