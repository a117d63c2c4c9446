//! Loads entries from the disk, and removes those that have changed there.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use howdah_site::DocumentPath;
use howdah_sys::stat::{FileType, Stat};

use crate::changed_trees::ChangedTrees;
use crate::content;
use crate::document::Document;
use crate::entry::{EntryKind, PathEntry, is_settled, now};
use crate::folders::{parent, with_slash};
use crate::in_force::RulesInForce;
use crate::locate::{LocatedFile, PathObstacle, ReadAccess, locate};
use crate::media_type::is_script;
use crate::open_root::OpenRoot;
use crate::path_changes::PathChange;
use crate::store::FileStore;

impl FileStore {
    /// Loads the entry for `path`. The folders are watched first, then the file is opened: a change
    /// in between will be reported.
    ///
    /// # Errors
    /// The path has no entry: it is missing where no watch would report a new file, the disk fails,
    /// or another store has to look first.
    pub(crate) fn load(
        &mut self,
        hash: u64,
        path: &DocumentPath,
        root: &Rc<OpenRoot>,
    ) -> Result<u32, PathObstacle> {
        self.figures.loads += 1;
        let above = parent(path.relative());
        self.make_room_for_folders(root, above);
        let mut folder = self.folders.folder(root, above, (&self.disk, self.now));
        let read = now();
        let mut watched = true;
        let reading = if is_script(path.file_name()) && !path.is_listed() {
            ReadAccess::No
        } else {
            ReadAccess::Yes
        };
        let name = path.relative_c_path();
        let located = locate(root, name, reading, &self.disk, &mut |folder, name, path| {
            watched = watched && self.folders.watch_step(root, folder, name, path);
        });
        if self.disk.is_void() {
            return Err(PathObstacle::Postponed);
        }
        if located.is_ok() && !folder.exists() {
            // The known folders on the way are out of date, and no event reported the change.
            let first = above.split(|&byte| byte == b'/').next().unwrap_or(above);
            self.apply(vec![PathChange {
                root: root.number(),
                path: first.to_vec(),
                whole: true,
            }]);
            folder = self.folders.folder(root, above, (&self.disk, self.now));
        }
        watched = watched && folder.watched;
        let (found, stat) = match located {
            Ok(located) => self.recognise(located, path, reading)?,
            Err(PathObstacle::Missing) if watched => (EntryKind::Missing, None),
            Err(obstacle) => (self.forbidden_by(obstacle, path)?, None),
        };
        let settled = stat.is_none_or(|stat| is_settled(&stat, read));
        Ok(self.entries.insert(PathEntry {
            hash,
            path: path.clone(),
            root: Rc::clone(root),
            folder,
            kind: found,
            stat,
            watched,
            checked: self.now,
            settled,
            used: false,
            in_force: RulesInForce::default(),
        }))
    }

    /// Tells why a path is not served.
    ///
    /// # Errors
    /// The obstacle, where no entry is made: the disk would have to be asked again anyway.
    fn forbidden_by(
        &self,
        obstacle: PathObstacle,
        path: &DocumentPath,
    ) -> Result<EntryKind, PathObstacle> {
        match obstacle {
            PathObstacle::Forbidden => self.tell_unreadable(path, "it may not be reached"),
            PathObstacle::TooManyNames => self.tell_too_many_names(path),
            PathObstacle::OtherSite => self.tell_other_site(path),
            _ => return Err(obstacle),
        }
        Ok(EntryKind::Forbidden)
    }

    fn recognise(
        &self,
        located: LocatedFile,
        path: &DocumentPath,
        reading: ReadAccess,
    ) -> Result<(EntryKind, Option<Stat>), PathObstacle> {
        let stat = located.stat;
        if path.is_htaccess() && self.reads_htaccess(path) {
            return self.recognise_htaccess(located, path);
        }
        let found = match stat.file_type() {
            FileType::Directory => EntryKind::Directory,
            FileType::Regular if reading == ReadAccess::No => EntryKind::Script,
            FileType::Regular if located.readable => {
                let name = path.file_name();
                let (document, stat) = Document::open(
                    (located.file, stat),
                    name,
                    self.limits.small,
                    self.now,
                    self.disk.lookup(),
                )
                .map_err(|error| self.failure(error))?;
                return Ok((EntryKind::File(document), Some(stat)));
            }
            FileType::Regular | FileType::Special | FileType::Link => EntryKind::Forbidden,
        };
        Ok((found, Some(stat)))
    }

    fn recognise_htaccess(
        &self,
        located: LocatedFile,
        path: &DocumentPath,
    ) -> Result<(EntryKind, Option<Stat>), PathObstacle> {
        let stat = located.stat;
        if !located.readable || stat.file_type() != FileType::Regular {
            let is_file = stat.file_type() == FileType::Regular;
            self.tell_unreadable(path, if is_file { "permission denied" } else { "it is no file" });
            return Ok((EntryKind::Forbidden, Some(stat)));
        }
        let Some(directives) = &self.directives else {
            return Ok((EntryKind::Forbidden, Some(stat)));
        };
        let folder = path
            .absolute()
            .parent()
            .map_or(&b"/"[..], |folder| folder.as_os_str().as_bytes());
        let folder = with_slash(folder);
        let scope = path.scope();
        if self.postpones() && stat.size > MOST_READ_AT_ONCE && stat.size <= directives.most() {
            let known = directives.known_file(scope, &folder, &stat, &self.disk);
            let known = known.ok_or_else(|| self.postpone())?;
            return Ok((EntryKind::Directives(known, stat.size), Some(stat)));
        }
        let (file, began) = (File::from(located.file), now());
        let (content, stat) = content::read(&file, stat, directives.most(), self.disk.lookup())
            .map_err(|error| self.failure(error))?;
        let size = content.as_ref().map_or(0, Vec::len) as u64;
        let settled = is_settled(&stat, began).then_some(stat);
        let root = path.root().as_os_str().as_bytes();
        let compiled = match content {
            None => directives.too_large(scope, (root, &folder)),
            Some(content) if self.postpones() => {
                let known = directives.known(scope, &folder, &content, &self.disk);
                Some(known.ok_or_else(|| self.postpone())?)
            }
            Some(content) => directives.htaccess(scope, (root, &folder), (&content, settled)),
        };
        let found =
            compiled.map_or(EntryKind::Forbidden, |compiled| EntryKind::Directives(compiled, size));
        Ok((found, Some(stat)))
    }

    /// Returns what an error of reading means.
    fn failure(&self, error: io::Error) -> PathObstacle {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.disk.obstacle(error),
            _ => PathObstacle::Failed(error),
        }
    }

    pub(crate) fn tell_unreadable(&self, path: &DocumentPath, why: &str) {
        if let Some(directives) = &self.directives
            && path.is_htaccess()
            && self.reads_htaccess(path)
        {
            directives.unreadable(path, why);
        }
    }

    fn tell_too_many_names(&self, path: &DocumentPath) {
        if path.is_htaccess() {
            self.tell_unreadable(path, "the symbolic links on the way are too many or too long");
        } else if let Some(directives) = &self.directives {
            directives.too_many_names(path);
        }
    }

    fn tell_other_site(&self, path: &DocumentPath) {
        if path.is_htaccess() {
            self.tell_unreadable(path, "a symbolic link leads into a folder of another site");
        } else if let Some(directives) = &self.directives {
            directives.link_to_other_site(path);
        }
    }

    /// Forgets folders that no entry needs where those on the way to `path` would be too many.
    pub(crate) fn make_room_for_folders(&mut self, root: &OpenRoot, path: &[u8]) {
        if self.folders.wants_room(root, path, self.now) {
            self.folders.keep_only(&self.entries.used_folders());
        }
    }

    /// Returns the open document root of `path`.
    ///
    /// # Errors
    /// The obstacle on the way to the root.
    pub(crate) fn root(&mut self, path: &DocumentPath) -> Result<Rc<OpenRoot>, PathObstacle> {
        let asked = (&self.disk, self.now);
        let (root, closed) = self.folders.root(path, self.directives.as_deref(), asked);
        if let Some(closed) = closed {
            self.figures.changes +=
                self.entries.retain(|entry| !closed.have_root(entry.root.number()));
        }
        root
    }

    pub(crate) fn apply(&mut self, changes: Vec<PathChange>) {
        let mut trees = ChangedTrees::default();
        for change in changes {
            if change.whole || self.folders.knows(change.root, &change.path) {
                trees.add(change);
            } else if let Some(root) = self.folders.root_by_number(change.root)
                && self.entries.remove_path(&root, &change.path)
            {
                self.figures.changes += 1;
            }
        }
        if trees.is_empty() {
            return;
        }
        self.figures.changes += self
            .entries
            .retain(|entry| !trees.cover(entry.root.number(), entry.path.relative()));
        self.folders.forget(&trees);
    }

    pub(crate) fn forget_all(&mut self) {
        self.figures.changes += self.entries.retain(|_| false);
        self.folders.forget_all();
    }
}

/// Bytes of a `.htaccess` file that a store reads even where it compiles none. A larger one is
/// recognised by its state.
const MOST_READ_AT_ONCE: u64 = 64 << 10;
