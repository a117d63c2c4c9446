//! `FileETag`: the parts of a file's entity tag.

use crate::directive::DirectiveCall;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::core;

/// The parts of a file's entity tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtagParts(u8);

impl EtagParts {
    /// No entity tag at all.
    pub const NONE: EtagParts = EtagParts(1);
    /// The modification time.
    pub const MTIME: EtagParts = EtagParts(2);
    /// The inode's number.
    pub const INODE: EtagParts = EtagParts(4);
    /// The length.
    pub const SIZE: EtagParts = EtagParts(8);
    /// A digest of the content.
    pub const DIGEST: EtagParts = EtagParts(16);
    /// The parts in force where nothing is configured: MTime Size.
    pub const DEFAULT: EtagParts = EtagParts(2 | 8);
    const ALL: EtagParts = EtagParts(2 | 4 | 8);
    const UNSET: EtagParts = EtagParts(0);

    /// Returns whether all of `other` are in this set.
    pub const fn has(self, other: EtagParts) -> bool {
        self.0 & other.0 == other.0
    }

    const fn with(self, other: EtagParts) -> EtagParts {
        EtagParts(self.0 | other.0)
    }

    const fn without(self, other: EtagParts) -> EtagParts {
        EtagParts(self.0 & !other.0)
    }

    fn named(word: &[u8]) -> Option<EtagParts> {
        const WORDS: &[(&str, EtagParts)] = &[
            ("None", EtagParts::NONE),
            ("All", EtagParts::ALL),
            ("Size", EtagParts::SIZE),
            ("MTime", EtagParts::MTIME),
            ("LMTime", EtagParts::MTIME),
            ("LastModified", EtagParts::MTIME),
            ("INode", EtagParts::INODE),
            ("Digest", EtagParts::DIGEST),
        ];
        let found = WORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, parts)| *parts)
    }
}

/// The setting of `FileETag` directives: parts of their own, or changes to the parts in force
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EtagSetting {
    parts: EtagParts,
    added: EtagParts,
    removed: EtagParts,
}

impl EtagSetting {
    /// Returns the parts in force.
    pub(super) fn in_force(&self) -> EtagParts {
        let parts = self.parts.without(self.removed).with(self.added);
        match parts {
            EtagParts::UNSET => EtagParts::DEFAULT,
            parts if parts.has(EtagParts::NONE) && parts != EtagParts::NONE => {
                parts.without(EtagParts::NONE)
            }
            parts => parts,
        }
    }

    /// Merges as `merge_core_dir_configs` in httpd.
    pub(super) fn closer(&self, add: &EtagSetting) -> EtagSetting {
        let mut joined = *add;
        if add.parts == EtagParts::UNSET {
            joined.added = self.added.without(add.removed).with(add.added);
            joined.removed = self.removed.without(add.added).with(add.removed);
            joined.parts = self.parts.without(joined.removed).with(joined.added);
        }
        if joined.parts != EtagParts::NONE {
            joined.parts = joined.parts.without(EtagParts::NONE);
        }
        joined
    }
}

/// Applies `FileETag`.
///
/// # Errors
/// A word is no part of an entity tag.
pub(super) fn apply(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let config: &mut core::Config = edit(shared);
    let setting = &mut config.file_etag;
    let mut is_first_absolute = true;
    for (index, word) in call.words.iter().enumerate() {
        let (sign, name) = match word.first() {
            Some(sign @ (b'+' | b'-')) => (Some(*sign), &word[1..]),
            _ => (None, &word[..]),
        };
        if sign.is_none() && std::mem::take(&mut is_first_absolute) {
            *setting = EtagSetting::default();
        }
        let shown = String::from_utf8_lossy(name);
        let parts = EtagParts::named(name)
            .ok_or_else(|| Complaint::about(index, format!("FileETag knows no {shown:?}")))?;
        if sign.is_some() && (parts == EtagParts::ALL || parts == EtagParts::NONE) {
            return Err(Complaint::about(index, format!("{shown} takes neither + nor -")));
        }
        match sign {
            Some(b'+') => {
                setting.added = setting.added.with(parts);
                setting.removed = setting.removed.without(parts);
            }
            Some(_) => {
                setting.removed = setting.removed.with(parts);
                setting.added = setting.added.without(parts);
            }
            None => {
                let replaces = parts == EtagParts::ALL || parts == EtagParts::NONE;
                let before = if replaces { EtagParts::UNSET } else { setting.parts };
                *setting = EtagSetting {
                    parts: before.with(parts),
                    ..EtagSetting::default()
                };
            }
        }
    }
    Ok(())
}
