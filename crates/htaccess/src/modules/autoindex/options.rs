//! IndexOptions.

/// The options of one file: those set, those added to the inherited ones, and those removed from
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AutoindexOptions {
    /// Bits of the constants.
    set: u32,
    /// Whether any option is without `+` or `-`: then nothing is inherited.
    is_absolute: bool,
    added: u32,
    removed: u32,
}

/// NameWidth and DescriptionWidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// This many bytes.
    Fixed(usize),
    /// The width that the longest entry needs.
    Longest,
}

/// The default of NameWidth and DescriptionWidth.
pub(super) const DEFAULT_WIDTH: usize = 23;

impl AutoindexOptions {
    pub(super) const NONE: u32 = 1;
    pub(super) const ICONS_ARE_LINKS: u32 = 1 << 1;
    pub(super) const SUPPRESS_ICON: u32 = 1 << 3;
    pub(super) const SUPPRESS_LAST_MODIFIED: u32 = 1 << 4;
    pub(super) const SUPPRESS_SIZE: u32 = 1 << 5;
    pub(super) const SUPPRESS_DESCRIPTION: u32 = 1 << 6;
    pub(super) const SUPPRESS_PREAMBLE: u32 = 1 << 7;
    pub(super) const SUPPRESS_SORTING: u32 = 1 << 8;
    pub(super) const SUPPRESS_RULES: u32 = 1 << 9;
    pub(super) const FOLDERS_FIRST: u32 = 1 << 10;
    pub(super) const VERSION_SORT: u32 = 1 << 11;
    pub(super) const TRACK_MODIFIED: u32 = 1 << 12;
    pub(super) const FANCY: u32 = 1 << 13;
    pub(super) const TABLE: u32 = 1 << 14;
    pub(super) const IGNORE_CLIENT: u32 = 1 << 15;
    pub(super) const IGNORE_CASE: u32 = 1 << 16;
    pub(super) const XHTML: u32 = 1 << 17;
    pub(super) const SHOW_FORBIDDEN: u32 = 1 << 18;
    pub(super) const ALT_CLASS: u32 = 1 << 19;

    /// Returns the option of that name; 0 is an option without effect. `None`: there is none.
    pub(super) fn named(word: &[u8]) -> Option<u32> {
        let lower = word.to_ascii_lowercase();
        let (_, option) = NAMES.iter().find(|(name, _)| name.as_bytes() == lower)?;
        Some(*option)
    }

    /// Adds the option of a word.
    pub(super) fn say(&mut self, sign: Option<u8>, option: u32) {
        match sign {
            Some(b'+') => {
                self.added |= option;
                self.removed &= !option;
            }
            Some(_) => {
                self.removed |= option;
                self.added &= !option;
            }
            None => {
                (self.added, self.removed) = (0, 0);
                self.set |= option;
                self.is_absolute |= option != 0;
            }
        }
    }

    /// `None`: clears all options.
    pub(super) fn clear(&mut self) {
        *self = AutoindexOptions {
            set: AutoindexOptions::NONE,
            is_absolute: true,
            ..AutoindexOptions::default()
        };
    }

    /// Returns whether `None` is combined with others.
    pub(super) fn contradict(self) -> bool {
        self.set & AutoindexOptions::NONE != 0 && self.set != AutoindexOptions::NONE
    }

    /// Returns the options in force where `add` is closer. As in Apache, options that a file adds
    /// by `+` are lost where it also has options without a sign.
    pub(super) fn closer(self, add: AutoindexOptions) -> AutoindexOptions {
        if add.is_absolute {
            return AutoindexOptions {
                set: add.set,
                is_absolute: true,
                ..AutoindexOptions::default()
            };
        }
        let added = (self.added | add.added) & !add.removed;
        let removed = self.removed | add.removed;
        AutoindexOptions {
            set: ((self.set & !AutoindexOptions::NONE) | added) & !removed,
            is_absolute: self.is_absolute,
            added,
            removed,
        }
    }

    pub(super) fn has(self, option: u32) -> bool {
        self.set & option != 0
    }

    /// Changes an option as a client's query asks for.
    pub(super) fn change(&mut self, option: u32, on: bool) {
        match on {
            true => self.set |= option,
            false => self.set &= !option,
        }
    }
}

const NAMES: &[(&str, u32)] = &[
    ("addaltclass", AutoindexOptions::ALT_CLASS),
    ("fancyindexing", AutoindexOptions::FANCY),
    ("foldersfirst", AutoindexOptions::FOLDERS_FIRST),
    ("htmltable", AutoindexOptions::TABLE),
    ("iconsarelinks", AutoindexOptions::ICONS_ARE_LINKS),
    ("ignorecase", AutoindexOptions::IGNORE_CASE),
    ("ignoreclient", AutoindexOptions::IGNORE_CLIENT),
    ("scanhtmltitles", 0),
    ("showforbidden", AutoindexOptions::SHOW_FORBIDDEN),
    ("suppresscolumnsorting", AutoindexOptions::SUPPRESS_SORTING),
    ("suppressdescription", AutoindexOptions::SUPPRESS_DESCRIPTION),
    ("suppresshtmlpreamble", AutoindexOptions::SUPPRESS_PREAMBLE),
    ("suppressicon", AutoindexOptions::SUPPRESS_ICON),
    ("suppresslastmodified", AutoindexOptions::SUPPRESS_LAST_MODIFIED),
    ("suppressrules", AutoindexOptions::SUPPRESS_RULES),
    ("suppresssize", AutoindexOptions::SUPPRESS_SIZE),
    ("trackmodified", AutoindexOptions::TRACK_MODIFIED),
    ("versionsort", AutoindexOptions::VERSION_SORT),
    ("xhtml", AutoindexOptions::XHTML),
];
