//! Mistakes that keep PHP from starting, and those in php.ini and in the files of its folders, as
//! PHP's own parser finds them. Each program that runs PHP starts once for each php.ini, user and
//! set of extensions and limits, and runs no script.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use howdah_sys::confinement::Confinement;
use howdah_sys::process::{self, Exit, Pid, Program};
use howdah_sys::signal::SIGKILL;
use howdah_sys::{descriptor, poll};

use crate::supervisor::environment::Environment;
use crate::supervisor::generation_plan::{GenerationPlan, PoolPlan};
use crate::supervisor::pool_log::is_of_ini_parser;

/// Time that PHP gets to start. Mistakes that it finds later are not told.
const PATIENCE: Duration = Duration::from_secs(5);
/// Starts of PHP. Pools that would need further ones are not tried, and a mistake says so.
const MOST_STARTS: usize = 200;
/// The words with which `howdah-php` names a file that PHP's user may not read.
const UNREAD: &str = "PHP has not read ";
/// The words with which `howdah-php` says that PHP has started.
const STARTED: &str = "notice: PHP has started";
/// Bytes of PHP's messages that are read. Mistakes in the rest are not found.
const MOST_BYTES: usize = 64 * 1024;

/// Returns the mistakes, each with the sites that it concerns.
pub(crate) fn mistakes(plan: &GenerationPlan, environment: &Environment) -> Vec<String> {
    let mut starts: Vec<(&PoolPlan, Vec<&str>)> = Vec::new();
    for pool in &plan.pools {
        let site = pool.settings.pool.as_str();
        match starts.iter_mut().find(|(one, _)| is_same_start(one, pool)) {
            Some((_, sites)) => sites.push(site),
            None => starts.push((pool, vec![site])),
        }
    }
    let untried = starts.split_off(starts.len().min(MOST_STARTS));
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for starts in starts.chunks(environment.processors.max(1)) {
        let running: Vec<_> = starts.iter().map(|(pool, _)| start(pool, environment)).collect();
        for (running, (pool, sites)) in running.into_iter().zip(starts) {
            for mistake in mistakes_of(pool, running.and_then(|(pid, said)| listen(pid, said))) {
                match found.iter_mut().find(|(known, _)| *known == mistake) {
                    Some((_, known)) => known.extend(sites),
                    None => found.push((mistake, sites.clone())),
                }
            }
        }
    }
    let sites: Vec<&str> = untried.into_iter().flat_map(|(_, sites)| sites).collect();
    if !sites.is_empty() {
        let what = format!("PHP was not tried: {MOST_STARTS} pools with other settings were");
        found.push((what, sites));
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

/// Returns whether PHP meets the same mistakes when it starts for either pool.
fn is_same_start(one: &PoolPlan, other: &PoolPlan) -> bool {
    let ids = |pool: &PoolPlan| {
        pool.identity.as_ref().map(|owner| (owner.uid, owner.gid, owner.groups.clone()))
    };
    one.program == other.program
        && one.settings.ini_file == other.settings.ini_file
        && ids(one) == ids(other)
        && one.isolation.limits_of_start() == other.isolation.limits_of_start()
        && deciding(&one.settings.ini).eq(deciding(&other.settings.ini))
        && deciding(&one.settings.admin_ini).eq(deciding(&other.settings.admin_ini))
}

/// The settings that decide whether PHP starts, and with which extensions. A script that opcache
/// would run at its start is not among them: code of the site is not for a check to run.
fn deciding(settings: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
    settings.iter().filter(|(name, _)| {
        let is_of_extension = ["opcache.", "apc."].iter().any(|start| name.starts_with(start));
        let loads = ["extension", "zend_extension", "extension_dir"].contains(&name.as_str());
        loads || is_of_extension && !name.starts_with("opcache.preload")
    })
}

/// Returns the mistakes of a start whose words and end are `ended`.
fn mistakes_of(pool: &PoolPlan, ended: io::Result<(String, Option<Exit>)>) -> Vec<String> {
    let program = pool.program.display();
    let (said, exit) = match ended {
        Ok(ended) => ended,
        Err(error) => return vec![format!("PHP does not start: {program}: {error}")],
    };
    let mut found: Vec<String> = said.lines().filter_map(mistake_in).collect();
    if let Some(exit) = exit
        && !said.lines().any(|line| line == STARTED)
    {
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(": {line}")).unwrap_or_default();
        found.push(format!("PHP does not start: {program} {exit}{last}"));
    }
    found
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
    let mut arguments: Vec<Vec<u8>> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).into()));
    add(&["howdah-php", "run", "/dev/null", "--repeat", "0"]);
    for (option, settings) in [("-d", &pool.settings.ini), ("--admin", &pool.settings.admin_ini)] {
        for (name, value) in deciding(settings) {
            add(&[option, &format!("{name}={value}")]);
        }
    }
    // Code of the site is not for a check to run, and messages are for the check.
    for own in ["opcache.preload=", "opcache.error_log=", "error_log=", "log_errors=1"] {
        add(&["--admin", own]);
    }
    if !pool.settings.ini_file.is_empty() {
        add(&["--ini-file", &pool.settings.ini_file]);
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
        confinement: Confinement {
            limits: pool.isolation.limits_of_start(),
            ..Confinement::default()
        },
    };
    Ok((program.start()?, reader))
}

/// Returns what the program says until its end, and how it ended; `None` where it was ended,
/// because it took too long or said too much.
fn listen(pid: Pid, mut output: PipeReader) -> io::Result<(String, Option<Exit>)> {
    let until = Instant::now() + PATIENCE;
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    let mut has_ended = false;
    while said.len() < MOST_BYTES && !has_ended {
        let left = until.saturating_duration_since(Instant::now());
        if poll::readable(&[output.as_fd()], Some(left))? != [true] {
            break;
        }
        match output.read(&mut buffer) {
            Ok(0) => has_ended = true,
            Ok(length) => said.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    if !has_ended {
        // It may have ended.
        let _ = pid.signal(SIGKILL);
    }
    let exit = process::wait(pid)?;
    Ok((String::from_utf8_lossy(&said).into_owned(), has_ended.then_some(exit)))
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
