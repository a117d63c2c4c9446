//! What directives ask of the outside, passed on to the disk.

use std::net::IpAddr;
use std::sync::Arc;

use howdah_htaccess::world::{Load, LookedUp, Lookup, Owners, Probe, ProbeKind, Verified, World};
use howdah_htaccess::{Settings, Transaction};

use super::Walk;
use crate::disk::{Disk, Kind};
use crate::path::DocumentPath;

/// The outside, as one request's directives see it.
pub(super) struct Outside<'w, 'a, 'r, D> {
    walk: &'w mut Walk<'a, 'r, D>,
    path: &'w DocumentPath,
    kind: Kind,
    /// What is in force for the request, and whether it ends with a slash.
    under: Option<(&'w Arc<Settings>, bool)>,
}

impl<'w, 'a, 'r, D: Disk> Outside<'w, 'a, 'r, D> {
    pub(super) fn new(walk: &'w mut Walk<'a, 'r, D>, path: &'w DocumentPath, kind: Kind) -> Self {
        Outside { walk, path, kind, under: None }
    }

    /// For a request that has been let through under these settings: what it looks up under the
    /// same is let through as well.
    pub(super) fn under(mut self, settings: &'w Arc<Settings>, slash: bool) -> Self {
        self.under = Some((settings, slash));
        self
    }
}

impl<D: Disk> World for Outside<'_, '_, '_, D> {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.walk.disk.probe(path)
    }

    fn kind(&mut self, path: &[u8]) -> Option<ProbeKind> {
        // Nearly every question is whether the file is there that the URL names, which is known.
        let own = self.path.absolute_bytes();
        let is_own = match path.strip_prefix(own) {
            Some(b"") => true,
            Some(b"/") => self.kind == Kind::Directory,
            _ => false,
        };
        match self.kind {
            Kind::File if is_own => Some(ProbeKind::File),
            Kind::Directory if is_own => Some(ProbeKind::Directory),
            Kind::Missing if is_own => None,
            _ => self.walk.disk.probe(path).map(|probe| probe.kind),
        }
    }

    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.walk.disk.probe_link(path)
    }

    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.walk.disk.read(path)
    }

    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>> {
        self.walk.disk.entries(folder)
    }

    fn lookup(&mut self, from: &mut Transaction<'_>, uri: &[u8]) -> Lookup {
        let passed = self
            .under
            .map(|(settings, slash)| self.walk.passed_as(settings, self.path, self.kind, slash));
        self.walk.lookup(from, uri, passed.as_ref())
    }

    fn verify(&mut self, hash: &[u8], password: &[u8]) -> Verified {
        self.walk.client.depends_on_everything();
        let verified = self.walk.disk.verify(hash, password);
        if verified == Verified::Later {
            self.walk.unverified = Some((hash.to_vec(), password.to_vec()));
        }
        verified
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.walk.disk.variable(name)
    }

    fn zone(&mut self, seconds: u64) -> i32 {
        self.walk.client.depends_on_everything();
        self.walk.disk.zone(seconds)
    }

    fn owners(&mut self, path: &[u8]) -> Option<Owners> {
        self.walk.client.depends_on_everything();
        self.walk.disk.owners(path)
    }

    fn host_name(&mut self, address: IpAddr) -> LookedUp<Vec<u8>> {
        self.walk.client.depends_on_everything();
        self.walk.disk.host_name(address)
    }

    fn addresses(&mut self, name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        self.walk.client.depends_on_everything();
        self.walk.disk.addresses(name)
    }

    fn nonce_secret(&mut self) -> Option<[u8; 32]> {
        self.walk.client.depends_on_everything();
        self.walk.disk.nonce_secret()
    }

    fn elapsed(&mut self) -> u64 {
        self.walk.client.depends_on_everything();
        self.walk.disk.elapsed()
    }

    fn load(&mut self) -> Load {
        self.walk.client.depends_on_everything();
        self.walk.disk.load()
    }
}
