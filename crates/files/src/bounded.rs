//! Questions that an event loop asks: answered as far as they take little, and void beyond that.

use howdah_sys::open::Lookup;

use crate::store::FileStore;

/// The reasons why the answers of a store are void: another store has to be asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Voided {
    /// The disk would have had to be waited for.
    pub cold: bool,
    /// More steps along symbolic links were needed than allowed.
    pub too_many_links: bool,
    /// A file of directives has to be compiled.
    pub postponed: bool,
}

impl Voided {
    /// Returns whether there is any reason.
    #[inline]
    pub fn any(self) -> bool {
        self.cold || self.too_many_links || self.postponed
    }
}

impl FileStore {
    /// Returns whether a file of directives has to be compiled by another store since the last
    /// call. The answers given meanwhile are wrong.
    #[inline]
    pub fn take_postponed(&mut self) -> bool {
        self.postponed.take()
    }

    /// Sets whether the next questions wait for the disk, as they do at first. Without,
    /// [`take_cold`](FileStore::take_cold) must be called afterwards.
    #[inline]
    pub fn set_lookup(&mut self, lookup: Lookup) {
        self.disk.set_lookup(lookup);
    }

    /// Returns whether the disk would have had to be waited for since the last call. The answers
    /// given meanwhile are wrong.
    #[inline]
    pub fn take_cold(&mut self) -> bool {
        self.disk.take_cold()
    }

    /// Sets how many steps along symbolic links may be taken from now on, without a limit at first.
    /// With one, [`take_too_many_links`](FileStore::take_too_many_links) must be called afterwards.
    #[inline]
    pub fn allow_link_steps(&mut self, steps: u64) {
        self.disk.allow_steps(steps);
    }

    /// Returns whether more steps along symbolic links were needed than allowed since the last
    /// call. The answers given meanwhile are wrong.
    #[inline]
    pub fn take_too_many_links(&mut self) -> bool {
        self.disk.take_too_many_links()
    }

    /// Begins questions that are answered as far as they take little: with or without waiting for
    /// the disk, and with `link_steps` steps along symbolic links. To be followed by
    /// [`end_bounded`](FileStore::end_bounded).
    #[inline]
    pub fn begin_bounded(&mut self, lookup: Lookup, link_steps: u64) {
        self.set_lookup(lookup);
        self.allow_link_steps(link_steps);
    }

    /// Ends the bounds. Returns what made the answers since their beginning void.
    #[inline]
    pub fn end_bounded(&mut self) -> Voided {
        self.set_lookup(Lookup::Full);
        self.allow_link_steps(u64::MAX);
        Voided {
            cold: self.take_cold(),
            too_many_links: self.take_too_many_links(),
            postponed: self.take_postponed(),
        }
    }
}
