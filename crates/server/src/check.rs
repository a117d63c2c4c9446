//! `howdah check`: finds the mistakes in the configuration and in every `.htaccess` below the
//! sites' roots.

pub(crate) mod php_ini;
pub(crate) mod pool_access;
pub(crate) mod settings;
mod show;
mod tree;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use howdah_config::{Config, RootTemplate};
use howdah_files::DocumentTree;
use howdah_htaccess::{
    CompileContext, Complaint, DirectivePlace, Mistake, MistakeKind, Severity, compile, lint,
};
use howdah_site::{Site, Sites};
use howdah_sys::credentials::{self, Identity};

pub(crate) use show::{json, text};

/// The mistakes that were found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Number of `.htaccess` files that were read.
    pub(crate) files: usize,
    /// For each site whose `rules` act before every `.htaccess` file: what they are, in words.
    pub(crate) site_rules: Vec<String>,
    /// The mistakes, file by file, in the order of their lines.
    pub(crate) remarks: Vec<Mistake>,
}

impl Findings {
    /// Number of mistakes of this severity.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.remarks.iter().filter(|remark| remark.kind.severity() == severity).count()
    }
}

/// Checks the `.htaccess` files and the rules of all sites. The files are read with the rights of
/// `reader`, the front's user, so that no site's owner shows root's files to an administrator;
/// `None`: with those of this process.
///
/// # Errors
/// The rights of `reader` cannot be had.
pub(crate) fn directives(config: &Config, reader: Option<&Identity>) -> io::Result<Findings> {
    let mut findings = Findings::default();
    for site in Sites::compile(config).iter() {
        findings.site_rules.extend(site_rules(site));
        for root in roots(&site.config().root) {
            if let Some((rules, context)) = site.written_rules(&with_slash(&root)) {
                let remarks = lint::check(rules.as_bytes(), &context, &mut exists);
                findings.remarks.extend(remarks);
            }
            let found = tree::find(&root, site.config().symlinks);
            let most = config.limits.htaccess_size;
            let mut look = || findings.files_of(site, &root, &found.folders, most);
            match reader {
                _ if found.folders.is_empty() => {}
                None => look(),
                Some(reader) => credentials::with_rights_of(reader, look)?,
            }
            if found.is_cut {
                findings.note_bound(&root, "there are too many folders: the rest was not checked");
            }
        }
    }
    Ok(findings)
}

/// Returns a warning for each page of `error_pages` that answers no error of the server itself.
pub(crate) fn unused_pages(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for site in &config.sites {
        for (status, page) in &site.error_pages {
            let path = page.split('?').next().unwrap_or_default();
            let why = match status {
                414 | 421 | 431 | 505 => {
                    "the server gives this answer before it knows the site, with a page of its \
                     own; only rules that answer with this status use the page"
                }
                429 if path.ends_with(".php") => {
                    "no script is run for a client that sends too many requests: name a file"
                }
                _ => continue,
            };
            warnings
                .push(format!("site {}: `error_pages` has {page} for {status}: {why}", site.name));
        }
    }
    warnings
}

/// Says which directives of a site's `rules` act before every `.htaccess` file.
fn site_rules(site: &Site) -> Option<String> {
    let (text, context) = site.rules(b"/")?;
    let compiled = compile(text.as_bytes(), &context);
    let (server, _) = compiled.settings.split_server();
    let server = server?;
    let parts = [
        (server.setenvif.is_some(), "SetEnvIf"),
        (server.rewrite.is_some(), "RewriteRule"),
        (server.alias.is_some(), "Redirect"),
    ];
    let names: Vec<_> = parts.iter().filter(|(is_there, _)| *is_there).map(|part| part.1).collect();
    Some(format!(
        "site {}: {} of `rules` act before every .htaccess file, which cannot switch them off",
        site.name(),
        names.join(", ")
    ))
}

impl Findings {
    /// Looks at the files in these folders below `root`.
    fn files_of(&mut self, site: &Site, root: &Path, folders: &[Vec<u8>], most: u64) {
        let before = self.remarks.len();
        let tree = DocumentTree::open(root, site.config().symlinks);
        for folder in folders {
            let content = match &tree {
                None => Err(format!(
                    "it cannot be read, because the server's user may not enter {}",
                    root.display()
                )),
                Some(tree) => tree.read(&tree::htaccess(folder), most),
            };
            self.file(site, &with_slash(&root.join(OsStr::from_bytes(folder))), content);
            if self.remarks.len() - before > MOST_REMARKS {
                self.remarks.truncate(before + MOST_REMARKS);
                self.note_bound(root, "there are too many mistakes: the rest was not checked");
                return;
            }
        }
    }

    fn note_bound(&mut self, root: &Path, what: &str) {
        let context = CompileContext::new(&*root.to_string_lossy(), &with_slash(root));
        self.remarks
            .push(about_file(&context, MistakeKind::Doubtful, Complaint::new(what)));
    }

    /// Looks at the file in `folder`.
    fn file(&mut self, site: &Site, folder: &[u8], content: Result<Vec<u8>, String>) {
        self.files += 1;
        let context = site.htaccess_context(folder);
        match content {
            Err(why) => {
                let message = format!("{why}; requests that the file covers are refused");
                self.remarks.push(about_file(
                    &context,
                    MistakeKind::Unreadable,
                    Complaint::new(message),
                ));
            }
            Ok(content) if site.reads_htaccess() => {
                self.remarks.extend(lint::check(&content, &context, &mut exists));
            }
            Ok(content) => self.unread(&content, &context),
        }
    }

    /// Handles a file in a site that reads no `.htaccess` files.
    fn unread(&mut self, content: &[u8], context: &CompileContext) {
        let all = CompileContext::new(context.file.clone(), &context.folder);
        let (kind, message) = match lint::protects(content, &all, &mut exists) {
            true => (MistakeKind::Dangerous, "this file keeps people out, and it is not read"),
            false => (MistakeKind::Doubtful, "this file is not read"),
        };
        let hint = "the site's configuration says so: see `htaccess` and `allow_override`";
        self.remarks.push(about_file(context, kind, Complaint::new(message).hint(hint)));
    }
}

fn about_file(context: &CompileContext, kind: MistakeKind, complaint: Complaint) -> Mistake {
    let place = DirectivePlace {
        file: context.file.clone(),
        line: 1,
        column: 1,
    };
    Mistake {
        place,
        line: String::new(),
        message: complaint.message,
        hint: complaint.hint,
        kind,
    }
}

/// The root folders of a site: one, or one per host that exists now.
fn roots(root: &RootTemplate) -> Vec<PathBuf> {
    match root {
        RootTemplate::Fixed(path) => vec![path.clone()],
        RootTemplate::PerHost { before, after } => {
            let mut hosts: Vec<PathBuf> = Path::new(before)
                .read_dir()
                .into_iter()
                .flatten()
                .flatten()
                .map(|host| host.path().join(after.trim_start_matches('/')))
                .filter(|root| root.is_dir())
                .collect();
            hosts.sort();
            hosts
        }
    }
}

fn with_slash(folder: &Path) -> Vec<u8> {
    let mut bytes = folder.as_os_str().as_bytes().to_vec();
    if bytes.last() != Some(&b'/') {
        bytes.push(b'/');
    }
    bytes
}

/// Mistakes that are kept of a document root. Beyond, the rest is left out.
const MOST_REMARKS: usize = 10_000;

fn exists(path: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path)).exists()
}
