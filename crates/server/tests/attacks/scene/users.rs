//! The users of a scene's sites, which nothing else runs as.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::time::Duration;

use crate::support::Process;

/// Users for site A and site B: Debian has them, and nothing runs as them. Two scenes at a time
/// must not have the same users.
const USERS: [[&str; 2]; 3] = [["news", "uucp"], ["list", "irc"], ["lp", "games"]];

/// The users of site A and of site B, each with its number.
pub(super) struct Users {
    pub(super) a: (&'static str, u32),
    pub(super) b: (&'static str, u32),
    /// Held while the scene lives: no other scene may have the users.
    _only: UnixListener,
}

impl Users {
    /// Takes users that no process and no other scene has. `None` if there are none, with the
    /// reason printed.
    pub(super) fn claim() -> Option<Users> {
        loop {
            let mut taken = false;
            for [a, b] in USERS {
                let (Some(a), Some(b)) = (user(a), user(b)) else {
                    continue;
                };
                let name =
                    UnixAddress::from_abstract_name(format!("howdah-attacks-{}", a.0)).unwrap();
                match UnixListener::bind_addr(&name) {
                    Err(_) => taken = true,
                    Ok(only) if processes_of(a.1).is_empty() && processes_of(b.1).is_empty() => {
                        return Some(Users { a, b, _only: only });
                    }
                    Ok(_) => {}
                }
            }
            if !taken {
                howdah_skip::skip!("processes run as each of the users {USERS:?}");
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A user of the system, with its number.
fn user(name: &'static str) -> Option<(&'static str, u32)> {
    let all = fs::read_to_string("/etc/passwd").ok()?;
    let line = all.lines().find(|line| line.split(':').next() == Some(name))?;
    Some((name, line.split(':').nth(2)?.parse().ok()?))
}

/// The processes of a user that live.
pub(super) fn processes_of(uid: u32) -> Vec<Process> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Process::new))
        .filter(|process| {
            let ids = process.status("Uid").unwrap_or_default();
            process.lives() && ids.split_whitespace().any(|id| id == uid.to_string())
        })
        .collect()
}
