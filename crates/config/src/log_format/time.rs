//! The words of `%{…}t`: which of a request's times, and its form.

/// One of the times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedTime {
    /// The arrival of its head.
    Begin,
    /// The end of its response.
    End,
}

/// The form of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// The form `[06/Nov/1994:08:49:37 +0000]`.
    Common,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// Microseconds since 1970.
    Microseconds,
    /// The milliseconds of its second, three digits.
    MillisecondFraction,
    /// The microseconds of its second, six digits.
    MicrosecondFraction,
    /// A pattern of `strftime(3)`.
    Pattern(TimePattern),
}

/// A pattern of `strftime(3)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePattern {
    parts: Vec<TimePart>,
}

/// A part of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// This text.
    Text(String),
    /// A field of the date or of the time of day.
    Field(TimeField),
}

/// A field of a date or of a time of day, as the C library has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeField {
    /// The letter, such as `d`; one of [`TimeField::LETTERS`].
    pub letter: char,
    /// The flag for padding: `_`, `-` or `0`.
    pub padding: Option<char>,
    /// The flag `^`: upper case.
    pub is_upper: bool,
    /// The flag `#`: the other case.
    pub is_swapped: bool,
    /// The least number of characters.
    pub width: usize,
}

impl TimeField {
    /// All letters of fields.
    pub const LETTERS: &'static str = "aAbBcCdDeFgGhHIjklmMpPrRsSTuUVwWxXyYzZ";
}

impl TimePattern {
    /// Parses a pattern. The C library writes unknown fields as they are, and so does Howdah.
    /// `None`: the pattern has a line break.
    fn parse(pattern: &str) -> Option<TimePattern> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            let mut behind = after.chars();
            let mut field = TimeField::default();
            match read_field(&mut behind, &mut field) {
                Some('n') => return None,
                Some('t') => text.push('\t'),
                Some('%') => text.push('%'),
                Some(letter) if TimeField::LETTERS.contains(letter) => {
                    if !text.is_empty() {
                        parts.push(TimePart::Text(std::mem::take(&mut text)));
                    }
                    parts.push(TimePart::Field(TimeField { letter, ..field }));
                }
                _ => {
                    text.push('%');
                    text.push_str(&after[..after.len() - behind.as_str().len()]);
                }
            }
            rest = behind.as_str();
        }
        text.push_str(rest);
        if text.chars().any(|character| character.is_control() && character != '\t') {
            return None;
        }
        if !text.is_empty() {
            parts.push(TimePart::Text(text));
        }
        Some(TimePattern { parts })
    }

    /// Returns the parts, in order.
    pub fn parts(&self) -> &[TimePart] {
        &self.parts
    }
}

/// Reads flags and width into `field`. Returns the letter; `None` at the end of the pattern.
fn read_field(rest: &mut std::str::Chars<'_>, field: &mut TimeField) -> Option<char> {
    let mut has_width = false;
    loop {
        match rest.next()? {
            flag @ ('_' | '-' | '0') if !has_width => field.padding = Some(flag),
            '^' if !has_width => field.is_upper = true,
            '#' if !has_width => field.is_swapped = true,
            digit if digit.is_ascii_digit() => {
                has_width = true;
                let digit = digit.to_digit(10).unwrap_or_default() as usize;
                field.width = (field.width * 10 + digit).min(WIDEST);
            }
            // Other eras and other digits, which the C locale does not have.
            'E' | 'O' if rest.as_str().starts_with(|next| TimeField::LETTERS.contains(next)) => {}
            letter => return Some(letter),
        }
    }
}

/// Parses the text in the braces of `%{…}t`. `None`: it has a line break.
pub(super) fn parse(argument: &str) -> Option<(LoggedTime, TimeForm)> {
    let (time, form) = match (argument.strip_prefix("begin"), argument.strip_prefix("end")) {
        (Some(""), _) => (LoggedTime::Begin, ""),
        (_, Some("")) => (LoggedTime::End, ""),
        (Some(rest), _) if rest.starts_with(':') => (LoggedTime::Begin, &rest[1..]),
        (_, Some(rest)) if rest.starts_with(':') => (LoggedTime::End, &rest[1..]),
        _ => (LoggedTime::Begin, argument),
    };
    let form = match form {
        "" => TimeForm::Common,
        "sec" => TimeForm::Seconds,
        "msec" => TimeForm::Milliseconds,
        "usec" => TimeForm::Microseconds,
        "msec_frac" => TimeForm::MillisecondFraction,
        "usec_frac" => TimeForm::MicrosecondFraction,
        pattern => TimeForm::Pattern(TimePattern::parse(pattern)?),
    };
    Some((time, form))
}

/// The most characters that a field is padded to.
const WIDEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &str) -> Vec<TimePart> {
        TimePattern::parse(pattern).unwrap().parts
    }

    #[test]
    fn patterns() {
        let text = |text: &str| TimePart::Text(text.to_owned());
        let field = |letter| TimeField { letter, ..TimeField::default() };
        let plain = |letter| TimePart::Field(field(letter));
        assert_eq!(parts("%d/%b"), [plain('d'), text("/"), plain('b')]);
        assert_eq!(parts("a%%b%tc"), [text("a%b\tc")]);
        assert_eq!(parts("%Ey%OdE"), [plain('y'), plain('d'), text("E")]);
        let wide = TimeField {
            padding: Some('_'),
            is_upper: true,
            width: 10,
            ..field('B')
        };
        assert_eq!(parts("%^_10B"), [TimePart::Field(wide)]);
        assert_eq!(parts("%E %q %-"), [text("%E %q %-")]);
        assert_eq!(
            parts("%999999999999999999999d"),
            [TimePart::Field(TimeField { width: WIDEST, ..field('d') })]
        );
        assert_eq!(TimePattern::parse("a%nb"), None);
        assert_eq!(TimePattern::parse("a\nb"), None);
    }

    #[test]
    fn times_and_forms() {
        use LoggedTime::{Begin, End};
        for (argument, time, form) in [
            ("", Begin, TimeForm::Common),
            ("begin", Begin, TimeForm::Common),
            ("end:", End, TimeForm::Common),
            ("end", End, TimeForm::Common),
            ("sec", Begin, TimeForm::Seconds),
            ("end:usec_frac", End, TimeForm::MicrosecondFraction),
            ("begin:msec_frac", Begin, TimeForm::MillisecondFraction),
        ] {
            assert_eq!(parse(argument), Some((time, form)), "{argument}");
        }
        for (argument, time) in [("%T", Begin), ("beginning", Begin), ("endx", Begin)] {
            let (found, form) = parse(argument).unwrap();
            assert!(found == time && matches!(form, TimeForm::Pattern(_)), "{argument}");
        }
        assert_eq!(parse("end:%T").unwrap().0, End);
    }
}
