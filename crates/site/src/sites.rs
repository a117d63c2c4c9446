//! The sites of a server, prepared for look-ups.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use howdah_config::{Config, HostPattern, RootTemplate, Symlinks, TryStep};
use howdah_htaccess::Settings;
use howdah_http::Status;

use crate::host::HostName;
use crate::names::Names;
use crate::path::DocumentPath;

/// Every site, by host name. Made once per configuration and shared by all threads.
#[derive(Clone, Debug)]
pub struct Sites {
    sites: Vec<Site>,
    exact: HashMap<Box<[u8]>, usize>,
    /// By suffix, without `*.`.
    wildcards: HashMap<Box<[u8]>, usize>,
    default: Option<usize>,
}

/// One site.
#[derive(Clone, Debug)]
pub struct Site {
    number: usize,
    scope: u32,
    config: Arc<howdah_config::Site>,
    root: Root,
    pub(crate) names: Names,
    /// The settings where no directive is in force.
    bare: Arc<Settings>,
    /// The root that is the same for every host.
    document_root: Arc<[u8]>,
}

#[derive(Clone, Debug)]
enum Root {
    /// Without a slash at its end; empty for `/`.
    Fixed(Box<[u8]>),
    PerHost {
        before: Box<[u8]>,
        after: Box<[u8]>,
    },
}

impl Sites {
    /// Prepares the sites of `config`. A host that is listed twice, which the configuration's own
    /// checks refuse, belongs to the first.
    pub fn compile(config: &Config) -> Self {
        let mut sites = Sites {
            sites: Vec::new(),
            exact: HashMap::new(),
            wildcards: HashMap::new(),
            default: None,
        };
        // The first site of each scope.
        let mut scopes: Vec<usize> = Vec::new();
        for (number, site) in config.sites.iter().enumerate() {
            for pattern in &site.hosts {
                match pattern {
                    HostPattern::Exact(name) => {
                        sites.exact.entry(name.as_bytes().into()).or_insert(number);
                    }
                    HostPattern::Wildcard(suffix) => {
                        sites.wildcards.entry(suffix.as_bytes().into()).or_insert(number);
                    }
                    HostPattern::Default => {
                        sites.default.get_or_insert(number);
                    }
                }
            }
            let mut site = Site::new(number, site);
            let same = scopes.iter().position(|first| site.has_directives_of(&sites.sites[*first]));
            let scope = same.unwrap_or_else(|| {
                scopes.push(number);
                scopes.len() - 1
            });
            site.scope = scope as u32;
            sites.sites.push(site);
        }
        sites
    }

    /// Returns the site that answers for `host`, as the request gave it (a port, a final dot and
    /// case are ignored): the one that lists the name itself, else the longest wildcard, else the
    /// default.
    pub fn find(&self, host: &[u8]) -> Option<&Site> {
        if self.exact.is_empty() && self.wildcards.is_empty() {
            return self.by_number(self.default);
        }
        // The usual spelling needs no normalising.
        if let Some(number) = self.exact.get(host) {
            return self.by_number(Some(*number));
        }
        let found = HostName::new(host).and_then(|name| self.find_name(name.as_bytes()));
        self.by_number(found.or(self.default))
    }

    fn find_name(&self, name: &[u8]) -> Option<usize> {
        if let Some(number) = self.exact.get(name) {
            return Some(*number);
        }
        // From left to right the suffixes grow shorter, so the first that is known is the longest.
        memchr::memchr_iter(b'.', name)
            .filter(|&dot| dot > 0)
            .find_map(|dot| self.wildcards.get(&name[dot + 1..]).copied())
    }

    fn by_number(&self, number: Option<usize>) -> Option<&Site> {
        self.sites.get(number?)
    }

    /// Every site, in the order of the configuration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Site> {
        self.sites.iter()
    }
}

impl Site {
    fn new(number: usize, config: &howdah_config::Site) -> Self {
        let root = match &config.root {
            RootTemplate::Fixed(path) => {
                let mut bytes = path.as_os_str().as_bytes();
                while let Some(shorter) = bytes.strip_suffix(b"/") {
                    bytes = shorter;
                }
                Root::Fixed(bytes.into())
            }
            RootTemplate::PerHost { before, after } => Root::PerHost {
                before: before.as_bytes().into(),
                after: after.trim_end_matches('/').as_bytes().into(),
            },
        };
        let document_root = match &root {
            Root::Fixed(root) => Arc::from(&root[..]),
            Root::PerHost { .. } => Arc::default(),
        };
        Site {
            number,
            scope: 0,
            config: Arc::new(config.clone()),
            root,
            names: Names::new(config),
            bare: Arc::default(),
            document_root,
        }
    }

    /// Returns the site's place in the configuration, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the number of the site's scope of directives, from 0. Sites on which directives mean
    /// the same have one scope and share what is known of directives.
    pub fn scope(&self) -> u32 {
        self.scope
    }

    /// Returns the name in logs.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the configuration of the site.
    pub fn config(&self) -> &howdah_config::Site {
        &self.config
    }

    pub(crate) fn steps(&self) -> &[TryStep] {
        &self.config.try_files
    }

    pub(crate) fn index(&self) -> &[String] {
        &self.config.index
    }

    pub(crate) fn symlinks(&self) -> Symlinks {
        self.config.symlinks
    }

    pub(crate) fn bare_settings(&self) -> &Arc<Settings> {
        &self.bare
    }

    /// Returns the document root for `host`, without a slash at its end; empty for a host that has
    /// none.
    pub fn document_root(&self, host: &[u8]) -> Arc<[u8]> {
        match &self.root {
            Root::Fixed(_) => Arc::clone(&self.document_root),
            Root::PerHost { .. } => {
                let root = self.root(host, Vec::new());
                root.map_or_else(|_| Arc::default(), |path| path.root_bytes().into())
            }
        }
    }

    /// Writes the site's document root for `host` into `buffer`. A host that cannot be a folder's
    /// name has no root: 404, as for a folder that does not exist.
    pub(crate) fn root(&self, host: &[u8], buffer: Vec<u8>) -> Result<DocumentPath, Status> {
        match &self.root {
            Root::Fixed(root) => {
                Ok(DocumentPath::at_root(buffer, self.symlinks(), self.scope, |bytes| {
                    bytes.extend_from_slice(root)
                }))
            }
            Root::PerHost { before, after } => {
                let name = HostName::new(host).ok_or(Status::NOT_FOUND)?;
                let component = name.as_component().ok_or(Status::NOT_FOUND)?;
                Ok(DocumentPath::at_root(buffer, self.symlinks(), self.scope, |bytes| {
                    for part in [before, component, after] {
                        bytes.extend_from_slice(part);
                    }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
