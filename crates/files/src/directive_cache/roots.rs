//! The sites by document root: whose directives they are.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use howdah_site::{Site, Sites};

use super::DirectiveOwner;

/// The document roots and their sites.
#[derive(Default)]
pub(super) struct SiteRoots {
    /// The first site of each scope.
    scopes: Vec<Site>,
    /// The sites that have a document root for each host.
    per_host: Vec<Site>,
    /// The other sites by document root: the first one of each scope.
    fixed: HashMap<DirectiveOwner, Vec<Site>>,
    hasher: RandomState,
}

impl SiteRoots {
    pub(super) fn new(sites: &Sites) -> SiteRoots {
        let mut roots = SiteRoots::default();
        for site in sites.iter() {
            if site.scope() as usize == roots.scopes.len() {
                roots.scopes.push(site.clone());
            }
            let Some(root) = site.fixed_root() else {
                roots.per_host.push(site.clone());
                continue;
            };
            let owner = roots.owner_of_root(root);
            let of_root = roots.fixed.entry(owner).or_default();
            if of_root.iter().all(|other| other.scope() != site.scope()) {
                of_root.push(site.clone());
            }
        }
        roots
    }

    /// Returns whether there is more than one owner of directives.
    pub(super) fn has_several_owners(&self) -> bool {
        self.fixed.len() + self.per_host.len() > 1
    }

    /// Number of scopes.
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    /// Returns the first site of a scope. `None`: there is no such scope.
    pub(super) fn first_of(&self, scope: u32) -> Option<&Site> {
        self.scopes.get(scope as usize)
    }

    /// Returns the site of that scope that has the document root, or the first of several. Sites of
    /// one scope share directives, but each is blamed for the files below its own root only.
    /// `None`: there is no such scope.
    pub(super) fn site(&self, scope: u32, root: &[u8]) -> Option<&Site> {
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let fixed = self.fixed.get(&self.owner_of_root(root)).into_iter().flatten();
        let per_host = self.per_host.iter().filter(|site| site.has_root(root));
        let mut having = fixed.chain(per_host);
        having.find(|site| site.scope() == scope).or_else(|| self.first_of(scope))
    }

    /// Returns the owner of directives below a document root.
    pub(super) fn owner(&self, root: &[u8]) -> DirectiveOwner {
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let own = self.owner_of_root(root);
        match self.fixed.contains_key(&own) {
            true => own,
            false => self
                .per_host
                .iter()
                .find(|site| site.has_root(root))
                .map_or(own, |site| self.hasher.hash_one(site.number())),
        }
    }

    fn owner_of_root(&self, root: &[u8]) -> DirectiveOwner {
        self.hasher.hash_one(root.strip_suffix(b"/").unwrap_or(root))
    }
}
