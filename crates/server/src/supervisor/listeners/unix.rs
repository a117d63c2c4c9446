//! The files of Unix sockets: made, given to their users, removed.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use howdah_config::ListenerSettings;
use howdah_sys::credentials::{Identity, group_number};

use super::super::unix_socket::{self, SocketFile};
use crate::operator_path::PathInFolder;

/// Listens at `path`, at first for this process's user alone. See [`unix_socket::bind`]. `key` is
/// the place where the operator names the path.
///
/// # Errors
/// The reason, as text for the operator.
pub(super) fn bind(path: &Path, key: &str) -> Result<(UnixListener, SocketFile), String> {
    unix_socket::bind(path).map_err(|error| refusal(path, &error, key))
}

/// Returns why a server that starts now could not listen at `path`; `None` if it could, as far as
/// that is known without making a socket.
pub(super) fn obstacle(path: &Path, key: &str) -> Option<String> {
    if unix_socket::is_taken(path) {
        return Some(refusal(path, &io::ErrorKind::AddrInUse.into(), key));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let error = match (fs::symlink_metadata(path), fs::metadata(folder)) {
        (Ok(found), _) if !found.file_type().is_socket() => unix_socket::not_a_socket(),
        (Err(_), Err(error)) => error,
        (Err(_), Ok(found)) if !found.is_dir() => io::ErrorKind::NotADirectory.into(),
        _ => return None,
    };
    Some(refusal(path, &error, key))
}

/// Returns what is wrong with the owner and the group of a socket; `None` if both are known.
pub(super) fn unknown_user(settings: &ListenerSettings) -> Option<String> {
    let owner = settings.owner.as_deref().and_then(|name| user_id(name).err());
    owner.or_else(|| settings.group.as_deref().and_then(|name| group_id(name).err()))
}

/// Returns whether [`bind`] would succeed. Makes no socket at `path` itself, to which a client
/// could connect in vain.
pub(super) fn can_bind(path: &Path) -> bool {
    let Ok(place) = PathInFolder::unfollowed(path) else {
        return false;
    };
    let file = place.in_process();
    let may_be_made = match fs::symlink_metadata(&file) {
        Ok(found) => found.file_type().is_socket() && !unix_socket::is_taken(&file),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let beside = file.with_file_name(format!(".{}", std::process::id()));
    let is_made = may_be_made && UnixListener::bind(&beside).is_ok();
    if is_made {
        // One that cannot be removed is in nobody's way.
        let _ = fs::remove_file(&beside);
    }
    is_made
}

/// Gives the socket at `path` its owner, group and permissions.
///
/// # Errors
/// The reason, as text for the operator.
pub(super) fn give(
    path: &Path,
    settings: &ListenerSettings,
    front: Option<&Identity>,
) -> Result<(), String> {
    let owner = settings.owner.as_deref().map(user_id).transpose()?;
    let group = match settings.group.as_deref() {
        Some(name) => Some(group_id(name)?),
        None => front.map(|front| front.gid),
    };
    unix_socket::give(path, owner, group, settings.mode).map_err(|error| {
        format!(
            "cannot give unix:{} its owner and permissions: {error}; only root can give a socket \
             to other users: leave out `owner` and `group`, or start howdah as root",
            path.display()
        )
    })
}

/// Returns whether the file is a socket.
pub(super) fn is_there(path: &Path) -> bool {
    unix_socket::identity(path).is_some()
}

fn refusal(path: &Path, error: &io::Error, key: &str) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            return format!(
                "cannot listen on unix:{}: another program listens there; stop it, or choose \
                 another path with {key}",
                path.display()
            );
        }
        io::ErrorKind::NotFound => "create its folder".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "its folder must be writable for the user that starts howdah".to_owned()
        }
        _ => format!("remove it, or choose another path with {key}"),
    };
    format!("cannot listen on unix:{}: {error}: {advice}", path.display())
}

fn user_id(name: &str) -> Result<u32, String> {
    match Identity::of_user(name, None) {
        Ok(Some(user)) => Ok(user.uid),
        Ok(None) => Err(format!("the `owner` of a listener: there is no user {name}")),
        Err(error) => Err(format!("cannot look up the user {name}: {error}")),
    }
}

fn group_id(name: &str) -> Result<u32, String> {
    match group_number(name) {
        Ok(Some(group)) => Ok(group),
        Ok(None) => Err(format!("the `group` of a listener: there is no group {name}")),
        Err(error) => Err(format!("cannot look up the group {name}: {error}")),
    }
}
