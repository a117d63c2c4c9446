//! The directives in force in a folder, and for a file in it.

mod merged_copies;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::modules::core::Options;
use howdah_htaccess::settings::{ConditionalSection, FilesSection, ServerSettings};
use howdah_htaccess::{
    Compiled, DirectivePlace, DirectiveSettings, Exhausted, Meter, Mistake, MistakeKind,
};

pub use self::merged_copies::MergedCopies;
use self::merged_copies::{CountedCopies, FolderMerges};
use crate::phases::handler::ABOVE;

/// The directives in force in a folder: its own file merged with those of the folders above, up to
/// the site's own rules. The [`SiteHost`](crate::SiteHost) makes the rules and keeps them
/// until one of these files changes. Nothing is merged twice: neither the folders on the way, nor
/// the sections that apply to a file.
#[derive(Debug)]
pub struct Rules {
    above: Option<Rc<Rules>>,
    own: Arc<Compiled>,
    /// The directives of the site's configuration that act before those of any folder.
    server: Option<Rc<ServerSettings>>,
    /// The broken file, the first from the top.
    broken: Option<Arc<Compiled>>,
    folder: Rc<SettingsInForce>,
    /// The entries that the settings of this folder and of those above have copied.
    copied_on_way: usize,
    /// Whether this folder or one above does not let every link be followed.
    restricts_links: bool,
    /// By the numbers of the `<Files>` sections that apply.
    by_files: Variants,
}

/// Merged settings, and the conditions that have not been evaluated yet.
#[derive(Debug)]
pub(crate) struct SettingsInForce {
    pub(crate) settings: Arc<DirectiveSettings>,
    /// `<If>` sections that have not been evaluated.
    pub(crate) pending: Box<[Arc<ConditionalSection>]>,
    /// Whether a section, and not a folder, has said SetHandler. A section's handler comes before
    /// the site's own handlers.
    pub(crate) section_sets_handler: bool,
    /// Whether the settings leave the response for a file or a script unchanged.
    pub(crate) is_silent: bool,
    /// By the numbers of the branches that apply, one for each section.
    by_branches: Variants,
    /// The entries that these settings alone have copied.
    copied: CountedCopies,
}

/// The numbers of a combination of sections, and what they make of the settings.
type SettingsVariant = (Box<[u16]>, Rc<SettingsInForce>);

/// Settings merged for combinations of sections.
#[derive(Debug)]
struct Variants {
    known: RefCell<Vec<SettingsVariant>>,
    folder: Rc<FolderMerges>,
}

impl Rules {
    /// Returns the rules of a folder with the directives `own` below the rules `above`. Folders
    /// without directives of their own have the rules of the folder above. The entries that merging
    /// copies are counted in `copies`.
    pub fn below(
        above: Option<&Rc<Rules>>,
        own: Arc<Compiled>,
        copies: &MergedCopies,
    ) -> Rc<Rules> {
        let (server, rest) = match own.is_server {
            // A file that cannot be understood answers 500, and nothing before it acts.
            true if own.mistake.is_none() => own.settings.split_server(),
            _ => (None, own.settings.clone()),
        };
        let broken = above.and_then(|above| above.broken.clone());
        let broken = broken.or_else(|| own.mistake.is_some().then(|| Arc::clone(&own)));
        let too_large = || above.and_then(|above| too_large(above, &rest, &own));
        let broken = broken.or_else(too_large);
        let (settings, copied) = match above.map(|above| &above.folder.settings) {
            // Nothing below a broken file is served.
            Some(above) if broken.is_none() => (above.merge(&rest), above.copied_with(&rest)),
            _ => (rest, 0),
        };
        let options = settings.core.as_ref().map(|core| core.options(ABOVE));
        let folder = SettingsInForce::folder(settings, copied, &FolderMerges::new(copies));
        let forbids = options.is_some_and(|options| !options.has(Options::FOLLOW_SYM_LINKS));
        Rc::new(Rules {
            restricts_links: forbids || above.is_some_and(|above| above.restricts_links),
            server: server.map(Rc::new).or_else(|| above?.server.clone()),
            above: above.cloned(),
            broken,
            own,
            copied_on_way: copied + above.map_or(0, |above| above.copied_on_way),
            by_files: Variants::of(&folder.copied.folder),
            folder,
        })
    }

    /// Returns the rules of the next folder above that has directives. `None` if there is none.
    pub fn above(&self) -> Option<&Rc<Rules>> {
        self.above.as_ref()
    }

    /// Returns the directives of the site's configuration that act before those of any folder.
    /// `None` if there are none.
    pub(crate) fn server(&self) -> Option<&Rc<ServerSettings>> {
        self.server.as_ref()
    }

    /// Returns the rules of the outermost folder, which the site's configuration has made if there
    /// is a [`server`](Rules::server).
    pub(crate) fn outermost(&self) -> &Rules {
        self.above.as_ref().map_or(self, |above| above.outermost())
    }

    /// Returns the settings of the site's configuration. `None`: it has none, or they are broken.
    pub(crate) fn of_site(&self) -> Option<&Arc<DirectiveSettings>> {
        let outermost = self.outermost();
        let is_site = outermost.own.is_server && outermost.broken.is_none();
        is_site.then(|| outermost.settings())
    }

    /// Returns the closest file of directives.
    pub fn own(&self) -> &Arc<Compiled> {
        &self.own
    }

    /// Returns the mistake in the first broken file from the top. Nothing that a broken file covers
    /// is served. `None` if no file is broken.
    pub fn mistake(&self) -> Option<&Mistake> {
        self.broken.as_ref().and_then(|compiled| compiled.mistake.as_deref())
    }

    /// Returns the number of entries that the folder's settings have copied, also for combinations
    /// of sections.
    pub fn copied(&self) -> usize {
        self.folder.copied.folder.copied()
    }

    pub(crate) fn restricts_links(&self) -> bool {
        self.restricts_links
    }

    /// Returns the merged settings, without the sections that depend on a file's name or a
    /// condition.
    pub fn settings(&self) -> &Arc<DirectiveSettings> {
        &self.folder.settings
    }

    /// Returns the settings where these `<Files>` sections apply, by their numbers in
    /// [`DirectiveSettings::files`].
    ///
    /// # Errors
    /// Where merging them takes too much work.
    pub(crate) fn with_files(
        &self,
        numbers: &[u16],
        meter: Meter<'_>,
    ) -> Result<Rc<SettingsInForce>, Exhausted> {
        if numbers.is_empty() {
            return Ok(Rc::clone(&self.folder));
        }
        variant(&self.by_files, &self.folder, numbers, || {
            let sections = numbers.iter().filter_map(|number| self.file_section(*number));
            let merged = together(sections.map(|section| &section.settings), meter)?;
            let pending = [&self.settings().conditions[..], &merged.conditions].concat();
            self.folder.closer(&merged, pending, meter)
        })
    }

    /// Returns the `<Files>` section of that number. `None` if there are fewer.
    pub(crate) fn file_section(&self, number: u16) -> Option<&Arc<FilesSection>> {
        self.folder.settings.files.get(usize::from(number))
    }
}

/// Returns the file as a broken one where merging its settings with those of the folders above
/// would copy too much: each folder with directives of its own keeps a copy, and each thread.
fn too_large(above: &Rules, settings: &DirectiveSettings, own: &Compiled) -> Option<Arc<Compiled>> {
    let copied = above.settings().copied_with(settings);
    let (copied, most) = match copied > MOST_COPIED {
        true => (copied, MOST_COPIED),
        false => (above.copied_on_way + copied, MOST_COPIED_ON_WAY),
    };
    (copied > most).then(|| {
        let mistake = Mistake {
            place: DirectivePlace {
                file: Arc::clone(&own.file),
                line: 1,
                column: 1,
            },
            line: String::new(),
            message: format!(
                "the directives of this file and of the folders above are too many to be merged: \
                 {copied}, of which there may be {most}; say them in one folder only"
            ),
            hint: None,
            kind: MistakeKind::Refused,
        };
        Arc::new(Compiled {
            file: Arc::clone(&own.file),
            is_server: own.is_server,
            settings: DirectiveSettings::default(),
            mistake: Some(Box::new(mistake)),
            remarks: Vec::new(),
            asked: Vec::new(),
        })
    })
}

impl SettingsInForce {
    /// The settings of a folder without sections, for which `copied` entries were copied.
    fn folder(
        settings: DirectiveSettings,
        copied: usize,
        merges: &Rc<FolderMerges>,
    ) -> Rc<SettingsInForce> {
        Rc::new(SettingsInForce {
            pending: settings.conditions.clone().into(),
            is_silent: settings.is_silent(),
            settings: Arc::new(settings),
            section_sets_handler: false,
            by_branches: Variants::of(merges),
            copied: CountedCopies::new(merges, copied),
        })
    }

    /// Returns the settings where these branches of the pending conditions apply: one number for
    /// each condition, [`NO_BRANCH`] where none does. The conditions inside those branches are
    /// pending then.
    ///
    /// # Errors
    /// Where merging them takes too much work.
    pub(crate) fn with_branches(
        &self,
        numbers: &[u16],
        meter: Meter<'_>,
    ) -> Result<Rc<SettingsInForce>, Exhausted> {
        variant(&self.by_branches, self, numbers, || {
            let branches = self.pending.iter().zip(numbers);
            let branches =
                branches.filter_map(|(section, number)| section.branches.get(usize::from(*number)));
            let merged = together(branches.map(|branch| &branch.settings), meter)?;
            let nested = merged.conditions.clone();
            self.closer(&merged, nested, meter)
        })
    }

    fn closer(
        &self,
        sections: &DirectiveSettings,
        pending: Vec<Arc<ConditionalSection>>,
        meter: Meter<'_>,
    ) -> Result<Rc<SettingsInForce>, Exhausted> {
        let sets_handler = sections.core.as_ref().is_some_and(|core| core.sets_handler());
        let mut settings = self.settings.merge_counted(sections, meter)?;
        let (merges, copied) = (&self.copied.folder, self.settings.copied_with(sections));
        settings.unshared = self.settings.unshared + sections.unshared + copied + LEAST_COPIED;
        Ok(Rc::new(SettingsInForce {
            is_silent: settings.is_silent(),
            settings: Arc::new(settings),
            pending: pending.into(),
            section_sets_handler: self.section_sets_handler || sets_handler,
            by_branches: Variants::of(merges),
            copied: CountedCopies::new(merges, copied),
        }))
    }
}

impl Variants {
    /// A table of a folder.
    fn of(folder: &Rc<FolderMerges>) -> Variants {
        Variants {
            known: RefCell::default(),
            folder: Rc::clone(folder),
        }
    }
}

/// Sections are merged with each other before they are merged with the folder's settings, as httpd
/// does it.
fn together<'s>(
    mut sections: impl Iterator<Item = &'s DirectiveSettings>,
    meter: Meter<'_>,
) -> Result<DirectiveSettings, Exhausted> {
    let first = sections.next().cloned().unwrap_or_default();
    sections.try_fold(first, |merged, section| {
        let copied = merged.unshared + merged.copied_with(section);
        let mut merged = merged.merge_counted(section, meter)?;
        merged.unshared = copied;
        Ok(merged)
    })
}

/// Returns the variant of `base` for `numbers`, made on first use. One that is kept is shared by
/// all requests; a table of settings that are not kept themselves keeps nothing for others.
fn variant(
    known: &Variants,
    base: &SettingsInForce,
    numbers: &[u16],
    make: impl FnOnce() -> Result<Rc<SettingsInForce>, Exhausted>,
) -> Result<Rc<SettingsInForce>, Exhausted> {
    if let Some((_, found)) = known.known.borrow().iter().find(|(key, _)| **key == *numbers) {
        return Ok(Rc::clone(found));
    }
    let mut made = make()?;
    if base.settings.unshared == 0 && known.folder.keep_combination() {
        let settings = Rc::get_mut(&mut made).and_then(|made| Arc::get_mut(&mut made.settings));
        settings.expect("they were just made").unshared = 0;
        known.known.borrow_mut().push((numbers.into(), Rc::clone(&made)));
    }
    Ok(made)
}

/// The number of a condition of which no branch applies.
pub(crate) const NO_BRANCH: u16 = u16::MAX;

/// Entries for which a merge counts that copies fewer: the lists and the settings of modules which
/// it makes.
const LEAST_COPIED: usize = 8;

/// Entries that a folder's settings may copy from its file and from the folders above, of the
/// modules that both have directives of. Beyond, what the file covers is answered with 500. An
/// entry takes about 200 bytes.
const MOST_COPIED: usize = 2000;

/// Entries that the settings of all folders on the way to one may copy together: those of the
/// folders above are kept as long as its own. Beyond, requests get 500.
const MOST_COPIED_ON_WAY: usize = 10 * MOST_COPIED;

#[cfg(test)]
mod tests {
    use howdah_htaccess::{CompileContext, compile};

    use super::merged_copies::MOST_COMBINATIONS;
    use super::*;

    /// The combinations that are kept for a folder.
    fn kept(settings: &SettingsInForce) -> usize {
        let known = settings.by_branches.known.borrow();
        known.iter().map(|(_, settings)| 1 + kept(settings)).sum()
    }

    #[test]
    fn a_folder_keeps_a_bounded_number_of_combinations() {
        let files: String =
            (0..12).map(|number| format!("<Files {number}*>\n</Files>\n")).collect();
        let conditions = "<If \"true\">\n<If \"true\">\n</If>\n</If>\n<Else>\n</Else>\n".repeat(3);
        let text = files + &conditions;
        let own = Arc::new(compile(text.as_bytes(), &CompileContext::default()));
        assert_eq!(own.mistake, None);
        let rules = Rules::below(None, own, &MergedCopies::default());
        for files in 0..64_u16 {
            let numbers: Vec<u16> = (0..12).filter(|number| files >> number & 1 == 1).collect();
            let in_force = rules.with_files(&numbers, Meter::unlimited()).unwrap();
            for branches in 0..8_u16 {
                let numbers = [0, 1, 2].map(|place| branches >> place & 1);
                let closer = in_force.with_branches(&numbers, Meter::unlimited()).unwrap();
                let all = vec![0; closer.pending.len()];
                closer.with_branches(&all, Meter::unlimited()).unwrap();
            }
        }
        let tables = rules.by_files.known.borrow();
        let all = tables.iter().map(|(_, settings)| 1 + kept(settings)).sum::<usize>();
        assert_eq!(all + kept(&rules.folder), MOST_COMBINATIONS);
    }

    #[test]
    fn settings_that_would_be_copied_for_many_folders_are_refused() {
        let rules = |above: Option<&Rc<Rules>>, text: &str| {
            let context = CompileContext::new("/srv/a/.htaccess", b"/srv/a/");
            let own = Arc::new(compile(text.as_bytes(), &context));
            assert_eq!(own.mistake, None);
            Rules::below(above, own, &MergedCopies::default())
        };
        let many = |line: &str, count: usize| -> String {
            (0..count)
                .map(|number| line.replace("{n}", &number.to_string()) + "\n")
                .collect()
        };
        for (line, count, is_refused) in [
            ("SetEnv v{n} x", 3000, true),
            ("FilterDeclare f{n}", 3000, true),
            // Pointers to them are copied.
            ("Header set X-Name {n}", 24_007, true),
            ("Header set X-Name {n}", 15_000, false),
            // These are shared.
            ("AddType text/x .e{n}", 20_000, false),
            ("Redirect /a{n} /b", 20_000, false),
            ("SetEnvIf User-Agent a{n} b", 20_000, false),
            ("RewriteRule ^a{n} /b", 20_000, false),
            ("Deny from 10.0.0.1", 20_000, false),
        ] {
            let text = many(line, count);
            let root = rules(None, &text);
            assert_eq!(root.mistake(), None, "a file alone is copied by nobody");
            let other = rules(Some(&root), "php_value a b");
            assert_eq!(other.mistake(), None, "{line}: not a directive of the same module");
            let same = rules(Some(&root), &line.replace("{n}", "x"));
            assert_eq!(same.mistake().is_some(), is_refused, "{line}");
            if let Some(mistake) = same.mistake() {
                assert!(mistake.to_string().contains("/srv/a/.htaccess"), "{mistake}");
                assert!(mistake.message.contains("3001, of which there may be 2000"), "{mistake}");
                let below = rules(Some(&same), "php_value a b");
                assert!(below.mistake().is_some(), "and what is below is covered, too");
            }
        }
    }

    #[test]
    fn many_rules_are_not_copied_for_the_folders_that_inherit_them() {
        let rules = |above: Option<&Rc<Rules>>, text: &str| {
            let own = Arc::new(compile(text.as_bytes(), &CompileContext::default()));
            assert_eq!(own.mistake, None);
            Rules::below(above, own, &MergedCopies::default())
        };
        let many: String =
            (0..20_000).map(|number| format!("RewriteRule ^a{number} /b\n")).collect();
        let mut below = rules(None, &many);
        for text in ["RewriteEngine On", "RewriteOptions Inherit", "RewriteOptions InheritBefore"] {
            below = rules(Some(&below), text);
            assert!(below.mistake().is_none() && below.copied() < 10, "{text}");
        }
    }

    #[test]
    fn nested_folders_copy_a_bounded_part() {
        let line = |number: usize| format!("SetEnv v{number} x\n");
        let mut rules = None;
        let mut copied = 0;
        for folder in 0..100 {
            let text: String = (folder * 100..folder * 100 + 100).map(line).collect();
            let own = Arc::new(compile(text.as_bytes(), &CompileContext::default()));
            let below = Rules::below(rules.as_ref(), own, &MergedCopies::default());
            copied += below.settings().copied_with(below.settings()) / 2;
            rules = Some(below);
        }
        assert!(rules.unwrap().mistake().is_some());
        assert!(copied < 100 * MOST_COPIED, "{copied}");
    }

    #[test]
    fn folders_on_the_way_to_one_copy_a_bounded_part_together() {
        let rules = |above: Option<&Rc<Rules>>, text: &str| {
            let own = Arc::new(compile(text.as_bytes(), &CompileContext::default()));
            Rules::below(above, own, &MergedCopies::default())
        };
        let many: String = (0..1500).map(|number| format!("SetEnv v{number} x\n")).collect();
        let mut below = rules(None, &many);
        let whole = (0..100)
            .take_while(|_| {
                below = rules(Some(&below), "SetEnv v0 y");
                below.mistake().is_none()
            })
            .count();
        assert_eq!(whole, MOST_COPIED_ON_WAY / 1501);
        let message = &below.mistake().unwrap().message;
        assert!(message.contains("of which there may be 20000"), "{message}");
        assert!(rules(Some(&below), "SetEnv v0 y").copied_on_way <= MOST_COPIED_ON_WAY);
    }

    #[test]
    fn copies_are_counted_as_long_as_they_live() {
        let compiled = |text: &str| Arc::new(compile(text.as_bytes(), &CompileContext::default()));
        let copies = MergedCopies::bounded(150);
        let many: String = (0..90).map(|number| format!("SetEnv v{number} x\n")).collect();
        let root = Rules::below(None, compiled(&many), &copies);
        assert_eq!((root.copied(), copies.sum()), (0, 0), "nothing was merged");
        let section = "SetEnv a b\n<Files x>\nSetEnv c d\n</Files>";
        let below = Rules::below(Some(&root), compiled(section), &copies);
        assert_eq!((below.copied(), copies.sum()), (91, 91));
        let found = below.with_files(&[0], Meter::unlimited()).unwrap();
        assert_eq!((below.copied(), copies.is_exceeded()), (91 + 92, true));
        // There is no room to keep it.
        drop(found);
        assert_eq!((below.copied(), copies.is_exceeded()), (91, false));
        let copies = MergedCopies::default();
        let below = Rules::below(Some(&root), compiled(section), &copies);
        drop(below.with_files(&[0], Meter::unlimited()).unwrap());
        assert_eq!((below.copied(), copies.sum()), (91 + 92, 91 + 92), "it is kept");
        drop(below);
        assert_eq!(copies.sum(), 0);
    }
}
