//! The meanings of extensions in a folder, as its own file and those of the folders above have
//! them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::extension::{Aspect, Extension};

/// The layers of a folder: one for each file with such directives, outermost first. A folder shares
/// the layers of the folders above. Empty without such directives.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtensionLayers(Vec<Arc<ExtensionLayer>>);

/// The extensions of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtensionLayer {
    /// By extension, in lower case, without its dot.
    pub(super) by_name: BTreeMap<Arc<[u8]>, Extension>,
    /// Aspects that `Remove…` removes from the extensions of layers further out and of this one.
    removed: BTreeMap<Arc<[u8]>, Vec<Aspect>>,
}

impl ExtensionLayers {
    /// Returns the layer of the file that is read, to be added to.
    pub(super) fn edit(&mut self) -> &mut ExtensionLayer {
        if self.0.is_empty() {
            self.0.push(Arc::default());
        }
        let last = self.0.len() - 1;
        Arc::make_mut(&mut self.0[last])
    }

    /// Returns the layers where `base` applies and `add` is closer to the file.
    pub(super) fn merge(base: &ExtensionLayers, add: &ExtensionLayers) -> ExtensionLayers {
        let mut layers = match base.0.len() {
            1..MOST_LAYERS => base.0.clone(),
            _ => vec![base.united()],
        };
        layers.push(add.united());
        ExtensionLayers(layers)
    }

    /// Returns how many extensions [`merge`](ExtensionLayers::merge) copies.
    pub(super) fn copied(base: &ExtensionLayers, add: &ExtensionLayers) -> usize {
        let parts = [(base, MOST_LAYERS), (add, 2)];
        parts
            .iter()
            .filter(|(part, most)| part.0.len() >= *most)
            .map(|(part, _)| part.count())
            .sum()
    }

    /// Returns the meaning of an extension, given in lower case. `None`: no directive names the
    /// extension.
    pub(super) fn find(&self, name: &[u8]) -> Option<Cow<'_, Extension>> {
        let mut found = self.merged(name)?;
        if let [only] = &self.0[..] {
            only.remove_from(name, &mut found);
        }
        Some(found)
    }

    /// Returns the meaning of an extension like [`find`](ExtensionLayers::find), without the effect
    /// of `RemoveType` and the like in the only file. `None`: no directive names the extension.
    pub(super) fn merged(&self, name: &[u8]) -> Option<Cow<'_, Extension>> {
        let (outermost, closer) = self.0.split_first()?;
        let mut found = outermost.by_name.get(name).map(Cow::Borrowed);
        let mut above = outermost;
        for layer in closer {
            if let Some(found) = &mut found {
                let takes_away = found.takes_away();
                if found.unhandled != takes_away {
                    found.to_mut().unhandled = takes_away;
                }
                above.remove_from(name, found);
            }
            if let Some(own) = layer.by_name.get(name) {
                found.get_or_insert_default().to_mut().overlay(own);
            }
            found.iter_mut().for_each(|found| layer.remove_from(name, found));
            above = layer;
        }
        found
    }

    /// Returns one layer that means the same. It is shared where there is only one.
    fn united(&self) -> Arc<ExtensionLayer> {
        if let [only] = &self.0[..] {
            return Arc::clone(only);
        }
        let names: BTreeSet<&Arc<[u8]>> =
            self.0.iter().flat_map(|layer| layer.by_name.keys()).collect();
        let united = names.into_iter().filter_map(|name| {
            self.merged(name).map(|found| (Arc::clone(name), found.into_owned()))
        });
        Arc::new(ExtensionLayer {
            by_name: united.collect(),
            removed: BTreeMap::new(),
        })
    }

    fn count(&self) -> usize {
        self.0.iter().map(|layer| layer.by_name.len()).sum()
    }
}

impl ExtensionLayer {
    /// Returns an extension, to be changed.
    pub(super) fn extension(&mut self, name: Arc<[u8]>) -> &mut Extension {
        self.by_name.entry(name).or_default()
    }

    /// Notes that an aspect of an extension is removed.
    pub(super) fn note_removed(&mut self, name: Arc<[u8]>, aspect: Aspect) {
        let aspects = self.removed.entry(name).or_default();
        if !aspects.contains(&aspect) {
            aspects.push(aspect);
        }
    }

    fn remove_from(&self, name: &[u8], extension: &mut Cow<'_, Extension>) {
        let aspects = self.removed.get(name).map(Vec::as_slice).unwrap_or_default();
        aspects.iter().for_each(|aspect| extension.to_mut().remove(*aspect));
    }
}

#[cfg(test)]
impl ExtensionLayers {
    /// Returns the same meanings as one layer.
    pub(super) fn in_one(&self) -> ExtensionLayers {
        ExtensionLayers(vec![self.united()])
    }
}

/// Layers at most, each of which costs a search for every extension of a name. Where a folder has
/// more of them above, they are copied into one.
const MOST_LAYERS: usize = 32;
