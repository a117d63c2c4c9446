//! The front's implementation of [`DirectiveHost`], with the files of a thread and the knowledge of
//! the whole process.

mod load;
mod names;
mod nonces;
mod owners;
mod passwords;

use std::cell::RefMut;
use std::net::IpAddr;
use std::ops::DerefMut;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use howdah_config::{RootTemplate, Symlinks};
use howdah_files::{FileStore, SiteUser, VoidReasons};
use howdah_htaccess::Unrepeatable;
use howdah_htaccess::host::{
    LookedUp, Owners, PasswordFileError, PasswordVerdict, Probe, ServerLoad,
};
use howdah_php::Pool;
use howdah_site::{DirectiveHost, DocumentLook, DocumentPath, PathKind, Site, SiteHost};
use howdah_sys::credentials::Identity;
use howdah_sys::open::Lookup;
use howdah_sys::zone;

pub(crate) use self::passwords::{ComparedPasswords, Passwords};

/// The host for resolving one request of a site.
pub(crate) struct FrontHost<'t, S = RefMut<'t, FileStore>> {
    pub(crate) store: S,
    pub(crate) passwords: &'t Passwords,
    pub(crate) site: &'t Site,
    /// The passwords that were compared for the request.
    pub(crate) compared: &'t ComparedPasswords,
    /// The time at which the request arrived.
    pub(crate) since: Instant,
    /// The pool that runs the site's scripts.
    pub(crate) pool: Option<&'t Pool>,
    /// The user whose files of passwords directives may name.
    pub(crate) user: SiteUser<'t>,
}

/// Returns the user whose files of passwords the directives of a site may name. `pool_user` is the
/// user of its pool; `None` for that of this process.
pub(crate) fn user_of<'s>(site: &'s Site, pool_user: Option<&'s Identity>) -> SiteUser<'s> {
    match (&site.config().php, pool_user) {
        (Some(_), None) => SiteUser::Own,
        (_, pool) => SiteUser::Other {
            pool,
            root: site.fixed_root().unwrap_or_default(),
        },
    }
}

impl<S: DerefMut<Target = FileStore>> FrontHost<'_, S> {
    /// Asks within bounds: see [`FileStore::bounded`].
    #[inline]
    pub(crate) fn bounded<R>(
        &mut self,
        bounds: (Lookup, u64),
        ask: impl FnOnce(&mut Self) -> R,
    ) -> Result<R, VoidReasons> {
        FileStore::bounded(self, |host| &mut *host.store, bounds, ask)
    }
}

impl<S: DerefMut<Target = FileStore>> SiteHost for FrontHost<'_, S> {
    #[inline]
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        self.store.kind(path)
    }

    #[inline]
    fn look(&mut self, path: &DocumentPath) -> DocumentLook {
        self.store.look(path)
    }

    fn probe_document(&mut self, path: &DocumentPath) -> Option<Option<Probe>> {
        self.store.probe_document(path)
    }

    fn read_document(&mut self, path: &DocumentPath) -> Option<Arc<[u8]>> {
        self.store.read_document(path)
    }

    #[inline]
    fn epoch(&self) -> Option<u64> {
        self.store.epoch()
    }

    fn media_type(extension: &[u8]) -> Option<&'static str> {
        FileStore::media_type(extension)
    }
}

impl<S: DerefMut<Target = FileStore>> DirectiveHost for FrontHost<'_, S> {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.store.probe(path)
    }

    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        self.store.probe_link(path)
    }

    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.store.read(path)
    }

    fn read_passwords(&mut self, path: &[u8]) -> Result<Arc<[u8]>, PasswordFileError> {
        let config = self.site.config();
        let named = config.php.iter().flat_map(|php| php.readable.iter().chain(&php.writable));
        let named: Vec<&Path> = named.map(PathBuf::as_path).collect();
        let opened = (config.symlinks != Symlinks::Follow).then_some(&*named);
        let root = match &config.root {
            RootTemplate::Fixed(path) => path,
            RootTemplate::PerHost { before, .. } => Path::new(before),
        };
        self.store.read_passwords(path, self.user, root, opened)
    }

    fn entries(&mut self, folder: &[u8]) -> Vec<Box<[u8]>> {
        self.store.entries(folder)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        // The others may hold secrets that are none of a site's business.
        let mut passed = self.site.config().php.iter().flat_map(|php| &php.pass_env);
        let is_passed = name == b"PATH" || passed.any(|passed| passed.as_bytes() == name);
        let value = is_passed.then(|| std::env::var_os(std::ffi::OsStr::from_bytes(name)));
        value.flatten().map(OsStringExt::into_vec)
    }

    fn verify(&mut self, _: Unrepeatable, hash: &[u8], password: &[u8]) -> PasswordVerdict {
        self.passwords
            .known(self.site.number(), self.compared, (hash, password), Instant::now())
    }

    fn host_name(&mut self, _: Unrepeatable, address: IpAddr) -> LookedUp<Vec<u8>> {
        let list = self.store.read(names::LIST);
        names::name_of(address, list.as_deref().unwrap_or_default())
    }

    fn addresses(&mut self, _: Unrepeatable, name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        let list = self.store.read(names::LIST);
        names::addresses_of(name, list.as_deref().unwrap_or_default())
    }

    fn owners(&mut self, _: Unrepeatable, path: &[u8]) -> Option<Owners> {
        let numbers = self.store.owners_of_path(path)?;
        Some(owners::named(numbers, |list| self.store.read(list)))
    }

    fn nonce_secret(&mut self, _: Unrepeatable) -> Option<[u8; 32]> {
        nonces::secret()
    }

    fn zone(&mut self, _: Unrepeatable, seconds: u64) -> i32 {
        zone::offset(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    fn elapsed(&mut self, _: Unrepeatable) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn load(&mut self, _: Unrepeatable) -> ServerLoad {
        load::of(self.pool)
    }
}
