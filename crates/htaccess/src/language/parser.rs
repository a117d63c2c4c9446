//! Nested sections (`ap_build_config`, `ap_build_cont_config`, `ap_soak_end_container`).

use std::borrow::Cow;

use memchr::memchr;

use super::{
    Conditions, DEEPEST, Item, LONGEST_LINE, Lines, LogicalLine, Parsed, SyntaxError, locate, word,
};

pub(super) struct Parser<'p> {
    source: &'p [u8],
    lines: Lines<'p>,
    conditions: &'p mut dyn Conditions,
    faults: Vec<SyntaxError>,
    doubts: Vec<SyntaxError>,
    depth: usize,
}

/// The items of one level: the whole file, or the content of a section like `<IfModule>` that
/// applies.
#[derive(Default)]
struct ItemLevel {
    items: Vec<Item>,
    /// Sections that are still open, outermost first.
    open: Vec<Item>,
}

impl ItemLevel {
    fn add(&mut self, item: Item) {
        match self.open.last_mut().and_then(|section| section.items.as_mut()) {
            Some(items) => items.push(item),
            None => self.items.push(item),
        }
    }

    /// Closes the innermost section.
    fn close(&mut self) {
        if let Some(section) = self.open.pop() {
            self.add(section);
        }
    }
}

impl<'p> Parser<'p> {
    pub(super) fn new(source: &'p [u8], conditions: &'p mut dyn Conditions) -> Parser<'p> {
        Parser {
            source,
            lines: Lines::new(source),
            conditions,
            faults: Vec::new(),
            doubts: Vec::new(),
            depth: 0,
        }
    }

    pub(super) fn run(mut self) -> Parsed {
        let mut level = ItemLevel::default();
        while let Some(line) = self.next_line() {
            self.line(&line, &mut level);
        }
        while let Some(section) = level.open.last() {
            let message = format!("{}> was not closed.", section.name);
            self.faults.push(fault_at(section, message));
            level.close();
        }
        Parsed {
            items: level.items,
            faults: self.faults,
            doubts: self.doubts,
        }
    }

    fn next_line(&mut self) -> Option<LogicalLine<'p>> {
        let mut line = self.lines.next()?;
        if line.length > LONGEST_LINE {
            let message = format!(
                "Line too long: {} bytes, of which there may be {LONGEST_LINE}",
                line.length
            );
            self.fault(&line, 0, message);
            // Compiling a line may take time and memory that grow with the square of its length.
            match &mut line.text {
                Cow::Borrowed(text) => *text = &text[..text.len().min(LONGEST_LINE)],
                Cow::Owned(text) => text.truncate(LONGEST_LINE),
            }
        }
        if line.has_nul {
            let (number, column) = locate(self.source, (line.start, line.number), usize::MAX);
            let message = "a NUL byte, which hides the rest of its line".to_owned();
            self.doubts.push(SyntaxError {
                line: number,
                column,
                message,
                hint: None,
            });
        }
        Some(line)
    }

    /// Adds the content of a section that applies, up to its end tag.
    fn let_through(&mut self, section: &Item, level: &mut ItemLevel) {
        let mut inner = ItemLevel::default();
        let mut ended = false;
        while let Some(line) = self.next_line() {
            let tag = line.text.strip_prefix(b"</").and_then(|tag| tag.strip_suffix(b">"));
            if inner.open.is_empty() && tag.is_some_and(|tag| same_name(tag, section)) {
                ended = true;
                break;
            }
            self.line(&line, &mut inner);
        }
        for open in inner.open.iter().rev().chain((!ended).then_some(section)) {
            // As in Apache, the end of the file silently ends a section that applies.
            let message = format!("{}> is not closed before the end of the file", open.name);
            self.doubts.push(fault_at(open, message));
        }
        while !inner.open.is_empty() {
            inner.close();
        }
        inner.items.into_iter().for_each(|item| level.add(item));
    }

    /// Skips the content of a section that does not apply. Only the tags are read.
    fn pass_over(&mut self, section: &Item) {
        let mut expected = vec![section.name.as_bytes()[1..].to_vec()];
        while let Some(line) = self.next_line() {
            let mut rest: &[u8] = &line.text;
            let mut name = word(&mut rest);
            if name.first() != Some(&b'<') {
                continue;
            }
            if name.get(1) == Some(&b'/') {
                name.pop();
                self.tag_passed_over(&line, name.get(2..).unwrap_or_default(), &mut expected);
                if expected.is_empty() {
                    return;
                }
                continue;
            }
            if rest.is_empty() && name.last() == Some(&b'>') {
                name.pop();
            }
            expected.push(name[1..].to_vec());
        }
        for name in expected.iter().rev() {
            let message =
                format!("Expected </{}> before end of configuration", name.escape_ascii());
            self.faults.push(fault_at(section, message));
        }
    }

    fn tag_passed_over(
        &mut self,
        line: &LogicalLine<'_>,
        name: &[u8],
        expected: &mut Vec<Vec<u8>>,
    ) {
        let is = |other: &Vec<u8>| other.eq_ignore_ascii_case(name);
        if expected.last().is_some_and(is) {
            expected.pop();
            return;
        }
        let wanted =
            expected.last().map_or_else(String::new, |name| name.escape_ascii().to_string());
        self.fault(line, 0, format!("Expected </{wanted}> but saw </{}>", name.escape_ascii()));
        // Deeper sections are not searched, so that many wrong tags cost no more than many lines.
        let top = expected.len().saturating_sub(DEEPEST);
        if let Some(at) = expected[top..].iter().rposition(is).map(|at| top + at) {
            expected.truncate(at);
        }
    }

    fn line(&mut self, line: &LogicalLine<'p>, level: &mut ItemLevel) {
        if line.text.is_empty() || line.text[0] == b'#' {
            return;
        }
        let text = self.substituted(&line.text);
        let mut rest: &[u8] = &text;
        let mut name = word(&mut rest);
        if name.is_empty() {
            return;
        }
        let ends = name.starts_with(b"</");
        if name.get(1) != Some(&b'/') && name.last() == Some(&b'>') {
            name.pop();
        }
        let begins = !ends && name.first() == Some(&b'<');
        if ends {
            return self.end(line, &name, level);
        }
        let raw = if begins && rest.is_empty() { b">" } else { rest };
        let (number, column) = locate(self.source, (line.start, line.number), line.lead);
        let item = Item {
            name: String::from_utf8_lossy(&name).into(),
            raw: raw.into(),
            line: number,
            column,
            start: (line.start, line.number),
            raw_at: matches!(text, Cow::Borrowed(_)).then(|| line.lead + text.len() - rest.len()),
            items: begins.then(Vec::new),
        };
        self.item(item, level);
    }

    fn item(&mut self, item: Item, level: &mut ItemLevel) {
        if item.items.is_none() {
            return level.add(item);
        }
        if self.depth + level.open.len() >= DEEPEST {
            let message = format!("{}> is nested in {DEEPEST} other sections", item.name);
            self.faults.push(fault_at(&item, message));
            return self.pass_over(&item);
        }
        match self.conditions.decide(&item) {
            None => level.open.push(item),
            Some(Ok(true)) => {
                let depth = level.open.len() + 1;
                self.depth += depth;
                self.let_through(&item, level);
                self.depth -= depth;
            }
            Some(Ok(false)) => self.pass_over(&item),
            Some(Err(message)) => {
                self.faults.push(fault_at(&item, message));
                self.pass_over(&item);
            }
        }
    }

    fn end(&mut self, line: &LogicalLine<'_>, tag: &[u8], level: &mut ItemLevel) {
        let shown = tag.escape_ascii();
        let Some(section) = level.open.last() else {
            let name = tag[2..].escape_ascii();
            return self.fault(line, 0, format!("{shown} without matching <{name} section"));
        };
        let Some(name) = tag[2..].strip_suffix(b">") else {
            self.fault(line, tag.len(), format!("{shown}> directive missing closing '>'"));
            return level.close();
        };
        if same_name(name, section) {
            return level.close();
        }
        let message = format!("Expected </{}> but saw {shown}", &section.name[1..]);
        self.fault(line, 0, message);
        if let Some(at) = level.open.iter().rposition(|section| same_name(name, section)) {
            while level.open.len() > at {
                level.close();
            }
        }
    }

    /// Replaces each `${name}` by its value (`ap_resolve_env`).
    fn substituted<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let Some(first) = line.windows(2).position(|two| two == b"${") else {
            return Cow::Borrowed(line);
        };
        let mut result: Option<Vec<u8>> = None;
        let (mut at, mut copied) = (first, 0);
        while let Some(next) = memchr(b'$', &line[at..]).map(|found| at + found) {
            at = next + 1;
            let Some(name) = line[at..].strip_prefix(b"{") else {
                continue;
            };
            let Some(length) = memchr(b'}', name) else {
                break;
            };
            if let Some(value) = self.conditions.variable(&name[..length]) {
                let result = result.get_or_insert_default();
                result.extend_from_slice(&line[copied..next]);
                result.extend_from_slice(&value);
                copied = at + length + 2;
            }
            at += length + 2;
        }
        match result {
            None => Cow::Borrowed(line),
            Some(mut result) => {
                result.extend_from_slice(&line[copied..]);
                Cow::Owned(result)
            }
        }
    }

    fn fault(&mut self, line: &LogicalLine<'_>, index: usize, message: String) {
        let (number, column) = locate(self.source, (line.start, line.number), line.lead + index);
        self.faults.push(SyntaxError {
            line: number,
            column,
            message,
            hint: None,
        });
    }
}

fn same_name(tag: &[u8], section: &Item) -> bool {
    tag.eq_ignore_ascii_case(&section.name.as_bytes()[1..])
}

fn fault_at(item: &Item, message: String) -> SyntaxError {
    SyntaxError {
        line: item.line,
        column: item.column,
        message,
        hint: None,
    }
}
