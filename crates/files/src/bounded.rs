//! Questions that an event loop asks: answered as far as they take little, and void beyond that.

use howdah_sys::open::Lookup;

use crate::store::FileStore;

/// The reasons why the answers of a store are void: another store has to be asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoidReasons {
    /// The disk would have had to be waited for.
    pub cold: bool,
    /// More steps along symbolic links were needed than allowed, or the directives of more folders
    /// had to be merged.
    pub too_many_links: bool,
    /// A file of directives has to be compiled.
    pub postponed: bool,
    /// This process, or the system, has as many files open as it may have. Another store would fail
    /// as well.
    pub no_descriptors: bool,
}

impl FileStore {
    /// Returns the result of `ask`, whose questions are answered as far as they take little: with
    /// or without waiting for the disk, and with `link_steps` steps along symbolic links. `store`
    /// gives the store of `asker`, which has no bounds before and afterwards.
    ///
    /// # Errors
    /// The reasons why the answers are void.
    #[inline]
    pub fn bounded<A, R>(
        asker: &mut A,
        store: impl Fn(&mut A) -> &mut FileStore,
        (lookup, link_steps): (Lookup, u64),
        ask: impl FnOnce(&mut A) -> R,
    ) -> Result<R, VoidReasons> {
        store(asker).disk.bound(lookup, link_steps);
        let result = ask(asker);
        let store = store(asker);
        store.disk.unbound();
        let voided = VoidReasons {
            cold: store.disk.take_cold(),
            too_many_links: store.disk.take_too_many_links(),
            postponed: store.postponed.take(),
            no_descriptors: store.disk.take_shortage(),
        };
        match voided == VoidReasons::default() {
            true => Ok(result),
            false => Err(voided),
        }
    }
}
