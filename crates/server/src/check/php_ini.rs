//! Mistakes in php.ini and in the files of its folders, as PHP's own parser finds them. Each
//! program that runs PHP starts once for each php.ini, and runs no script.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use howdah_sys::confinement::Confinement;
use howdah_sys::process::{self, Pid, Program};
use howdah_sys::signal::SIGKILL;
use howdah_sys::{descriptor, poll};

use crate::supervisor::environment::Environment;
use crate::supervisor::generation_plan::{GenerationPlan, PoolPlan};
use crate::supervisor::pool_log::is_of_ini_parser;

/// Time that PHP gets to start. Mistakes that it finds later are not told.
const PATIENCE: Duration = Duration::from_secs(5);
/// The words with which `howdah-php` names a file that PHP's user may not read.
const UNREAD: &str = "PHP has not read ";
/// Bytes of PHP's messages that are read. Mistakes in the rest are not found.
const MOST_BYTES: usize = 64 * 1024;

/// Returns the mistakes, each with the sites that it concerns.
pub(crate) fn mistakes(plan: &GenerationPlan, environment: &Environment) -> Vec<String> {
    let mut starts: Vec<(&PoolPlan, Vec<&str>)> = Vec::new();
    for pool in &plan.pools {
        let is_same = |one: &PoolPlan| {
            one.program == pool.program && one.settings.ini_file == pool.settings.ini_file
        };
        let site = pool.settings.pool.as_str();
        match starts.iter_mut().find(|(one, _)| is_same(one)) {
            Some((_, sites)) => sites.push(site),
            None => starts.push((pool, vec![site])),
        }
    }
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for starts in starts.chunks(environment.processors.max(1)) {
        let running: Vec<_> = starts.iter().map(|(pool, _)| start(pool, environment)).collect();
        for (running, (_, sites)) in running.into_iter().zip(starts) {
            // Another check reports a program that cannot be started.
            let said = running.and_then(|(pid, output)| listen(pid, output)).unwrap_or_default();
            for mistake in said.lines().filter_map(mistake_in) {
                match found.iter_mut().find(|(known, _)| *known == mistake) {
                    Some((_, known)) => known.extend(sites),
                    None => found.push((mistake, sites.clone())),
                }
            }
        }
    }
    let told = found.into_iter().map(|(mistake, sites)| {
        let more = match sites.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        format!("site {}{more}: {mistake}", sites[0])
    });
    told.collect()
}

/// Returns the mistake that a line of PHP's is about, with its effect; `None` for other lines.
fn mistake_in(line: &str) -> Option<String> {
    if is_of_ini_parser(line.as_bytes()) {
        return Some(format!("{line}; what follows there has no effect"));
    }
    if let Some(unread) = line.strip_prefix("warning: ").filter(|line| line.starts_with(UNREAD)) {
        return Some(unread.to_owned());
    }
    let line = line.strip_suffix(" in Unknown on line 0").unwrap_or(line);
    let extension = line.find("PHP Startup: Unable to load dynamic library").map(|at| &line[at..]);
    // Of `zend_extension`.
    let extension = extension.or_else(|| Some(line).filter(|line| line.starts_with("Failed load")));
    extension.map(|said| format!("{said}; PHP starts without this extension"))
}

/// Starts PHP as the user of the pool, with its php.ini. Returns what it says to standard error.
fn start(pool: &PoolPlan, environment: &Environment) -> io::Result<(Pid, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    descriptor::set_nonblocking(&reader)?;
    let nothing = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    // Code of the site is not for a check to run.
    let mut arguments: Vec<&[u8]> = vec![
        b"howdah-php",
        b"run",
        b"/dev/null",
        b"--repeat",
        b"0",
        b"--admin",
        b"opcache.preload=",
        b"--admin",
        b"log_errors=1",
    ];
    if !pool.settings.ini_file.is_empty() {
        arguments.extend([b"--ini-file", pool.settings.ini_file.as_bytes()]);
    }
    let program = Program {
        path: CString::new(pool.program.as_os_str().as_bytes())?,
        arguments: arguments.into_iter().map(CString::new).collect::<Result<_, _>>()?,
        environment: environment.zygote_environment()?,
        descriptors: vec![nothing()?, nothing()?, OwnedFd::from(writer)],
        identity: pool.identity.clone(),
        umask: pool.umask,
        descriptor_limit: None,
        death_signal: Some(SIGKILL),
        confinement: Confinement::default(),
    };
    Ok((program.start()?, reader))
}

/// Returns what the program says until its end.
fn listen(pid: Pid, mut output: PipeReader) -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    while said.len() < MOST_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        if poll::readable(&[output.as_fd()], Some(left))? != [true] {
            break;
        }
        match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => said.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    // It may have ended.
    let _ = pid.signal(SIGKILL);
    process::wait(pid)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_from_other_lines() {
        for (line, expected) in [
            (
                "PHP:  syntax error, unexpected '(' in /etc/a.ini on line 1",
                Some(
                    "PHP:  syntax error, unexpected '(' in /etc/a.ini on line 1; what follows \
                     there has no effect",
                ),
            ),
            (
                "warning: PHP Warning:  PHP Startup: Unable to load dynamic library 'x' (tried: \
                 /x.so) in Unknown on line 0",
                Some(
                    "PHP Startup: Unable to load dynamic library 'x' (tried: /x.so); PHP starts \
                     without this extension",
                ),
            ),
            (
                "Failed loading /x.so:  no such file",
                Some("Failed loading /x.so:  no such file; PHP starts without this extension"),
            ),
            (
                "warning: PHP has not read /a.ini: no; let it",
                Some("PHP has not read /a.ini: no; let it"),
            ),
            ("notice: hello", None),
            ("", None),
        ] {
            assert_eq!(mistake_in(line).as_deref(), expected);
        }
    }
}
