//! The properties that hold for any bytes in a file of directives. The fuzz target asserts them; a
//! short run is among the tests.

use super::{Conditions, Item, parse, word};
use crate::lint;
use crate::mistake::{Mistake, Severity};
use crate::{CompileContext, compile};

#[cfg(test)]
mod smoke;

/// Every file is read to its end: every directive and every remark has a place in the file; a
/// mistake is among the remarks; and `check` reports every remark of the compiler.
pub fn file(data: &[u8]) {
    let parsed = parse(data, &mut Coin(data.len()));
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    each(&parsed.items, &mut |item| begins_there(item, &lines));
    let context = CompileContext::new("f", b"/site/");
    let compiled = compile(data, &context);
    compiled.remarks.iter().for_each(|remark| stands_there(remark, &lines));
    if let Some(mistake) = &compiled.mistake {
        stands_there(mistake, &lines);
        assert_eq!(mistake.kind.severity(), Severity::Error);
        assert!(compiled.remarks.contains(mistake));
    }
    let remarks = lint::check(data, &context, &mut |_| false);
    remarks.iter().for_each(|remark| stands_there(remark, &lines));
    assert!(compiled.remarks.iter().all(|remark| remarks.contains(remark)));
}

/// A word in quotes is read as the same word.
pub fn quoted_word(data: &[u8]) {
    for quote in [b'"', b'\''] {
        let mut line = vec![quote];
        for &byte in data {
            if byte == quote || byte == b'\\' {
                line.push(b'\\');
            }
            line.push(byte);
        }
        line.push(quote);
        let mut rest = &line[..];
        assert_eq!(word(&mut rest), data);
        assert!(rest.is_empty());
    }
}

/// Lets every second section through that is not ours, so that both ways are gone.
struct Coin(usize);

impl Conditions for Coin {
    fn decide(&mut self, section: &Item) -> Option<Result<bool, String>> {
        self.0 += 1;
        let is_ours = section.name.starts_with("<If");
        is_ours.then_some(Ok(self.0.is_multiple_of(2)))
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        name.starts_with(b"V").then(|| name.to_vec())
    }
}

fn each(items: &[Item], look: &mut dyn FnMut(&Item)) {
    for item in items {
        look(item);
        each(item.items.as_deref().unwrap_or_default(), look);
    }
}

fn begins_there(item: &Item, lines: &[&[u8]]) {
    let line = lines[item.line as usize - 1];
    let first = line.get(item.column as usize - 1);
    assert!(first.is_some_and(|byte| !super::is_space(*byte)), "{item:?}");
}

fn stands_there(remark: &Mistake, lines: &[&[u8]]) {
    let line = lines.get(remark.place.line as usize - 1);
    assert!(line.is_some_and(|line| remark.place.column as usize <= line.len() + 1), "{remark:?}");
    assert!(remark.place.column >= 1);
}
