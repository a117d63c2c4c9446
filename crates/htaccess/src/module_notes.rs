//! Notes that modules keep on a request from phase to phase (`r->request_config`).

use std::any::Any;
use std::fmt::Debug;

/// The notes of all modules on a request. Each module has a type of its own, which it alone reads
/// and changes. Nothing is allocated while no module notes anything.
#[derive(Debug, Default)]
pub struct ModuleNotes(Vec<Box<dyn KeptNotes>>);

/// A module's notes on a request.
pub trait KeptNotes: Any + Debug + Send + Sync {
    /// Moves the notes that the other request needs into `to`.
    fn carry_over(&mut self, way: CarryOver, to: &mut ModuleNotes);

    /// Returns a copy.
    fn copied(&self) -> Box<dyn KeptNotes>;

    /// Returns about how many bytes of memory the notes take.
    fn weight(&self) -> usize;
}

/// The relation of a request to the one that takes notes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryOver {
    /// From a request to the one that it is redirected to internally.
    Redirect,
    /// From a request to its sub-request.
    ToSubRequest,
    /// From a sub-request, which is resolved, back to its request.
    FromSubRequest,
}

impl ModuleNotes {
    /// Returns a module's notes; `None` if it has noted nothing.
    pub(crate) fn of<N: KeptNotes>(&self) -> Option<&N> {
        self.0.iter().find_map(|notes| (&**notes as &dyn Any).downcast_ref())
    }

    /// Returns a module's notes, to be changed.
    pub(crate) fn edit<N: KeptNotes + Default>(&mut self) -> &mut N {
        let own = self.0.iter().position(|notes| (&**notes as &dyn Any).is::<N>());
        let place = own.unwrap_or_else(|| {
            self.0.push(Box::new(N::default()));
            self.0.len() - 1
        });
        let notes: &mut dyn Any = &mut *self.0[place];
        notes.downcast_mut().expect("the place of notes of this type")
    }

    /// Returns about how many bytes of memory the notes take.
    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|notes| notes.weight()).sum()
    }

    /// Moves the notes that the other request needs into `to`.
    pub fn carry_over(&mut self, way: CarryOver, to: &mut ModuleNotes) {
        self.0.iter_mut().for_each(|notes| notes.carry_over(way, to));
    }
}

impl Clone for ModuleNotes {
    fn clone(&self) -> ModuleNotes {
        ModuleNotes(self.0.iter().map(|notes| notes.copied()).collect())
    }
}
