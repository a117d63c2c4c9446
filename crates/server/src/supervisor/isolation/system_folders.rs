//! Folders that belong to the machine, and to no site.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::files::real;

/// Folders that belong to the whole machine. Beside a site's root, they hold the folders of others.
pub(super) const SHARED: [&str; 26] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/lib",
    "/usr/local",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/local",
    "/var/tmp",
    "/var/www",
];

/// Folders for temporary files and shared memory. Strict pools have the first two.
pub(super) const SHARED_TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Folders with programs and libraries.
pub(super) const PROGRAMS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"];
/// Files and folders that programs and libraries read.
pub(super) const SYSTEM: [&str; 8] = [
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/var/lib/php",
    "/var/cache/fontconfig",
];
/// Folders among those that PHP does not start without, or not as a whole.
const NEEDED: [&str; 6] = [
    "/usr/bin",
    "/usr/lib/php",
    "/usr/share/php",
    "/usr/share/zoneinfo",
    "/etc/php",
    "/etc/ssl",
];
/// Devices that programs write to, and a process's own entries, whose permissions protect them.
pub(super) const WRITTEN: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/proc",
];

/// Returns whether the folder, whose path has no links, holds files that PHP of every pool needs.
pub(crate) fn is_of_system(folder: &Path) -> bool {
    static SYSTEM_FOLDERS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let all = PROGRAMS.iter().chain(&SYSTEM).chain(&NEEDED).map(Path::new);
        all.flat_map(|path| [path.to_owned(), real(path)]).collect()
    });
    SYSTEM_FOLDERS.iter().any(|needed| needed.starts_with(folder))
}
