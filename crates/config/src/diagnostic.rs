//! The mistakes in a configuration: a message, a place and advice.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use toml::de::DeTable;

use crate::near::{self, nearest};
use crate::reference;

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Name of the file, as given when it was read.
    pub file: String,
    /// Line, column (both from 1, columns in characters) and text of the line; `None` if the
    /// mistake belongs to the whole file.
    pub place: Option<FilePlace>,
    /// Description of the mistake.
    pub message: String,
    /// Advice for the operator, if there is any.
    pub help: Option<String>,
}

/// A place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Line number, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// Text of the whole line.
    pub text: String,
    /// Number of characters that the mistake covers, at least 1.
    pub width: usize,
}

/// All mistakes of a file, in the order of their places; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Diagnostic>);

impl Errors {
    pub(crate) fn unreadable(file: &str, message: String) -> Self {
        Errors(vec![Diagnostic {
            file: file.to_owned(),
            place: None,
            message,
            help: None,
        }])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => write!(f, "{}: {}", self.file, self.message)?,
            Some(place) => {
                let FilePlace { line, column, text, width } = place;
                writeln!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
                let gutter = line.to_string().len();
                // Tabs are repeated in the line below, to place the caret under its character.
                let indent: String = text
                    .chars()
                    .take(column - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                writeln!(f, " {line} | {text}")?;
                write!(f, " {:gutter$} | {indent}{}", "", "^".repeat(*width))?;
            }
        }
        match &self.help {
            Some(help) => write!(f, "\n   help: {help}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, diagnostic) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl Error for Errors {}

/// A file of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A place in the files of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// The number of the file.
    pub(crate) file: usize,
    /// The bytes of its text.
    pub(crate) span: Range<usize>,
}

/// Collects the mistakes in the files of a configuration.
pub(crate) struct MistakeCollector<'t> {
    sources: &'t [SourceText],
    /// The number of the file that is read.
    file: usize,
    found: Vec<((usize, usize), Diagnostic)>,
}

impl<'t> MistakeCollector<'t> {
    pub(crate) fn new(sources: &'t [SourceText]) -> Self {
        MistakeCollector { sources, file: 0, found: Vec::new() }
    }

    /// Says which file is read from now on.
    pub(crate) fn begin(&mut self, file: usize) {
        self.file = file;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds a mistake at `span` of the file that is read.
    pub(crate) fn add(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.add_at(Position { file: self.file, span }, message, help);
    }

    /// Adds a mistake.
    pub(crate) fn add_at(
        &mut self,
        position: Position,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let Position { file, span } = position;
        let source = &self.sources[file];
        let diagnostic = Diagnostic {
            file: source.name.clone(),
            place: Some(place(&source.text, &span)),
            message: message.into(),
            help,
        };
        self.found.push(((file, span.start), diagnostic));
    }

    /// Adds a mistake of the whole file.
    pub(crate) fn add_without_place(&mut self, message: &str, help: &str) {
        let diagnostic = Diagnostic {
            file: self.sources[0].name.clone(),
            place: None,
            message: message.to_owned(),
            help: Some(help.to_owned()),
        };
        self.found.push(((usize::MAX, 0), diagnostic));
    }

    /// Adds the mistake that the TOML parser has found.
    pub(crate) fn syntax(&mut self, error: &toml::de::Error) {
        let span = error.span().unwrap_or(0..0);
        self.add(span, format!("this is not TOML: {}", error.message()), None);
    }

    /// Adds a mistake for each key of `table` that is not among `known`.
    pub(crate) fn unknown_keys(&mut self, table: &DeTable<'_>, place: &str, known: &[&str]) {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let where_ = if place.is_empty() {
                "at the top level".to_owned()
            } else {
                format!("in {place}")
            };
            let of_fpm = near::of_php_fpm(name).filter(|equal| known.contains(equal));
            if let Some(equal) = of_fpm {
                let help = format!("php-fpm's `{name}` is `{equal}` here");
                self.add(key.span(), format!("unknown key `{name}` {where_}"), Some(help));
                continue;
            }
            let help = match (nearest(name, known), reference::sections_of(name)) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, Some(sections)) => format!("`{name}` {sections}"),
                (None, None) => format!("the keys {where_} are: {}", known.join(", ")),
            };
            self.add(key.span(), format!("unknown key `{name}` {where_}"), Some(help));
        }
    }

    /// Returns the line of `position` in words, for a message about a place in `file`: `line 3`, or
    /// `sites/b.toml:3` where that is another file.
    pub(crate) fn line_of(&self, position: &Position, file: usize) -> String {
        let source = &self.sources[position.file];
        let line = place(&source.text, &position.span).line;
        match position.file == file {
            true => format!("line {line}"),
            false => format!("{}:{line}", source.name),
        }
    }

    /// Returns the place of `offset` of the file that is read, as `file:line:column`.
    pub(crate) fn place_of(&self, offset: usize) -> String {
        let source = &self.sources[self.file];
        let FilePlace { line, column, .. } = place(&source.text, &(offset..offset));
        format!("{}:{line}:{column}", source.name)
    }

    /// Ends the search for mistakes.
    ///
    /// # Errors
    /// The mistakes that were found, in the order of their places.
    pub(crate) fn finish(mut self) -> Result<(), Errors> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(place, _)| *place);
        Err(Errors(self.found.into_iter().map(|(_, diagnostic)| diagnostic).collect()))
    }
}

fn place(text: &str, span: &Range<usize>) -> FilePlace {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.floor_char_boundary(span.end.clamp(start, text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let line_text = text[line_start..line_end].trim_end_matches('\r');
    FilePlace {
        line: text[..line_start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        text: line_text.to_owned(),
        width: text[start..end.min(line_end)].chars().count().max(1),
    }
}
