//! Facts about the machine, and obstacles to a run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::environment;
use crate::process::find;
use crate::stack::{Stack, StackEnvironment};

/// Facts for readers of a run, in the order in which they are shown.
pub fn facts() -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    vec![
        fact("processor", value_of("/proc/cpuinfo", "model name", ':')),
        fact("processors", cores().to_string()),
        fact("memory", memory()),
        fact("kernel", text_of("/proc/sys/kernel/osrelease")),
        fact(
            "distribution",
            value_of("/etc/os-release", "PRETTY_NAME", '=').trim_matches('"').to_owned(),
        ),
        fact("virtual", said("systemd-detect-virt", &[]).unwrap_or_else(|| "unknown".to_owned())),
        fact("governor", text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        fact("load before", load()),
        fact("somaxconn", text_of("/proc/sys/net/core/somaxconn")),
    ]
}

/// Open files of the largest crowd: client and server side of each connection.
const DESCRIPTORS: u64 = 65_536;

/// Raises the limit of open files, which servers inherit, as far as allowed.
pub fn allow_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let most = limits.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limits.current.is_some_and(|current| current < most) {
        // Without it, `doctor` and the failing loads say so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limits });
    }
}

fn memory() -> String {
    let text = value_of("/proc/meminfo", "MemTotal", ':');
    let kibibytes: Option<f64> = text.split(' ').next().and_then(|word| word.parse().ok());
    kibibytes.map_or(text, |kibibytes| format!("{:.1} GiB", kibibytes / 1024.0 / 1024.0))
}

/// Processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns whether the machine has swap.
pub fn has_swap() -> bool {
    text_of("/proc/swaps").lines().count() > 1
}

/// Returns whether other programs use the machine: figures taken then are worth little.
pub fn is_busy() -> bool {
    let load: f64 = text_of("/proc/loadavg")
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    load > 0.3 * cores() as f64
}

fn load() -> String {
    text_of("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// A finding of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it allows a run.
    pub good: bool,
    /// The subject.
    pub what: String,
    /// The finding, and what to do where it is not good.
    pub text: String,
}

/// Looks for obstacles to a run.
pub fn doctor(environment: &StackEnvironment, stacks: &[std::rc::Rc<dyn Stack>]) -> Vec<Finding> {
    let finding =
        |good: bool, what: &str, text: String| Finding { good, what: what.to_owned(), text };
    let mut found = vec![
        finding(
            cores() >= 2,
            "processors",
            format!("{}; the load generator takes up to one of them", cores()),
        ),
        descriptors(),
        backlog(),
        noise(),
        memory_limits(),
        separate_users(),
    ];
    for tool in ["wrk", "ab", "h2load", "strace"] {
        let text = find(&[tool]).map_or_else(
            || "not installed; `howdah-lab setup` installs it".to_owned(),
            |path| path.display().to_string(),
        );
        found.push(finding(find(&[tool]).is_some(), tool, text));
    }
    let database =
        find(&["mariadbd"]).is_some() && Path::new("/usr/share/wordpress/wp-load.php").is_file();
    let text = if database {
        "installed"
    } else {
        "mariadb-server or wordpress is not installed; `howdah-lab setup` installs both"
    };
    found.push(finding(database, "WordPress on MariaDB", text.to_owned()));
    for stack in stacks {
        let missing = stack.missing(environment);
        let text = missing.clone().unwrap_or_else(|| stack.version(environment));
        found.push(finding(missing.is_none(), stack.title(), text));
    }
    found
}

fn descriptors() -> Finding {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    Finding {
        good: most >= 20_000,
        what: "open files".to_owned(),
        text: match most {
            u64::MAX => "without limit".to_owned(),
            20_000.. => format!("{most} at once"),
            _ => format!("{most} at once; crowds of 10,000 connections need 20,000 (`ulimit -Hn`)"),
        },
    }
}

fn backlog() -> Finding {
    let backlog: u32 = text_of("/proc/sys/net/core/somaxconn").parse().unwrap_or(0);
    Finding {
        good: backlog >= 1024,
        what: "accept queue".to_owned(),
        text: if backlog >= 1024 {
            format!("up to {backlog} connections")
        } else {
            format!(
                "only {backlog} connections; `sysctl net.core.somaxconn=4096` keeps the kernel \
                 from dropping bursts"
            )
        },
    }
}

fn memory_limits() -> Finding {
    let limit = crate::probes::cgroup::Limit::new(64 << 20, 0);
    let entered = limit.and_then(|limit| limit.within(|| ()));
    Finding {
        good: entered.is_ok(),
        what: "memory limits".to_owned(),
        text: entered
            .err()
            .unwrap_or_else(|| "control groups work, so vps-256mb can limit its stacks".to_owned()),
    }
}

/// Returns whether sites can have users of their own. Debian's suEXEC serves only files below
/// `/var/www`; another folder is set in `/etc/apache2/suexec`, which the laboratory does not
/// change.
fn separate_users() -> Finding {
    let is_there = Path::new("/usr/lib/apache2/modules/mpm_itk.so").is_file();
    let how = if !is_there {
        "libapache2-mpm-itk is not installed; `howdah-lab setup` installs it"
    } else if environment::user().is_none() {
        "Apache ITK, which only root can start"
    } else {
        "Apache ITK"
    };
    Finding {
        good: is_there && environment::user().is_some(),
        what: "separate users".to_owned(),
        text: format!(
            "{how}; suEXEC is left out, since Debian's serves only what is below /var/www"
        ),
    }
}

/// Measures how much the duration of the same work varies, which shows other users of the machine.
fn noise() -> Finding {
    let work = || {
        let began = Instant::now();
        let mut sum = 0u64;
        for number in 0..20_000_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(number));
        }
        std::hint::black_box(sum);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..9).map(|_| work()).collect();
    times.sort();
    let spread = times[7].as_secs_f64() / times[1].as_secs_f64() - 1.0;
    Finding {
        good: spread < 0.1 && !is_busy(),
        what: "noise".to_owned(),
        text: format!(
            "the same work takes up to {:.0} % longer from one time to the next{}",
            spread * 100.0,
            if is_busy() {
                ", and the machine is busy with other work"
            } else {
                ""
            }
        ),
    }
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(find(&[program])?).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn value_of(file: &str, key: &str, separator: char) -> String {
    let text = text_of(file);
    let value = text
        .lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(name, _)| name.trim() == key);
    value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn text_of(file: &str) -> String {
    fs::read_to_string(file).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
