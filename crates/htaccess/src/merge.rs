//! Merging of the configurations of folders, one below the other.

use std::sync::Arc;

/// Merging of a module's configuration of a folder with that of a folder below it, or of a section.
pub trait Merge {
    /// Returns what is in force where `base` applies and `add` is closer to the file.
    fn merge(base: &Self, add: &Self) -> Self;
}

/// A module's configuration, shared by all settings that agree in it. `None` where no directive
/// of the module is in force: then merging costs nothing.
pub type SharedConfig<C> = Option<Arc<C>>;

/// Returns the configuration, to be added to. Makes it where there is none, and copies it where
/// others share it.
pub fn edit<C: Clone + Default>(shared: &mut SharedConfig<C>) -> &mut C {
    Arc::make_mut(shared.get_or_insert_default())
}

/// Merges two configurations that may be missing.
pub(crate) fn merged<C: Merge>(base: &SharedConfig<C>, add: &SharedConfig<C>) -> SharedConfig<C> {
    match (base, add) {
        (Some(base), Some(add)) => Some(Arc::new(C::merge(base, add))),
        (only, None) | (None, only) => only.clone(),
    }
}
