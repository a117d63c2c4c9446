//! An answer about a path, and its form in the pipe.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_files::LinkedPath;

/// The answer about a path of the configuration: where its links lead, and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathAnswer {
    pub(crate) state: PathState,
    /// The path without symbolic links, as far as it exists. Of a silent path, the part that the
    /// file system was asked about last.
    pub(crate) real: PathBuf,
    /// The part of `real` that exists.
    known: PathBuf,
    /// The owner of `known`.
    pub(crate) owner: u32,
    /// The value of [`LinkedPath::foreign_link`].
    foreign_link: Option<PathBuf>,
    /// The value of [`LinkedPath::first_link`].
    pub(crate) first_link: Option<PathBuf>,
    /// The value of [`LinkedPath::links`].
    links: Vec<PathBuf>,
    /// The value of [`LinkedPath::laid`].
    pub(crate) laid: PathBuf,
    /// The site into whose folders `first_link` leads, which has the same user. It is not in the
    /// pipe.
    pub(super) other_site: Option<String>,
    /// The rights of `known` and of the folders above it, up to `/`.
    above: Vec<FolderRights>,
}

/// The end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathState {
    Folder,
    /// A file of another kind.
    Other,
    /// Nothing, for this reason.
    Missing(String),
    /// The path cannot be followed, for this reason.
    Failed(String),
    /// The file system has not answered in time.
    Silent,
}

/// The permissions of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FolderRights {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
}

impl PathAnswer {
    /// Asks the disk. Tells `note` where it is, as [`LinkedPath::noting`].
    pub(super) fn find(path: &Path, note: &mut dyn FnMut(&Path)) -> PathAnswer {
        let found = match LinkedPath::noting(path, note) {
            Ok(found) => found,
            Err(error) => {
                let state = PathState::Failed(error.to_string());
                return PathAnswer { state, ..PathAnswer::silent(path) };
            }
        };
        let state = match (found.missing, fs::metadata(&found.known)) {
            (Some(why), _) => PathState::Missing(why),
            (None, Ok(end)) if end.is_dir() => PathState::Folder,
            (None, Ok(_)) => PathState::Other,
            (None, Err(error)) => PathState::Missing(error.to_string()),
        };
        let rights = |folder: &Path| {
            let found = fs::metadata(folder).ok()?;
            Some(FolderRights {
                uid: found.uid(),
                gid: found.gid(),
                mode: found.mode(),
            })
        };
        PathAnswer {
            state,
            above: found.known.ancestors().map_while(rights).collect(),
            real: found.real,
            known: found.known,
            owner: found.owner,
            foreign_link: found.foreign_link,
            first_link: found.first_link,
            links: found.links,
            laid: found.laid,
            other_site: None,
        }
    }

    /// The answer of a file system that has none at `place`.
    pub(super) fn silent(place: &Path) -> PathAnswer {
        PathAnswer {
            state: PathState::Silent,
            real: place.to_owned(),
            known: PathBuf::new(),
            owner: 0,
            foreign_link: None,
            first_link: None,
            links: Vec::new(),
            laid: place.to_owned(),
            other_site: None,
            above: Vec::new(),
        }
    }

    /// Returns whether the path could be followed, as far as it exists.
    pub(crate) fn is_found(&self) -> bool {
        !matches!(self.state, PathState::Failed(_) | PathState::Silent)
    }

    /// The link because of which the path does not count, and why. `None`: the path counts. A link
    /// of root's always counts.
    pub(crate) fn refused_link(&self) -> Option<(&Path, String)> {
        if let Some(link) = &self.foreign_link {
            let why = "belongs neither to root nor to the owner of the place that it leads to; \
                       change the link's owner with `chown -h`";
            return Some((link, why.to_owned()));
        }
        let (link, site) = self.first_link.as_ref().zip(self.other_site.as_ref())?;
        let why = format!(
            "leads to folders of site {site}; make root the link's owner with `chown -h root`, or \
             name the place that it leads to"
        );
        Some((link, why))
    }

    /// The folders of the links on the way, up to the first link that is not root's.
    pub(crate) fn link_folders(&self) -> Vec<PathBuf> {
        self.links.iter().filter_map(|link| link.parent()).map(Path::to_owned).collect()
    }

    /// The part of the path that exists and the folders above it, up to `/`.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (&Path, FolderRights)> {
        self.known.ancestors().zip(self.above.iter().copied())
    }

    /// The rights of a folder among these. `None`: it is not among them.
    pub(super) fn rights(&self, folder: &Path) -> Option<FolderRights> {
        let mut folders = self.folders();
        folders.find(|(path, _)| *path == folder).map(|(_, rights)| rights)
    }

    /// The answer for the pipe, with the path's number: [`FIELDS`] texts with a NUL after each. No
    /// path has one.
    pub(super) fn encode(&self, number: usize) -> Vec<u8> {
        let (state, why) = match &self.state {
            PathState::Folder => ("folder", ""),
            PathState::Other => ("other", ""),
            PathState::Missing(why) => ("missing", why.as_str()),
            PathState::Failed(why) => ("failed", why.as_str()),
            PathState::Silent => ("silent", ""),
        };
        let rights = |one: &FolderRights| format!("{} {} {}", one.uid, one.gid, one.mode);
        let above: Vec<String> = self.above.iter().map(rights).collect();
        let (number, owner) = (number.to_string(), self.owner.to_string());
        let link = self.foreign_link.as_deref().unwrap_or(Path::new(""));
        let first = self.first_link.as_deref().unwrap_or(Path::new(""));
        let ended = |link: &PathBuf| [link.as_os_str().as_bytes(), LINK_END].concat();
        let links: Vec<u8> = self.links.iter().flat_map(ended).collect();
        let fields: [&[u8]; FIELDS] = [
            number.as_bytes(),
            state.as_bytes(),
            why.as_bytes(),
            self.real.as_os_str().as_bytes(),
            self.known.as_os_str().as_bytes(),
            owner.as_bytes(),
            link.as_os_str().as_bytes(),
            first.as_os_str().as_bytes(),
            &links,
            self.laid.as_os_str().as_bytes(),
            &above.join(",").into_bytes(),
        ];
        fields.iter().flat_map(|field| [field, &b"\0"[..]].concat()).collect()
    }
}

/// Reads answers, with the numbers of their paths. Ends at the first that is not whole.
pub(super) fn decode(text: &[u8]) -> impl Iterator<Item = (usize, PathAnswer)> {
    let mut fields: Vec<&[u8]> = text.split(|&byte| byte == 0).collect();
    // The field after the last NUL is not whole.
    fields.pop();
    let answers: Vec<_> = fields.chunks_exact(FIELDS).map_while(decode_one).collect();
    answers.into_iter()
}

fn decode_one(fields: &[&[u8]]) -> Option<(usize, PathAnswer)> {
    let [number, state, why, real, known, owner, link, first, links, laid, above] = fields else {
        return None;
    };
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let path = |field: &[u8]| PathBuf::from(OsStr::from_bytes(field));
    let why = text(why);
    let state = match *state {
        b"folder" => PathState::Folder,
        b"other" => PathState::Other,
        b"missing" => PathState::Missing(why),
        b"failed" => PathState::Failed(why),
        b"silent" => PathState::Silent,
        _ => return None,
    };
    let above = text(above);
    let rights = |one: &str| {
        let mut numbers = one.split(' ').map(|number| number.parse().ok());
        Some(FolderRights {
            uid: numbers.next()??,
            gid: numbers.next()??,
            mode: numbers.next()??,
        })
    };
    let answer = PathAnswer {
        state,
        real: path(real),
        known: path(known),
        owner: text(owner).parse().ok()?,
        foreign_link: (!link.is_empty()).then(|| path(link)),
        first_link: (!first.is_empty()).then(|| path(first)),
        links: decode_links(links).map(path).collect(),
        laid: path(laid),
        other_site: None,
        above: above.split(',').map_while(rights).collect(),
    };
    Some((text(number).parse().ok()?, answer))
}

fn decode_links(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = rest.windows(LINK_END.len()).position(|bytes| bytes == LINK_END)?;
        let link = &rest[..end];
        rest = &rest[end + LINK_END.len()..];
        Some(link)
    })
}

/// Texts of one answer.
const FIELDS: usize = 11;
/// The bytes after each link: no path without links has them.
const LINK_END: &[u8] = b"//";
