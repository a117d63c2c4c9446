//! The query of a listing: `C=M;O=D;F=2;V=1;P=*.txt`.

use super::SortKey;
use super::options::AutoindexOptions;
use crate::escape;
use crate::modules::autoindex;

/// The order and form that the query and the directives result in.
#[derive(Debug)]
pub(super) struct ListingOrder {
    pub options: AutoindexOptions,
    pub key: SortKey,
    pub descending: bool,
    /// The pattern that listed names match.
    pub pattern: Option<Vec<u8>>,
    /// The arguments that the links of the columns carry on.
    pub carried: Vec<u8>,
}

impl ListingOrder {
    pub(super) fn of(config: &autoindex::Config, query: Option<&[u8]>) -> ListingOrder {
        let mut wanted = ListingOrder {
            options: config.options,
            key: config.key.unwrap_or(SortKey::Name),
            descending: config.descending.unwrap_or(false),
            pattern: None,
            carried: Vec::new(),
        };
        if wanted.options.has(AutoindexOptions::IGNORE_CLIENT) {
            wanted.options.change(AutoindexOptions::SUPPRESS_SORTING, true);
            return wanted;
        }
        let mut carried: [Vec<u8>; 3] = Default::default();
        for argument in query.unwrap_or_default().split(|byte| b"&;".contains(byte)) {
            // An argument that cannot be read ends the query.
            if !wanted.argument(argument, &mut carried) {
                break;
            }
        }
        wanted.carried = carried.concat();
        wanted
    }

    fn argument(&mut self, argument: &[u8], carried: &mut [Vec<u8>; 3]) -> bool {
        match argument {
            [b'C', b'=', key] => match SortKey::of_letter(*key) {
                Some(key) => self.key = key,
                None => return false,
            },
            [b'O', b'=', direction @ (b'A' | b'D')] => self.descending = *direction == b'D',
            [b'F', b'=', form @ b'0'..=b'2'] => {
                self.options.change(AutoindexOptions::FANCY, *form != b'0');
                self.options.change(AutoindexOptions::TABLE, *form == b'2');
                carried[0] = vec![b';', b'F', b'=', *form];
            }
            [b'V', b'=', version @ (b'0' | b'1')] => {
                self.options.change(AutoindexOptions::VERSION_SORT, *version == b'1');
                carried[1] = vec![b';', b'V', b'=', *version];
            }
            [b'P', b'=', pattern @ ..] => {
                self.pattern = unescape(pattern).filter(|pattern| !pattern.is_empty());
                if let Some(pattern) = &self.pattern {
                    carried[2] = [b";P=", &escape::uri(pattern)[..]].concat();
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns whether an entry of that name is listed. The pattern has to name a leading dot.
    pub(super) fn takes(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            name.starts_with(b".") == pattern.starts_with(b".")
                && crate::wildcard::matches(pattern, name)
        })
    }
}

impl SortKey {
    fn of_letter(letter: u8) -> Option<SortKey> {
        match letter {
            b'N' => Some(SortKey::Name),
            b'M' => Some(SortKey::Modified),
            b'S' => Some(SortKey::Size),
            b'D' => Some(SortKey::Description),
            _ => None,
        }
    }

    /// Returns the letter of the key in a query.
    pub(super) fn letter(self) -> char {
        match self {
            SortKey::Name => 'N',
            SortKey::Modified => 'M',
            SortKey::Size => 'S',
            SortKey::Description => 'D',
        }
    }
}

/// Decodes percent-encoding; `None` where it is bad, or hides a slash or a NUL.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let [high, low, more @ ..] = behind else {
            return None;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = (digit(*high)? * 16 + digit(*low)?) as u8;
        if matches!(value, 0 | b'/') {
            return None;
        }
        out.push(value);
        rest = more;
    }
    Some(out)
}
