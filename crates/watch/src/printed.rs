//! The server's figures and texts as a terminal shows them.

/// Returns the bytes in the unit that suits them: `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut number = bytes as f64;
    while number >= 1024.0 && unit < UNITS.len() - 1 {
        number /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{number:.1} {}", UNITS[unit]),
    }
}

/// Returns whether a terminal obeys the character instead of showing it, or shows other characters
/// in another order or on another line because of it (controls of bidirectional text).
pub fn controls_terminal(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Replaces characters that control a terminal: what a site says cannot control it.
pub fn visible(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Replaces characters as [`visible`] does, in several lines: line feeds and tabs remain.
pub fn visible_lines(text: &str) -> String {
    let is_kept = |one: &char| matches!(one, '\n' | '\t');
    text.chars().map(|one| if is_kept(&one) { one } else { shown(one) }).collect()
}

fn shown(character: char) -> char {
    match controls_terminal(character) {
        true => '\u{fffd}',
        false => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn nothing_controls_the_terminal() {
        let text = "a\tb\n\u{1b}[31m\u{7}\u{9b}\u{202e}\u{2066}\u{200f}\u{2028}\u{e4}\u{5d0}";
        let replaced = "\u{fffd}[31m".to_owned() + &"\u{fffd}".repeat(6) + "\u{e4}\u{5d0}";
        assert_eq!(visible_lines(text), "a\tb\n".to_owned() + &replaced);
        assert_eq!(visible(text), "a\u{fffd}b\u{fffd}".to_owned() + &replaced);
    }
}
