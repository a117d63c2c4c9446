//! Files that scripts ask the server to send: `X-Sendfile` and `X-Accel-Redirect`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use howdah_http::Fields;

use crate::names::FileClass;
use crate::normal::normalize;
use crate::path::{DocumentPath, LISTED};
use crate::resolution::Script;
use crate::sites::Site;

/// A field by which a script names a file to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendfileField {
    /// `X-Sendfile`: the path of a file, absolute or from the script's folder.
    Path,
    /// `X-Accel-Redirect`: the path of a URL.
    Url,
}

/// The reason why a file that a script names is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendfileError {
    /// The value cannot be a path.
    Malformed,
    /// The path is below no folder from which the site's scripts may have files sent.
    Outside,
    /// The name is one that is never served, or that of a PHP program.
    Refused,
}

impl SendfileField {
    /// The name of the field.
    pub fn name(self) -> &'static str {
        match self {
            SendfileField::Path => "X-Sendfile",
            SendfileField::Url => "X-Accel-Redirect",
        }
    }
}

impl fmt::Display for SendfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendfileError::Malformed => "it is no path",
            SendfileError::Outside => {
                "it is below no folder that the site's `sendfile`, `sendfile_roots` or `accel` \
                 names"
            }
            SendfileError::Refused => {
                "such names are only sent from folders of `sendfile_roots` or `accel`"
            }
        })
    }
}

impl Site {
    /// Returns the field of a script's response that names a file to send, with its value. `None`
    /// also where the site's configuration does not allow the field.
    pub fn sendfile<'f>(&self, fields: &'f Fields) -> Option<(SendfileField, &'f [u8])> {
        let config = self.config();
        let is_on = |field| match field {
            SendfileField::Path => config.sendfile || !config.sendfile_roots.is_empty(),
            SendfileField::Url => config.sendfile || !config.accel.is_empty(),
        };
        [SendfileField::Path, SendfileField::Url].into_iter().find_map(|field| {
            let value = fields.value(field.name().as_bytes()).filter(|value| !value.is_empty())?;
            is_on(field).then_some((field, value))
        })
    }

    /// Returns the file that `script` names. `real_path` resolves the links in the path of a
    /// configured folder: PHP tells a script its own path without links. `real_path` returns `None`
    /// for a path that leads nowhere.
    ///
    /// # Errors
    /// The file may not be sent.
    pub fn sendfile_path(
        &self,
        host: &[u8],
        script: &Script,
        (field, value): (SendfileField, &[u8]),
        mut real_path: impl FnMut(&Path) -> Option<PathBuf>,
    ) -> Result<DocumentPath, SendfileError> {
        let config = self.config();
        let own = || config.sendfile.then(|| self.root(host, Vec::new()).ok()).flatten();
        match field {
            SendfileField::Url => {
                let value = &value[..memchr::memchr(b'?', value).unwrap_or(value.len())];
                let mut relative = Vec::new();
                normalize(value, self.encoded_slashes(), &mut relative)
                    .map_err(|_| SendfileError::Malformed)?;
                let below = |prefix: &str| {
                    let rest = relative.strip_prefix(&prefix.as_bytes()[1..])?;
                    (!rest.is_empty()).then_some(rest)
                };
                let listed = config.accel.iter();
                let listed = listed.filter_map(|(prefix, folder)| Some((below(prefix)?, folder)));
                match listed.min_by_key(|(rest, _)| rest.len()) {
                    Some((rest, folder)) => Ok(self.listed(folder, rest)),
                    None => self.below_root(own().ok_or(SendfileError::Outside)?, &relative),
                }
            }
            SendfileField::Path => {
                let chroot = config.php.as_ref().and_then(|php| php.chroot.as_deref());
                let chroot = chroot.unwrap_or(Path::new("/"));
                let absolute =
                    absolute(script.path(), chroot, value).ok_or(SendfileError::Malformed)?;
                for is_real in [false, true] {
                    let mut below = |folder: &Path| {
                        let real = if is_real { Some(real_path(folder)?) } else { None };
                        below(real.as_deref().unwrap_or(folder), &absolute)
                    };
                    let listed = config.sendfile_roots.iter();
                    let listed = listed.filter_map(|folder| Some((below(folder)?, folder)));
                    if let Some((rest, folder)) = listed.min_by_key(|(rest, _)| rest.len()) {
                        return Ok(self.listed(folder, rest));
                    }
                    if let Some(root) = own()
                        && let Some(rest) = below(root.root())
                    {
                        return self.below_root(root, rest);
                    }
                }
                Err(SendfileError::Outside)
            }
        }
    }

    /// The file at `relative` below a folder that the configuration lists.
    fn listed(&self, folder: &Path, relative: &[u8]) -> DocumentPath {
        let folder = folder.as_os_str().as_bytes();
        let end = folder.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let mut path = DocumentPath::at_root(Vec::new(), self.symlinks(), LISTED, |bytes| {
            bytes.extend_from_slice(&folder[..end]);
        });
        path.push_suffix(relative);
        path
    }

    /// The file at `relative` below the site's own root.
    fn below_root(
        &self,
        mut root: DocumentPath,
        relative: &[u8],
    ) -> Result<DocumentPath, SendfileError> {
        root.push_suffix(relative);
        let is_refused = self.names.refusal(relative, true).is_some()
            || self.names.class(root.file_name()) != FileClass::Plain;
        if is_refused {
            Err(SendfileError::Refused)
        } else {
            Ok(root)
        }
    }
}

/// Returns the machine's path, in normal form, of an absolute path below the scripts' root folder
/// `chroot`, or of one that begins at the folder of `script`: without a slash at either end, and
/// without `.` and `..`. Escapes are decoded, as by mod_xsendfile; a value that is not escaped
/// correctly is taken as it is. `None`: it leads above `chroot`, or above `/`, or holds a NUL.
fn absolute(script: &DocumentPath, chroot: &Path, value: &[u8]) -> Option<Vec<u8>> {
    let decoded = percent_decoded(value).unwrap_or_else(|| value.to_vec());
    let is_absolute = decoded.first()? == &b'/';
    let start = match is_absolute {
        true => chroot,
        false => script.absolute().parent().unwrap_or(Path::new("/")),
    };
    let start = start.as_os_str().as_bytes().split(|&byte| byte == b'/');
    let mut names: Vec<&[u8]> = start.filter(|name| !name.is_empty()).collect();
    let least = if is_absolute { names.len() } else { 0 };
    for name in decoded.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names.len() == least => return None,
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let path = names.join(&b'/');
    (!path.contains(&0)).then_some(path)
}

fn percent_decoded(value: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        decoded.push(digit(rest.first()?)? << 4 | digit(rest.get(1)?)?);
        rest = &rest[2..];
    }
    Some(decoded)
}

/// Returns the part of `absolute`, which has no slash at its start, below `folder`.
fn below<'a>(folder: &Path, absolute: &'a [u8]) -> Option<&'a [u8]> {
    let rest = Path::new(OsStr::from_bytes(absolute))
        .strip_prefix(folder.strip_prefix("/").ok()?)
        .ok()?;
    let rest = rest.as_os_str().as_bytes();
    (!rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests;
