//! The sites of a server, prepared for look-ups.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use howdah_config::{
    Config, ContentCoding, EncodedSlashes, HostPattern, RootTemplate, Symlinks, TryStep,
};
use howdah_htaccess::DirectiveSettings;
use howdah_http::Status;

use crate::configured_rules::ConfiguredRules;
use crate::host::HostName;
use crate::names::NameRules;
use crate::path::DocumentPath;

/// Every site, by host name. Made once per configuration and shared by all threads.
#[derive(Clone, Debug)]
pub struct Sites {
    sites: Vec<Site>,
    /// By listener; at least one. Listeners on which the same sites answer share their names.
    by_listener: Vec<Arc<HostNames>>,
}

/// The host names of the sites that answer on a listener.
#[derive(Clone, Debug, Default)]
struct HostNames {
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
    config: Arc<howdah_config::SiteSettings>,
    root: SiteRoot,
    pub(crate) names: NameRules,
    /// The directives of the configuration itself.
    pub(crate) configured: Option<Arc<ConfiguredRules>>,
    /// The settings where no directive is in force.
    bare: Arc<DirectiveSettings>,
    /// The root that is the same for every host.
    document_root: Arc<[u8]>,
}

#[derive(Clone, Debug)]
enum SiteRoot {
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
        let mut sites: Vec<Site> = Vec::new();
        // The first site of each scope.
        let mut scopes: Vec<usize> = Vec::new();
        for (number, site) in config.sites.iter().enumerate() {
            let mut site = Site::new(number, site);
            let same = scopes.iter().position(|first| site.has_directives_of(&sites[*first]));
            let scope = same.unwrap_or_else(|| {
                scopes.push(number);
                scopes.len() - 1
            });
            site.scope = scope as u32;
            sites.push(site);
        }
        Sites { sites, by_listener: by_listener(config) }
    }

    /// Returns the site that answers for `host` on the first listener. See
    /// [`find_on`](Sites::find_on). `None` if no site answers for it.
    pub fn find(&self, host: &[u8]) -> Option<&Site> {
        self.find_on(0, host)
    }

    /// Returns the site that answers for `host`, as the request gave it (a port, a final dot and
    /// case are ignored), on that listener of the configuration: the one that lists the name
    /// itself, else the longest wildcard, else the default, else the first. With `strict_hosts`
    /// there is no such first: `None`.
    pub fn find_on(&self, listener: usize, host: &[u8]) -> Option<&Site> {
        let names = self.by_listener.get(listener).or(self.by_listener.first())?;
        self.sites.get(names.find(host)?)
    }

    /// Returns the site that [`find_on`](Sites::find_on) finds for `host` on the first listener on
    /// which a site lists the host, or on the first of all. `None` if no site answers for it.
    pub fn find_anywhere(&self, host: &[u8]) -> Option<&Site> {
        let listed = self.by_listener.iter().find_map(|names| names.find_listed(host));
        match listed {
            Some(number) => self.sites.get(number),
            None => self.find(host),
        }
    }

    /// Every site, in the order of the configuration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Site> {
        self.sites.iter()
    }
}

/// The names that sites have on each listener.
fn by_listener(config: &Config) -> Vec<Arc<HostNames>> {
    let everywhere = Arc::new(HostNames::new(config, |_| true));
    if config.sites.iter().all(|site| site.listen.is_empty()) {
        return vec![everywhere; config.listen.len().max(1)];
    }
    let on = |listener: &howdah_config::ListenerSettings| {
        let answers = |site: &howdah_config::SiteSettings| {
            site.listen.is_empty() || site.listen.contains(&listener.address)
        };
        Arc::new(HostNames::new(config, answers))
    };
    config.listen.iter().map(on).collect()
}

impl HostNames {
    /// The names of the sites that answer.
    fn new(config: &Config, answers: impl Fn(&howdah_config::SiteSettings) -> bool) -> HostNames {
        let mut names = HostNames::default();
        let all = config.sites.iter().enumerate();
        let mut first = None;
        for (number, site) in all.filter(|(_, site)| answers(site)) {
            first.get_or_insert(number);
            for pattern in &site.hosts {
                match pattern {
                    HostPattern::Exact(name) => {
                        names.exact.entry(name.as_bytes().into()).or_insert(number);
                    }
                    HostPattern::Wildcard(suffix) => {
                        names.wildcards.entry(suffix.as_bytes().into()).or_insert(number);
                    }
                    HostPattern::Default => {
                        names.default.get_or_insert(number);
                    }
                }
            }
        }
        if !config.strict_hosts {
            names.default = names.default.or(first);
        }
        names
    }

    fn find(&self, host: &[u8]) -> Option<usize> {
        if self.exact.is_empty() && self.wildcards.is_empty() {
            return self.default;
        }
        // The usual spelling needs no normalising.
        if let Some(number) = self.exact.get(host) {
            return Some(*number);
        }
        self.find_listed(host).or(self.default)
    }

    /// The site that lists the host itself, or a wildcard for it.
    fn find_listed(&self, host: &[u8]) -> Option<usize> {
        HostName::new(host).and_then(|name| self.find_name(name.as_bytes()))
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
}

impl Site {
    fn new(number: usize, config: &howdah_config::SiteSettings) -> Self {
        let root = match &config.root {
            RootTemplate::Fixed(path) => {
                let mut bytes = path.as_os_str().as_bytes();
                while let Some(shorter) = bytes.strip_suffix(b"/") {
                    bytes = shorter;
                }
                SiteRoot::Fixed(bytes.into())
            }
            RootTemplate::PerHost { before, after } => SiteRoot::PerHost {
                before: before.as_bytes().into(),
                after: after.trim_end_matches('/').as_bytes().into(),
            },
        };
        let document_root = match &root {
            SiteRoot::Fixed(root) => Arc::from(&root[..]),
            SiteRoot::PerHost { .. } => Arc::default(),
        };
        Site {
            number,
            scope: 0,
            config: Arc::new(config.clone()),
            root,
            names: NameRules::new(config),
            configured: ConfiguredRules::of(config).map(Arc::new),
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

    /// Returns whether `root`, without a slash at its end, is a document root of the site.
    pub fn has_root(&self, root: &[u8]) -> bool {
        match &self.config.root {
            RootTemplate::Fixed(path) => path.as_os_str().as_bytes() == root,
            RootTemplate::PerHost { before, after } => {
                let host = root.strip_prefix(before.as_bytes());
                let host = host.and_then(|rest| rest.strip_suffix(after.as_bytes()));
                host.is_some_and(|host| !host.is_empty() && !host.contains(&b'/'))
            }
        }
    }

    /// Returns the document root; `None` where each host has its own.
    pub fn fixed_root(&self) -> Option<&[u8]> {
        match &self.config.root {
            RootTemplate::Fixed(path) => Some(path.as_os_str().as_bytes()),
            RootTemplate::PerHost { .. } => None,
        }
    }

    /// Returns the name in logs.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the configuration of the site.
    pub fn config(&self) -> &howdah_config::SiteSettings {
        &self.config
    }

    /// Returns the path at which the content of the file at `path` may lie in that coding. `None`:
    /// such a name is never served.
    pub fn sibling(&self, path: &DocumentPath, coding: ContentCoding) -> Option<DocumentPath> {
        let mut sibling = path.clone();
        sibling.push_suffix(coding.suffix().as_bytes());
        (sibling.fits() && !self.names.denies(sibling.file_name())).then_some(sibling)
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

    pub(crate) fn encoded_slashes(&self) -> EncodedSlashes {
        self.config.encoded_slashes
    }

    /// Returns the directives of the configuration itself; `None` if it has none.
    pub fn directives(&self) -> Option<&str> {
        self.configured.as_deref().map(|configured| &*configured.text)
    }

    pub(crate) fn bare_settings(&self) -> &Arc<DirectiveSettings> {
        &self.bare
    }

    /// Returns the document root for `host`, without a slash at its end; empty for a host that has
    /// none.
    pub fn document_root(&self, host: &[u8]) -> Arc<[u8]> {
        match &self.root {
            SiteRoot::Fixed(_) => Arc::clone(&self.document_root),
            SiteRoot::PerHost { .. } => {
                let root = self.root(host, Vec::new());
                root.map_or_else(|_| Arc::default(), |path| path.root_bytes().into())
            }
        }
    }

    /// Writes the site's document root for `host` into `buffer`. A host that cannot be a folder's
    /// name has no root: 404, as for a folder that does not exist.
    ///
    /// # Errors
    /// 404, where the host has no root.
    pub(crate) fn root(&self, host: &[u8], buffer: Vec<u8>) -> Result<DocumentPath, Status> {
        match &self.root {
            SiteRoot::Fixed(root) => {
                Ok(DocumentPath::at_root(buffer, self.symlinks(), self.scope, |bytes| {
                    bytes.extend_from_slice(root)
                }))
            }
            SiteRoot::PerHost { before, after } => {
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
