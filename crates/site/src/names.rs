//! Decisions by a file's name alone: whether the file is PHP, and whether it may be served at all.

mod backups;

use howdah_config::{Php, SiteSettings};
use howdah_http::Status;

/// The class of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileClass {
    /// Sent as it is.
    Plain,
    /// Run.
    Php,
    /// Neither sent nor run: the source of a PHP program.
    Refused,
    /// Neither sent nor run: a back-up of a PHP program.
    Backup,
}

/// The rules of a site for names.
#[derive(Clone, Debug)]
pub(crate) struct NameRules {
    /// Endings that run, each with its dot. Empty without PHP.
    run: Vec<Box<[u8]>>,
    refuse: Vec<WildcardName>,
    dot_names: Vec<WildcardName>,
    /// Whether some pattern of `refuse` can match a name that does not start with a dot.
    refuse_undotted: bool,
    refuse_backups: bool,
}

#[derive(Clone, Debug)]
struct WildcardName {
    stem: Box<[u8]>,
    /// Whether any ending may follow the stem.
    open: bool,
}

impl NameRules {
    pub(crate) fn new(site: &SiteSettings) -> Self {
        let extensions = site.php.as_ref().map_or(&[][..], |php: &Php| &php.extensions);
        NameRules {
            run: extensions.iter().map(|extension| extension.as_bytes().into()).collect(),
            refuse: site.refuse.iter().map(|text| WildcardName::new(text)).collect(),
            dot_names: site.dot_names.iter().map(|text| WildcardName::new(text)).collect(),
            refuse_backups: site.refuse_backups,
            refuse_undotted: site.refuse.iter().any(|text| !text.starts_with('.')),
        }
    }

    /// Returns whether a file of this name runs, as Debian's `<FilesMatch ".+\.ph(ar|p|tml)$">`
    /// says.
    #[inline]
    pub(crate) fn runs(&self, name: &[u8]) -> bool {
        // One comparison of a byte tells most names from all endings.
        let Some(last) = name.last() else {
            return false;
        };
        self.run.iter().any(|extension| {
            extension.last() == Some(last)
                && name.len() > extension.len()
                && name.ends_with(extension)
        })
    }

    #[inline]
    pub(crate) fn class(&self, name: &[u8]) -> FileClass {
        if self.runs(name) {
            FileClass::Php
        } else if !has_begin_of_source(name) {
            FileClass::Plain
        } else if is_php_source(name) {
            FileClass::Refused
        } else if self.refuse_backups && backups::is_backup(name) {
            FileClass::Backup
        } else {
            FileClass::Plain
        }
    }

    /// Returns where the first component of a normal relative path starts that may not be served,
    /// and its status. `dotted`: whether some component starts with a dot. `None` if all may be
    /// served.
    #[inline]
    pub(crate) fn refusal(&self, relative: &[u8], dotted: bool) -> Option<(usize, Status)> {
        if !dotted && !self.refuse_undotted {
            return None;
        }
        let mut start = 0;
        for component in relative.split(|&byte| byte == b'/') {
            if let Some(status) = self.refuses(component) {
                return Some((start, status));
            }
            start += component.len() + 1;
        }
        None
    }

    /// Returns whether some component of a relative path may not be served, wherever the path comes
    /// from.
    pub(crate) fn denies(&self, relative: &[u8]) -> bool {
        let mut components = relative.split(|&byte| byte == b'/');
        components.any(|component| self.denies_component(component))
    }

    fn denies_component(&self, component: &[u8]) -> bool {
        // Debian's Apache has `<FilesMatch "^\.ph(ar|p|ps|tml)$"> Require all denied`.
        self.refuse.iter().any(|pattern| pattern.matches(component))
            || (component.starts_with(b".") && is_php_source(component))
    }

    fn refuses(&self, component: &[u8]) -> Option<Status> {
        if self.denies_component(component) {
            return Some(Status::FORBIDDEN);
        }
        if component.starts_with(b".")
            && !self.dot_names.iter().any(|pattern| pattern.matches(component))
        {
            return Some(Status::NOT_FOUND);
        }
        None
    }
}

impl WildcardName {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(stem) => WildcardName { stem: stem.as_bytes().into(), open: true },
            None => WildcardName {
                stem: text.as_bytes().into(),
                open: false,
            },
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        if self.open {
            name.starts_with(&self.stem)
        } else {
            *name == *self.stem
        }
    }
}

/// Returns whether an ending begins in the name as those of PHP programs and of their back-ups do.
/// Where none does, neither [`is_php_source`] nor [`backups::is_backup`] is true.
#[inline]
fn has_begin_of_source(name: &[u8]) -> bool {
    name.windows(3).any(|bytes| {
        bytes[0] == b'.'
            && matches!([bytes[1] | 0x20, bytes[2] | 0x20], backups::PHP | backups::INC)
    })
}

/// Returns whether the name's last extension is one that PHP programs have or had, in any case.
/// Those that a site does not run are refused: sent as text, they would reveal passwords.
fn is_php_source(name: &[u8]) -> bool {
    // The shortest is `.php`, the longest `.phtml`; most names fail the first test.
    let Some(dot) = memchr::memrchr(b'.', &name[name.len().saturating_sub(6)..]) else {
        return false;
    };
    let extension = &name[name.len().saturating_sub(6) + dot + 1..];
    if extension.len() < 3 || !extension[..2].eq_ignore_ascii_case(b"ph") {
        return false;
    }
    match extension.to_ascii_lowercase().as_slice() {
        b"php" | b"phtml" | b"phar" | b"phps" | b"pht" => true,
        [b'p', b'h', b'p', digit] => digit.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_by_name() {
        use FileClass::{Backup, Php, Plain, Refused};
        let rows = [
            ("index.php", Php),
            ("a.phtml", Php),
            ("a.phar", Php),
            ("a.b.php", Php),
            ("..php", Php),
            (".php", Refused),
            (".phps", Refused),
            ("a.phps", Refused),
            ("a.PHP", Refused),
            ("a.Phtml", Refused),
            ("a.php5", Refused),
            ("a.pht", Refused),
            ("a.php.bak", Backup),
            ("a.php~", Backup),
            (".a.php.swp", Backup),
            ("a.inc", Backup),
            ("php", Plain),
            ("aphp", Plain),
            ("a.ph", Plain),
            ("a.phx", Plain),
            ("a.phpx", Plain),
            ("a.html", Plain),
            ("a.photo", Plain),
            ("", Plain),
            (".", Plain),
        ];
        let with = NameRules::new(&SiteSettings::default());
        let without = NameRules::new(&SiteSettings { php: None, ..SiteSettings::default() });
        let allowing = NameRules::new(&SiteSettings {
            refuse_backups: false,
            ..SiteSettings::default()
        });
        for (name, class) in rows {
            let allowed = if class == Backup { Plain } else { class };
            assert_eq!(allowing.class(name.as_bytes()), allowed, "{name} with back-ups");
            assert_eq!(with.class(name.as_bytes()), class, "{name}");
            let class = if class == Php { Refused } else { class };
            assert_eq!(without.class(name.as_bytes()), class, "{name} without PHP");
        }
    }

    #[test]
    fn refusals() {
        let rows = [
            ("a/b", None),
            (".well-known/x", None),
            (".well-known/.htaccess", Some((12, 403))),
            (".htaccess", Some((0, 403))),
            (".htpasswd", Some((0, 403))),
            (".user.ini", Some((0, 403))),
            (".env", Some((0, 403))),
            (".env.local", Some((0, 403))),
            (".git/config", Some((0, 403))),
            (".gitignore", Some((0, 403))),
            ("a/.git/config", Some((2, 403))),
            (".php", Some((0, 403))),
            (".phps", Some((0, 403))),
            (".hidden", Some((0, 404))),
            ("a/.b/c", Some((2, 404))),
            (".well-knownx", Some((0, 404))),
        ];
        let names = NameRules::new(&SiteSettings::default());
        for (relative, expected) in rows {
            let found =
                names.refusal(relative.as_bytes(), true).map(|(at, status)| (at, status.code()));
            assert_eq!(found, expected, "{relative}");
        }
    }

    #[test]
    fn undotted_refusals_work_without_a_dotted_path() {
        let names = NameRules::new(&SiteSettings {
            refuse: vec!["vendor".into(), "secret*".into()],
            ..SiteSettings::default()
        });
        for (relative, at) in
            [("vendor/x", Some(0)), ("a/secrets.txt", Some(2)), ("vendors", None), ("x", None)]
        {
            assert_eq!(
                names.refusal(relative.as_bytes(), false).map(|(at, _)| at),
                at,
                "{relative}"
            );
        }
    }
}
