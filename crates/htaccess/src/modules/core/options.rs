//! `Options`: the features that are on for a folder.

use crate::directive::DirectiveCall;
use crate::language::words;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::core;
use crate::scope::CompileContext;

/// A set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(u8);

impl Options {
    /// No option.
    pub const NONE: Options = Options(0);
    /// A folder without an index file may be listed.
    pub const INDEXES: Options = Options(1);
    /// Server-side includes.
    pub const INCLUDES: Options = Options(2);
    /// Symbolic links are followed.
    pub const FOLLOW_SYM_LINKS: Options = Options(4);
    /// CGI programs run.
    pub const EXEC_CGI: Options = Options(8);
    /// Server-side includes may run programs; only together with [`INCLUDES`](Options::INCLUDES).
    pub const INCLUDES_EXEC: Options = Options(16);
    /// Symbolic links are followed where link and target have the same owner.
    pub const SYM_LINKS_IF_OWNER_MATCH: Options = Options(32);
    /// A missing name is looked for among names with more extensions.
    pub const MULTI_VIEWS: Options = Options(64);
    /// `Options All`: everything but MultiViews and SymLinksIfOwnerMatch.
    pub const ALL: Options = Options(1 | 2 | 4 | 8 | 16);

    /// Returns the union of both sets.
    pub const fn with(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }

    /// Returns the options of this set that are not in the other.
    pub const fn without(self, other: Options) -> Options {
        Options(self.0 & !other.0)
    }

    /// Returns whether all of `other` are in this set.
    pub const fn has(self, other: Options) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the options that a word of `Options` or of `AllowOverride Options=…` means. `None`
    /// for another word.
    pub fn named(word: &[u8]) -> Option<Options> {
        const WORDS: &[(&str, Options)] = &[
            ("Indexes", Options::INDEXES),
            ("Includes", Options::INCLUDES.with(Options::INCLUDES_EXEC)),
            ("IncludesNOEXEC", Options::INCLUDES),
            ("FollowSymLinks", Options::FOLLOW_SYM_LINKS),
            ("SymLinksIfOwnerMatch", Options::SYM_LINKS_IF_OWNER_MATCH),
            ("ExecCGI", Options::EXEC_CGI),
            ("MultiViews", Options::MULTI_VIEWS),
            ("RunScripts", Options::MULTI_VIEWS.with(Options::EXEC_CGI)),
            ("None", Options::NONE),
            ("All", Options::ALL),
        ];
        let found = WORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, options)| *options)
    }
}

/// The setting of `Options` directives: a set of their own, or changes to the options in force
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionsSetting {
    /// Whether `set` replaces what is in force above.
    absolute: bool,
    set: Options,
    /// Invariant: `added` and `removed` have nothing in common.
    added: Options,
    removed: Options,
}

impl OptionsSetting {
    pub(super) fn absolute(set: Options) -> OptionsSetting {
        OptionsSetting {
            absolute: true,
            set,
            ..OptionsSetting::default()
        }
    }

    /// Returns the options in force where the site has `above`.
    pub(super) fn in_force(&self, above: Options) -> Options {
        OptionsSetting::absolute(above).closer(self).set
    }

    /// Merges as `merge_core_dir_configs` in httpd.
    pub(super) fn closer(&self, add: &OptionsSetting) -> OptionsSetting {
        if add.absolute {
            return *add;
        }
        let added = self.added.without(add.removed).with(add.added);
        let removed = self.removed.without(add.added).with(add.removed);
        let mut set = self.set.without(removed).with(added);
        let includes_exec = Options::INCLUDES.with(Options::INCLUDES_EXEC);
        if self.set.has(includes_exec)
            && add.set.has(Options::INCLUDES)
            && !add.set.has(Options::INCLUDES_EXEC)
        {
            set = set.without(Options::INCLUDES_EXEC);
        }
        OptionsSetting {
            absolute: self.absolute,
            set,
            added,
            removed,
        }
    }
}

/// Applies `Options`.
///
/// # Errors
/// An option is not known or not allowed here, or some of the options begin with a sign and others
/// do not.
pub(super) fn apply(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<core::Config>,
) -> Result<(), Complaint> {
    let allowed = allowed_options(call.scope.context);
    let config: &mut core::Config = edit(shared);
    let setting = &mut config.options;
    let mut relative = false;
    let mut all_or_none = false;
    for (index, word) in words(call.raw).iter().map(|word| &word.text).enumerate() {
        let (sign, name) = match word.first() {
            Some(sign @ (b'+' | b'-')) => (Some(*sign), &word[1..]),
            _ => (None, &word[..]),
        };
        let mixed =
            || Complaint::about(index, "either all options begin with + or -, or none does");
        match sign {
            Some(_) if !relative && index > 0 && !all_or_none => return Err(mixed()),
            Some(_) => relative = true,
            None if index == 0 => {
                setting.absolute = true;
                setting.set = Options::NONE;
            }
            None if relative => return Err(mixed()),
            None => {}
        }
        let shown = String::from_utf8_lossy(name).into_owned();
        let option = Options::named(name)
            .ok_or_else(|| Complaint::about(index, format!("there is no option {shown:?}")))?;
        if option == Options::ALL || option == Options::NONE {
            check_all_or_none(index, relative, &shown)?;
            all_or_none = true;
        }
        if !allowed.has(option) {
            let message = format!("option {shown} is not allowed here by AllowOverride");
            return Err(Complaint::about(index, message));
        }
        setting.change(sign, option);
    }
    Ok(())
}

impl OptionsSetting {
    fn change(&mut self, sign: Option<u8>, option: Options) {
        match sign {
            Some(b'-') => {
                self.removed = self.removed.with(option);
                self.added = self.added.without(option);
                self.set = self.set.without(option);
            }
            Some(_) => {
                self.added = self.added.with(option);
                self.removed = self.removed.without(option);
                self.set = self.set.with(option);
            }
            None => self.set = self.set.with(option),
        }
    }
}

fn check_all_or_none(index: usize, relative: bool, shown: &str) -> Result<(), Complaint> {
    if index > 0 {
        return Err(Complaint::about(index, format!("{shown} must be the first option")));
    }
    if relative {
        return Err(Complaint::about(index, format!("{shown} takes neither + nor -")));
    }
    Ok(())
}

fn allowed_options(context: &CompileContext) -> Options {
    match &context.options {
        None => Options(u8::MAX),
        Some(names) => names
            .iter()
            .filter_map(|name| Options::named(name.as_bytes()))
            .fold(Options::NONE, Options::with),
    }
}
