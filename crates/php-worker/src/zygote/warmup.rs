//! Fills a new opcache with the scripts that the former generation of the pool used most, so that
//! the first visitors after a reload do not wait until everything is compiled.
//!
//! The former zygote lists the scripts, the new one compiles them. Both do so in a child process,
//! because a request changes PHP's state, and workers should start with the state right after PHP's
//! start. The child of the new zygote shares opcache's memory with the workers that are forked
//! later. The list goes through a pipe whose ends the supervisor hands out. Nobody trusts the list:
//! PHP itself opens the files, with the rights, the sandbox and the `open_basedir` of the pool, and
//! no script is executed.

use std::ffi::{CStr, CString, NulError};
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_ipc::control::{OpcacheWarmup, PoolSettings};
use howdah_sys::poll;

use crate::chroot::PoolRoot;
use crate::log::{self, Level};
use crate::process::{self, Fork};
use crate::sapi::Engine;

/// Time that a zygote waits for its list to be compiled. Visitors compile the rest.
const MOST_TIME: Duration = Duration::from_secs(3);
/// The same for a zygote that has taken the place of another one, and serves meanwhile.
const MOST_TIME_BESIDE: Duration = Duration::from_secs(30);
/// Scripts that are compiled. They are the first of the list.
const MOST_SCRIPTS: usize = 2_000;
/// Bytes of the list that are read. The scripts in the rest are not compiled.
const MOST_BYTES: usize = 1 << 20;

/// Prints the paths of the scripts that opcache has, those that were used most first, and no more
/// than [`MOST_SCRIPTS`]. Files in archives, which have no path of their own, are left out.
const LIST: &CStr = c"(function () {
    error_reporting(0);
    try {
        $scripts = opcache_get_status(true)['scripts'] ?? [];
        usort($scripts, fn ($one, $other) => $other['hits'] <=> $one['hits']);
        foreach (array_slice($scripts, 0, 2000) as ['full_path' => $path]) {
            echo $path[0] === '/' ? \"$path\\0\" : '';
        }
    } catch (Throwable) {
    }
})()";

/// The answers of [`expression`].
const COMPILED: i64 = 1;
const FULL: i64 = 2;

/// Writes the list of the scripts that opcache has to `list`, in a child process. The caller does
/// not wait. A list that cannot be written ends early.
pub(super) fn list(engine: &mut Engine, list: OwnedFd) {
    let parent = process::id();
    if let Ok(Fork::Child) = process::fork() {
        leave_sessions_alone(engine);
        let written = process::die_with(parent)
            .and_then(|()| File::from(list).write_all(&engine.print(LIST, 0).1));
        process::exit_now(i32::from(written.is_err()));
    }
}

/// Compiles the scripts of `list` in a child process, and waits until that is done, or for
/// [`MOST_TIME`]. `None` if there can be no child.
pub(super) fn run(
    engine: &mut Engine,
    list: OwnedFd,
    settings: &PoolSettings,
    root: Option<&PoolRoot>,
) -> Option<OpcacheWarmup> {
    let began = Instant::now();
    let until = began + MOST_TIME;
    let parent = process::id();
    let (told, mut teller) = io::pipe().ok()?;
    match process::fork() {
        Err(_) => return None,
        Ok(Fork::Child) => {
            drop(told);
            let paths = read_list(list, until);
            let tell = |byte| teller.write_all(&[byte]);
            let done = process::die_with(parent)
                .and_then(|()| root.map_or(Ok(()), PoolRoot::enter))
                .and_then(|()| compile(engine, &paths, settings, tell));
            process::exit_now(i32::from(done.is_err()));
        }
        Ok(Fork::Parent(_)) => drop((list, teller)),
    }
    let CountedBytes { scripts, is_whole } = wait(told, until);
    let took = began.elapsed();
    say(scripts, "former generation", took, is_whole);
    Some(OpcacheWarmup {
        scripts,
        microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
    })
}

/// Compiles the scripts of the first list that has any in a child process, beside the pool's
/// requests. The caller does not wait.
pub(super) fn run_beside(engine: &mut Engine, lists: Vec<OwnedFd>, root: Option<&PoolRoot>) {
    let began = Instant::now();
    let until = began + MOST_TIME_BESIDE;
    let parent = process::id();
    if let Ok(Fork::Child) = process::fork() {
        let mut lists = lists.into_iter().map(|list| read_list(list, until));
        let list = lists.find(|list| paths(list).next().is_some()).unwrap_or_default();
        let mut told = CountedBytes::default();
        let tell = |byte| {
            told.note(&[byte]);
            let is_late = Instant::now() >= until;
            if is_late {
                Err(io::ErrorKind::TimedOut.into())
            } else {
                Ok(())
            }
        };
        let done = process::die_with(parent)
            .and_then(|()| root.map_or(Ok(()), PoolRoot::enter))
            .and_then(|()| compile(engine, &list, &PoolSettings::default(), tell));
        say(told.scripts, "former zygote", began.elapsed(), told.is_whole);
        process::exit_now(i32::from(done.is_err()));
    }
}

/// Logs how many scripts were compiled, if there were any.
fn say(scripts: u64, of: &str, took: Duration, is_whole: bool) {
    let rest = if is_whole { "" } else { "; requests compile the rest" };
    let scripts = match scripts {
        0 => return,
        1 => "1 script".to_owned(),
        _ => format!("{scripts} scripts"),
    };
    let took = took.as_secs_f64();
    let what = format!("opcache has {scripts} of the {of}, compiled in {took:.3} s{rest}");
    log::write(Level::Notice, what.as_bytes(), None);
}

/// Reads the list until its end, but at most [`MOST_BYTES`], and no longer than `until`.
fn read_list(list: OwnedFd, until: Instant) -> Vec<u8> {
    let mut list = File::from(list);
    // The process that wrote a file has left the position at its end. A pipe has no position.
    let _ = list.rewind();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while bytes.len() < MOST_BYTES && is_readable(&list, until) {
        match list.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
        }
    }
    bytes
}

/// Returns whether there is something to read, or an end, before `until`.
fn is_readable(source: &impl AsFd, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    !left.is_zero()
        && poll::readable(&[source.as_fd()], Some(left)).is_ok_and(|ready| ready == [true])
}

/// Compiles the scripts of a list, each in a request of its own: a class or function of one is not
/// known to the next. Tells a byte for each, and one at the end.
///
/// # Errors
/// There is no more time.
fn compile(
    engine: &mut Engine,
    list: &[u8],
    settings: &PoolSettings,
    mut tell: impl FnMut(u8) -> io::Result<()>,
) -> io::Result<()> {
    leave_sessions_alone(engine);
    for path in paths(list) {
        let path = in_release(path, settings);
        let Ok(expression) = expression(&path) else {
            continue;
        };
        match engine.ask(&expression, 0) {
            COMPILED => tell(SCRIPT)?,
            FULL => break,
            // It is not there, may not be read, or does not compile: its first request says so.
            _ => {}
        }
    }
    tell(END)
}

/// Lets the requests of this process, which are no visitors', have no sessions.
fn leave_sessions_alone(engine: &mut Engine) {
    // Without the extension there is no such setting.
    let _ = engine.set_ini("session.auto_start", b"0");
}

/// The bytes that the child tells: for each script, and at the end.
const SCRIPT: u8 = b'.';
const END: u8 = b'!';

/// The bytes that the child has told, counted.
#[derive(Debug, Default)]
struct CountedBytes {
    scripts: u64,
    /// The whole list was compiled, as far as it can be.
    is_whole: bool,
}

impl CountedBytes {
    fn note(&mut self, bytes: &[u8]) {
        self.scripts += bytes.iter().filter(|&&byte| byte == SCRIPT).count() as u64;
        self.is_whole |= bytes.contains(&END);
    }
}

/// Counts the scripts until the child's end, or until `until`. A child that is late ends after its
/// present script, because nobody reads what it writes.
fn wait(mut told: PipeReader, until: Instant) -> CountedBytes {
    let (mut sum, mut buffer) = (CountedBytes::default(), [0; 1024]);
    while is_readable(&told, until) {
        match told.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => sum.note(&buffer[..length]),
        }
    }
    sum
}

/// The absolute paths of a list.
fn paths(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    // The bytes after the last NUL are a path that was cut off.
    let whole = list.iter().rposition(|&byte| byte == 0).map_or(0, |end| end + 1);
    let paths = list[..whole].split(|&byte| byte == 0);
    paths.filter(|path| path.starts_with(b"/")).take(MOST_SCRIPTS)
}

/// Returns the path that a file of the former release has in the present one. Both are paths as the
/// workers see them.
fn in_release(path: &[u8], settings: &PoolSettings) -> Vec<u8> {
    let PoolSettings { former_release, release, .. } = settings;
    let inside = |release: &String| -> Vec<u8> {
        let below = release.strip_prefix(&settings.chroot_folder);
        below.filter(|rest| rest.starts_with('/')).unwrap_or(release).into()
    };
    let former = inside(former_release);
    match path.strip_prefix(former.as_slice()) {
        Some(rest) if !former.is_empty() && rest.starts_with(b"/") => {
            [inside(release).as_slice(), rest].concat()
        }
        _ => path.to_vec(),
    }
}

/// The expression of a file for opcache. It is [`FULL`] where an eighth of opcache's memory or less
/// is left, or opcache is off, and 0 where there is no such file.
///
/// # Errors
/// The path has a NUL.
fn expression(path: &[u8]) -> Result<CString, NulError> {
    let mut quoted = Vec::with_capacity(path.len() + 2);
    for &byte in path {
        if matches!(byte, b'\'' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    let before: &[u8] = b"(function ($path) {
        error_reporting(0);
        try {
            $memory = opcache_get_status(false)['memory_usage'] ?? null;
            if (!$memory || $memory['free_memory'] * 7
                    < $memory['used_memory'] + $memory['wasted_memory']) {
                return 2;
            }
            return is_file($path) ? $path : 0;
        } catch (Throwable) {
            return 0;
        }
    })('";
    CString::new([before, &quoted, b"')"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_whole_absolute_paths_and_no_more_than_the_most() {
        let found = |list: &[u8]| -> Vec<String> {
            paths(list).map(|path| String::from_utf8_lossy(path).into_owned()).collect()
        };
        let list = b"/a.php\0phar:///x\0\0b.php\0/c d\n.php\0/cut";
        assert_eq!(found(list), ["/a.php", "/c d\n.php"]);
        assert!(found(b"").is_empty() && found(b"/a.php").is_empty());
        assert_eq!(found(&b"/a\0".repeat(MOST_SCRIPTS + 1)).len(), MOST_SCRIPTS);
    }

    #[test]
    fn a_path_moves_to_the_release_that_is_served_now() {
        let moved = |path: &str, from: &str, to: &str| {
            let settings = PoolSettings {
                former_release: from.to_owned(),
                release: to.to_owned(),
                ..PoolSettings::default()
            };
            String::from_utf8(in_release(path.as_bytes(), &settings)).unwrap()
        };
        for (path, expected) in [
            ("/srv/7/a.php", "/srv/8/a.php"),
            ("/srv/77/a.php", "/srv/77/a.php"),
            ("/usr/share/php/b.php", "/usr/share/php/b.php"),
        ] {
            assert_eq!(moved(path, "/srv/7", "/srv/8"), expected);
        }
        assert_eq!(moved("/srv/7/a.php", "", ""), "/srv/7/a.php");
        let settings = PoolSettings {
            former_release: "/disk/jail/releases/7".to_owned(),
            release: "/disk/jail/releases/8".to_owned(),
            chroot_folder: "/disk/jail".to_owned(),
            ..PoolSettings::default()
        };
        assert_eq!(in_release(b"/releases/7/a.php", &settings), b"/releases/8/a.php");
    }

    #[test]
    fn a_path_stays_a_text_in_php() {
        let code = expression(b"/a'); die('\\").unwrap();
        let code = code.to_str().unwrap();
        assert!(code.ends_with("})('/a\\'); die(\\'\\\\')"), "{code}");
        assert!(expression(b"/a\0").is_err());
    }
}
