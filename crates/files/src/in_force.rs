//! The rules in force at a path: the chain of `.htaccess` files from the root down to a folder.
//!
//! The `.htaccess` file of a folder is an entry like any other, watched and checked like them; a
//! missing `.htaccess` file is an entry too. Such an entry holds the merged rules of its folder's
//! chain, and every other entry holds the rules of its folder, both with the *stamp* at which they
//! were valid. The stamp changes whenever an entry of a `.htaccess` file is removed, for whatever
//! reason, and every second. While nothing changes, a request compares two numbers.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::Compiled;
use howdah_site::{DocumentLook, DocumentPath, FileHandle, PathKind, Rules};
use howdah_sys::descriptor;

use crate::entry::EntryKind;
use crate::folders::parent;
use crate::locate::PathObstacle;
use crate::store::FileStore;

/// The rules that are in force in a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesInForce {
    /// The stamp at which the rules were valid; 0 is never.
    stamp: u64,
    /// A file on the way down cannot be read: nothing that it covers may be served.
    denied: bool,
    rules: Option<Rc<Rules>>,
}

/// The content of a folder's `.htaccess` file.
enum FolderDirectives {
    Nothing,
    Compiled(Arc<Compiled>),
    Denied,
}

impl FileStore {
    /// Returns what is at `path`, and which rules are in force there.
    #[inline]
    pub(crate) fn look_with_rules(&mut self, path: &DocumentPath) -> DocumentLook {
        let stamp = self.stamp();
        let found = match self.place(path) {
            Ok(place) => {
                self.entries.at(place).map(|entry| (place, entry)).ok_or(PathObstacle::Missing)
            }
            Err(obstacle) => Err(obstacle),
        };
        let (kind, file) = match found {
            Ok((place, entry)) => {
                let (kind, file) = (entry.kind.path_kind(), FileHandle(place));
                if entry.in_force.stamp == stamp {
                    return entry.in_force.look(kind, file);
                }
                (kind, file)
            }
            Err(obstacle) => (obstacle.kind(), FileHandle::NONE),
        };
        self.find_rules(path, kind, file).look(kind, file)
    }

    #[cold]
    fn find_rules(
        &mut self,
        path: &DocumentPath,
        kind: PathKind,
        file: FileHandle,
    ) -> RulesInForce {
        if !self.knows_directives() {
            return RulesInForce {
                stamp: self.stamp(),
                ..RulesInForce::default()
            };
        }
        let length = match kind {
            PathKind::Directory => path.relative().len(),
            PathKind::File => parent(path.relative()).len(),
            PathKind::Missing | PathKind::Forbidden => match self.root(path) {
                Ok(root) => {
                    let above = parent(path.relative());
                    self.make_room_for_folders(&root, above);
                    self.folders.deepest(&root, above, (&self.disk, self.now))
                }
                Err(_) => 0,
            },
        };
        let in_force = self.chain(path, length);
        // The rules are kept in the entry of the path, if there is one.
        if self.entries.is_at(file.0, path)
            && let Some(entry) = self.entries.at(file.0)
            && entry.watched
            && !self.disk.is_void()
        {
            entry.in_force = in_force.clone();
        } else {
            self.note_unrepeatable();
        }
        if in_force.stamp == 0 {
            self.note_unrepeatable();
        }
        in_force
    }

    /// Returns the rules of the folder that the first `length` bytes of the relative path name.
    fn chain(&mut self, path: &DocumentPath, length: usize) -> RulesInForce {
        // If the stamp changes meanwhile, the rules are found out again next time.
        let stamp = self.stamp();
        if !self.reads_htaccess(path) {
            return self.base(path);
        }
        let file = path.htaccess_in(length);
        if let Some(place) = self.known(&file)
            && let Some(entry) = self.entries.at(place)
            && entry.in_force.stamp == stamp
        {
            return entry.in_force.clone();
        }
        let above = match length {
            0 => self.base(path),
            _ => self.chain(path, parent(&path.relative()[..length]).len()),
        };
        if above.denied {
            return above;
        }
        let own = self.own(&file);
        let known = self.known(&file).and_then(|place| self.entries.at(place));
        let steady = above.stamp != 0 && known.as_ref().is_some_and(|entry| entry.watched);
        let rules = match &own {
            FolderDirectives::Nothing | FolderDirectives::Denied => above.rules,
            FolderDirectives::Compiled(own) => {
                let before = known.as_ref().and_then(|entry| entry.in_force.rules.as_ref());
                Some(match before {
                    Some(before) if is_merged_of(before, above.rules.as_ref(), own) => {
                        Rc::clone(before)
                    }
                    // The rules of the folders above, which were merged so far, are kept.
                    _ if self.disk.take_copies(copied(above.rules.as_ref(), own)).is_err() => {
                        return RulesInForce { denied: true, ..RulesInForce::default() };
                    }
                    _ => Rules::below(above.rules.as_ref(), Arc::clone(own), &self.copies),
                })
            }
        };
        let in_force = RulesInForce {
            stamp: if steady { stamp } else { 0 },
            denied: matches!(own, FolderDirectives::Denied),
            rules,
        };
        if let Some(entry) = known {
            entry.in_force = in_force.clone();
        }
        self.bound_copies();
        in_force
    }

    /// Lets go of the merged rules of a root, where all merged rules have copied more than they
    /// may: the root whose rules have copied the most.
    #[inline]
    pub(crate) fn bound_copies(&mut self) {
        match self.copies.sum() {
            sum if sum > self.most_copies => self.let_go_of_most(),
            sum if sum <= self.limits.copies => self.most_copies = self.limits.copies,
            _ => {}
        }
    }

    #[cold]
    fn let_go_of_most(&mut self) {
        let mut copied: HashMap<u32, usize> = HashMap::new();
        let mut seen = HashSet::new();
        for entry in self.entries.iter_mut() {
            let of_root = copied.entry(entry.root.number()).or_default();
            let mut rules = entry.in_force.rules.as_ref();
            // Many entries have the same rules, and the rules above may be in no entry.
            while let Some(one) = rules.filter(|one| seen.insert(Rc::as_ptr(one))) {
                *of_root += one.copied();
                rules = one.above();
            }
        }
        if let Some((root, _)) = copied.into_iter().max_by_key(|(_, copied)| *copied) {
            let of_root = self.entries.iter_mut().filter(|entry| entry.root.number() == root);
            of_root.for_each(|entry| entry.in_force = RulesInForce::default());
            self.let_go += 1;
        }
        // Rules that are in use at this moment stay, however many there are. Those of other roots
        // are not let go of because of them again and again.
        self.most_copies = self.limits.copies.max(self.copies.sum() + self.limits.copies / 2);
    }

    /// Returns the rules above the root's own `.htaccess` file.
    fn base(&mut self, path: &DocumentPath) -> RulesInForce {
        let root = self.root(path).ok();
        RulesInForce {
            stamp: root.as_ref().map_or(0, |_| self.stamp()),
            denied: false,
            rules: root.and_then(|root| root.base().cloned()),
        }
    }

    /// Returns the place of the entry of a `.htaccess` file, if the entry is fresh.
    fn known(&mut self, file: &DocumentPath) -> Option<u32> {
        let hash = self.entries.hash(file);
        let place = self.entries.find(hash, file)?;
        self.is_fresh(place).then_some(place)
    }

    /// Returns the content of a `.htaccess` file.
    fn own(&mut self, file: &DocumentPath) -> FolderDirectives {
        let found = self.place(file).map(|place| self.entries.at(place).map(|entry| &entry.kind));
        match found {
            Ok(Some(EntryKind::Directives(compiled, _))) => {
                FolderDirectives::Compiled(Arc::clone(compiled))
            }
            Ok(Some(EntryKind::Missing)) | Err(PathObstacle::Missing) => FolderDirectives::Nothing,
            // A folder, a pipe, a file without read permission.
            Ok(_)
            | Err(
                PathObstacle::Forbidden
                | PathObstacle::TooManyNames
                | PathObstacle::OtherSite
                | PathObstacle::Postponed,
            ) => FolderDirectives::Denied,
            // The answer is void: nothing is known of the file.
            Err(PathObstacle::Failed(error)) if descriptor::is_exhausted(&error) => {
                FolderDirectives::Denied
            }
            Err(PathObstacle::Failed(error)) => {
                self.tell_unreadable(file, &error.to_string());
                FolderDirectives::Denied
            }
        }
    }
}

impl RulesInForce {
    #[inline]
    fn look(&self, kind: PathKind, file: FileHandle) -> DocumentLook {
        DocumentLook {
            kind: if self.denied { PathKind::Forbidden } else { kind },
            file,
            rules: self.rules.clone(),
        }
    }
}

/// Returns how many entries merging the directives `own` with the rules above copies.
fn copied(above: Option<&Rc<Rules>>, own: &Compiled) -> usize {
    above.map_or(0, |above| above.settings().copied_with(&own.settings))
}

/// Returns whether `rules` are those of `own` below `above`.
fn is_merged_of(rules: &Rules, above: Option<&Rc<Rules>>, own: &Arc<Compiled>) -> bool {
    let same_above = match (rules.above(), above) {
        (Some(ours), Some(above)) => Rc::ptr_eq(ours, above),
        (None, None) => true,
        _ => false,
    };
    same_above && Arc::ptr_eq(rules.own(), own)
}
