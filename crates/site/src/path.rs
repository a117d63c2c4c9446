//! The only type that names a file inside a document root.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_config::Symlinks;

/// A file or folder below a document root: decoded, normalised, without NUL, `.`, `..` or empty
/// components.
///
/// One value is one key: the absolute path, the end of the root in it, the rule for symbolic links
/// and the scope of directives are hashed and compared together, so a cache of open files finds its
/// entry with one look-up. `Borrow`-ing it as a bare path is not offered, since two sites may reach
/// the same file under different rules.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DocumentPath {
    /// Root (without a slash at its end), `/`, relative path, NUL.
    bytes: Vec<u8>,
    /// Length of the root in `bytes`; 0 for the root `/`.
    root: usize,
    symlinks: Symlinks,
    scope: u32,
}

impl DocumentPath {
    /// Returns the whole path. Only the root itself has a slash at its end.
    pub fn absolute(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.absolute_bytes()))
    }

    /// Returns the whole path with its final NUL, as system calls want it.
    pub fn as_c_path(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes)
            .expect("a document path holds exactly one NUL, at its end")
    }

    /// The document root.
    pub fn root(&self) -> &Path {
        let end = if self.root == 0 { 1 } else { self.root };
        Path::new(OsStr::from_bytes(&self.bytes[..end]))
    }

    /// The path below the root, without a slash at either end; empty for the root itself.
    pub fn relative(&self) -> &[u8] {
        &self.bytes[self.root + 1..self.bytes.len() - 1]
    }

    /// [`relative`](Self::relative) with its final NUL, to be opened beneath the root's descriptor.
    /// The root itself is `.`.
    pub fn relative_c_path(&self) -> &CStr {
        if self.relative().is_empty() {
            return c".";
        }
        CStr::from_bytes_with_nul(&self.bytes[self.root + 1..])
            .expect("a document path holds exactly one NUL, at its end")
    }

    /// The path as a URL names it, decoded: `/` and the path below the root.
    pub fn url_path(&self) -> &[u8] {
        &self.bytes[self.root..self.bytes.len() - 1]
    }

    /// The last component; empty for the root itself.
    pub fn file_name(&self) -> &[u8] {
        let relative = self.relative();
        // Most names are too short for a search by vectors.
        &relative[relative.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1)..]
    }

    /// Returns whether the last component is `.htaccess`.
    pub fn is_htaccess(&self) -> bool {
        self.bytes.ends_with(b"/.htaccess\0")
    }

    /// The `.htaccess` file of the folder that the first `length` bytes of the relative path name,
    /// which must end where a component ends.
    pub fn htaccess_in(&self, length: usize) -> DocumentPath {
        let mut bytes = Vec::with_capacity(self.root + 1 + length + 11);
        bytes.extend_from_slice(&self.bytes[..self.root + 1 + length]);
        if length > 0 {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(b".htaccess\0");
        DocumentPath {
            bytes,
            root: self.root,
            symlinks: self.symlinks,
            scope: self.scope,
        }
    }

    /// Changes this to the path below the same root that `absolute` names. Returns `false` where
    /// `absolute` names none, or not in its plainest form; then this is any path below the root.
    pub fn set_absolute(&mut self, absolute: &[u8]) -> bool {
        let Some(relative) = absolute
            .strip_prefix(&self.bytes[..self.root])
            .and_then(|rest| rest.strip_prefix(b"/"))
        else {
            return false;
        };
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        let is_plain = |component: &[u8]| !matches!(component, b"" | b"." | b"..");
        if relative.contains(&0)
            || !(relative.is_empty() || relative.split(|&byte| byte == b'/').all(is_plain))
        {
            return false;
        }
        self.truncate_relative(0);
        self.push_suffix(relative);
        self.fits()
    }

    /// Changes this to the folder that the path is in. Returns `false`, and changes nothing, at the
    /// root.
    pub fn go_up(&mut self) -> bool {
        let relative = self.relative();
        if relative.is_empty() {
            return false;
        }
        let length = memchr::memrchr(b'/', relative).unwrap_or(0);
        self.truncate_relative(length);
        true
    }

    /// The symbolic links that may be followed on the way below the root.
    pub fn symlinks(&self) -> Symlinks {
        self.symlinks
    }

    /// The [scope](crate::Site::scope) of directives that the path is served in.
    pub fn scope(&self) -> u32 {
        self.scope
    }

    /// Returns whether the path is below a folder that the configuration lists for scripts
    /// (`sendfile_roots`, `accel`). Such files may have any name, and no `.htaccess` file is in
    /// force.
    pub fn is_listed(&self) -> bool {
        self.scope == LISTED
    }

    pub(crate) fn absolute_bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().saturating_sub(1)]
    }

    /// A placeholder that takes no memory. It must not leave this crate.
    pub(crate) fn nowhere() -> DocumentPath {
        DocumentPath {
            bytes: Vec::new(),
            root: 0,
            symlinks: Symlinks::Inside,
            scope: 0,
        }
    }

    /// Copies `other` into the memory of this path.
    #[inline]
    pub(crate) fn assign(&mut self, other: &DocumentPath) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.root = other.root;
        self.symlinks = other.symlinks;
        self.scope = other.scope;
    }

    pub(crate) fn root_bytes(&self) -> &[u8] {
        &self.bytes[..self.root.max(1)]
    }

    /// A path for the root itself. `push_root` writes the root without a slash at its end; it must
    /// hold no NUL.
    pub(crate) fn at_root(
        mut buffer: Vec<u8>,
        symlinks: Symlinks,
        scope: u32,
        push_root: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        buffer.clear();
        push_root(&mut buffer);
        let root = buffer.len();
        buffer.extend_from_slice(b"/\0");
        DocumentPath { bytes: buffer, root, symlinks, scope }
    }

    /// Lets `write` add the bytes of the relative path, which must be a normal one. Only for a path
    /// at its root.
    ///
    /// # Errors
    /// The error of `write`.
    pub(crate) fn write_relative<T, E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.bytes.pop();
        let written = write(&mut self.bytes);
        self.bytes.push(0);
        written
    }

    /// Adds a component below a folder, or the bytes of `name` to the root.
    pub(crate) fn push_component(&mut self, name: &[u8]) {
        self.bytes.pop();
        if self.bytes.len() > self.root + 1 {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    /// Adds to the last component.
    pub(crate) fn push_suffix(&mut self, suffix: &[u8]) {
        self.bytes.pop();
        self.bytes.extend_from_slice(suffix);
        self.bytes.push(0);
    }

    /// Cuts the relative path to its first `length` bytes, which must end where a component ends.
    pub(crate) fn truncate_relative(&mut self, length: usize) {
        self.bytes.truncate(self.root + 1 + length);
        self.bytes.push(0);
    }

    /// Restricts the symbolic links that are followed to those that `rule` allows.
    pub(crate) fn restrict_symlinks(&mut self, rule: Symlinks) {
        self.symlinks = rule;
    }

    /// Returns whether the path can be looked up: longer paths name nothing. Looking up each folder
    /// on the way takes time that grows with the square of their number.
    pub(crate) fn fits(&self) -> bool {
        let names = || 1 + memchr::memchr_iter(b'/', self.relative()).count();
        self.bytes.len() <= PATH_MAX && (self.bytes.len() < 2 * MOST_NAMES || names() <= MOST_NAMES)
    }
}

impl fmt::Debug for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = String::from_utf8_lossy(&self.bytes[..self.root]);
        write!(f, "{:?} below {root:?}", String::from_utf8_lossy(self.relative()))
    }
}

/// A buffer that is reused from one request to the next, so that resolving allocates nothing once
/// it has grown.
#[derive(Debug, Default)]
pub struct Scratch {
    buffer: Vec<u8>,
    /// The numbers of sections that apply.
    pub(crate) numbers: Vec<u16>,
    /// Empty texts with memory.
    texts: Vec<Vec<u8>>,
}

impl Scratch {
    /// Takes back the memory of a path that is no longer needed.
    pub fn reuse(&mut self, path: DocumentPath) {
        if path.bytes.capacity() > self.buffer.capacity() {
            self.buffer = path.bytes;
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// An empty text.
    pub(crate) fn text(&mut self) -> Vec<u8> {
        self.texts.pop().unwrap_or_default()
    }

    /// Takes back the memory of a text.
    pub(crate) fn reuse_text(&mut self, mut text: Vec<u8>) {
        if self.texts.len() < 4 && (1..=PATH_MAX).contains(&text.capacity()) {
            text.clear();
            self.texts.push(text);
        }
    }
}

/// The scope of folders that the configuration lists for scripts. No site has that number.
pub(crate) const LISTED: u32 = u32::MAX;

/// Linux's limit for a path, its NUL included.
const PATH_MAX: usize = 4096;

/// Names in a path below its root. A path with more names nothing.
const MOST_NAMES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(root: &str, relative: &str) -> DocumentPath {
        let mut path = DocumentPath::at_root(Vec::new(), Symlinks::Owner, 0, |bytes| {
            bytes.extend_from_slice(root.as_bytes())
        });
        path.push_suffix(relative.as_bytes());
        path
    }

    #[test]
    fn the_htaccess_file_of_every_folder_on_the_way() {
        let path = at("/srv", "a/b/c.txt");
        for (length, expected) in
            [(0, "/srv/.htaccess"), (1, "/srv/a/.htaccess"), (3, "/srv/a/b/.htaccess")]
        {
            let file = path.htaccess_in(length);
            assert_eq!(file.absolute(), Path::new(expected));
            assert!(file.is_htaccess());
            assert_eq!(file, at("/srv", &expected["/srv/".len()..]));
        }
        assert_eq!(at("", "a").htaccess_in(0).absolute(), Path::new("/.htaccess"));
        assert!(!path.is_htaccess() && !at("/srv", "x.htaccess").is_htaccess());
    }

    #[test]
    fn the_last_component() {
        for (relative, expected) in [("a/b.php", "b.php"), ("a", "a"), ("", "")] {
            assert_eq!(at("/srv", relative).file_name(), expected.as_bytes(), "{relative}");
        }
    }

    #[test]
    fn the_folders_above_end_at_the_root() {
        let mut path = at("/srv", "a/b/c.txt");
        let mut found = Vec::new();
        while path.go_up() {
            found.push(path.clone());
        }
        assert_eq!(found, ["a/b", "a", ""].map(|relative| at("/srv", relative)));
        assert_eq!(path, at("/srv", ""));
        assert_eq!(path.relative_c_path(), c".");
    }

    #[test]
    fn absolute_paths_below_the_root() {
        let rows = [
            ("/srv/x/y", Some("x/y")),
            ("/srv/", Some("")),
            ("/srv/x/", Some("x")),
            ("/srv", None),
            ("/srvx/y", None),
            ("/other", None),
            ("/srv//x", None),
            ("/srv/x//", None),
            ("/srv/x/../y", None),
            ("/srv/./x", None),
            ("/srv/x\0y", None),
            ("", None),
        ];
        for (absolute, expected) in rows {
            let mut path = at("/srv", "some/where");
            let found = path.set_absolute(absolute.as_bytes()).then(|| path.clone());
            assert_eq!(found, expected.map(|relative| at("/srv", relative)), "{absolute}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_or_too_deep_names_nothing() {
        let names = |count: usize| vec!["a"; count].join("/");
        // Beside the relative path: the root's four bytes, a slash, NUL.
        let longest = 4096 - 6;
        let rows = [
            (names(256), true),
            (names(257), false),
            ("x".repeat(longest), true),
            ("x".repeat(longest + 1), false),
            (format!("{}/{}", names(255), "x".repeat(longest - 510)), true),
            (format!("{}/{}", names(256), "x".repeat(longest - 512)), false),
        ];
        for (relative, expected) in rows {
            let mut path = at("/srv", "");
            let found = path.set_absolute(format!("/srv/{relative}").as_bytes());
            assert_eq!(found, expected, "{} bytes", relative.len());
        }
    }
}
