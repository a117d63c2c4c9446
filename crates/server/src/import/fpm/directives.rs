//! Every directive of a pool of php-fpm, and its equal.

use std::io;

use howdah_sys::credentials::{group_name, user_name};

use super::toml_text;

/// A directive.
pub(super) struct FpmDirective {
    name: &'static str,
    /// Returns the equal of the directive with this value.
    pub(super) equal: fn(&str) -> FpmEqual,
}

/// The equal of a directive.
pub(super) enum FpmEqual {
    /// A key of `[site.php]`, and its value as TOML.
    Key(&'static str, String),
    /// A time after which every script is ended, as TOML. It takes two keys of `[site.php]`.
    Time(String),
    /// An entry of a table of `[site.php]`: the table, and the value as TOML.
    Entry(&'static str, String),
    /// An entry of `[site.php.rlimits]`.
    Limit(&'static str, String),
    /// The working directory, as a path below `chroot`.
    Folder(String),
    /// The folder that `chroot` names.
    Cage(String),
    /// A name in `pass_env`: a variable of the server's own environment.
    Passed(String),
    /// No setting: Howdah always behaves so.
    Default,
    /// Nothing, with the reason.
    None(&'static str),
}

/// The directive of that name, without the part in brackets. `None`: php-fpm has no such directive.
pub(super) fn find(name: &str) -> Option<&'static FpmDirective> {
    DIRECTIVES.iter().find(|directive| directive.name == name)
}

macro_rules! directives {
    ($($name:literal => $equal:expr,)*) => {
        static DIRECTIVES: &[FpmDirective] = &[$(FpmDirective { name: $name, equal: $equal }),*];
    };
}

directives! {
    "user" => |value| named("user", value, user_name),
    "group" => |value| named("group", value, group_name),
    "prefix" => |_| FpmEqual::None("paths are absolute, or start at the configuration's folder"),
    "listen" => |_| FpmEqual::None(SOCKET),
    "listen.backlog" => |_| FpmEqual::None("`queue` bounds the requests that wait for a worker"),
    "listen.owner" => |_| FpmEqual::None(SOCKET),
    "listen.group" => |_| FpmEqual::None(SOCKET),
    "listen.mode" => |_| FpmEqual::None(SOCKET),
    "listen.acl_users" => |_| FpmEqual::None(SOCKET),
    "listen.acl_groups" => |_| FpmEqual::None(SOCKET),
    "listen.allowed_clients" => |_| FpmEqual::None(SOCKET),
    "listen.setfib" => |_| FpmEqual::None(SOCKET),
    "process.priority" => |value| match value.parse::<i32>() {
        // The kernel has no 20 and takes it for 19.
        Ok(nice) if (-20..=20).contains(&nice) => FpmEqual::Key("nice", nice.min(19).to_string()),
        Ok(_) | Err(_) => FpmEqual::None("it is no number from -19 to 20"),
    },
    "process.dumpable" => |value| match is_on(value) {
        Some(false) => FpmEqual::Default,
        _ => FpmEqual::None("`core` in `[site.php.rlimits]` permits core dumps"),
    },
    "apparmor_hat" => |_| FpmEqual::None("`sandbox` confines each pool"),
    "pm" => |value| match value.to_ascii_lowercase().as_str() {
        mode @ ("static" | "dynamic" | "ondemand") => FpmEqual::Key("mode", toml_text(mode)),
        _ => FpmEqual::None("it is no mode of php-fpm"),
    },
    "pm.max_children" => |value| number("workers", value),
    "pm.start_servers" => |value| match value {
        "0" => FpmEqual::Default,
        _ => number("start_workers", value),
    },
    "pm.min_spare_servers" => |value| number("min_spare_workers", value),
    "pm.max_spare_servers" => |value| number("max_spare_workers", value),
    "pm.max_spawn_rate" => |_| FpmEqual::None("workers that requests need are started at once"),
    "pm.process_idle_timeout" => |value| {
        duration("idle_timeout", value, "a worker sleeps for a while before it ends")
    },
    "pm.max_requests" => |value| number("max_requests", value),
    "pm.status_path" => |value| text("status_path", value),
    "pm.status_listen" => |_| FpmEqual::None("`admin` at the top is a listener for monitors"),
    "ping.path" => |value| text("ping_path", value),
    "ping.response" => |value| text("ping_response", value),
    "access.log" => |_| FpmEqual::None("`access_log` in `[[site]]` is the log of the web server"),
    "access.format" => |_| FpmEqual::None("`access_log_format` in `[[site]]` has Apache's words"),
    "access.suppress_path" => |_| FpmEqual::None("the access log has every request"),
    "slowlog" => |_| FpmEqual::None("the error log has slow scripts, as lines of the site"),
    "request_slowlog_timeout" => |value| match value.trim_end_matches(['s', 'm', 'h', 'd', ' ']) {
        "0" => FpmEqual::Default,
        _ => duration("slow_after", value, ""),
    },
    "request_slowlog_trace_depth" => |value| number("slow_trace_depth", value),
    "request_terminate_timeout" => |value| {
        time(value, NO_TIME_LIMIT).map_or_else(|other| other, FpmEqual::Time)
    },
    "request_terminate_timeout_track_finished" => |value| match is_on(value) {
        Some(true) => FpmEqual::Default,
        _ => FpmEqual::None("a script keeps its time limit after `fastcgi_finish_request`"),
    },
    "rlimit_files" => |value| limit("nofile", value),
    "rlimit_core" => |value| match value {
        _ if value.eq_ignore_ascii_case("unlimited") => {
            FpmEqual::None("give a size as `core` in `[site.php.rlimits]`")
        }
        _ => limit("core", value),
    },
    "chroot" => |value| match value {
        "" => FpmEqual::Default,
        _ => FpmEqual::Cage(value.to_owned()),
    },
    "chdir" => |value| match value {
        "" => FpmEqual::Default,
        _ => FpmEqual::Folder(value.to_owned()),
    },
    "catch_workers_output" => |value| match is_on(value) {
        Some(true) => FpmEqual::Default,
        _ => FpmEqual::None("the error log has what scripts write to standard error"),
    },
    "decorate_workers_output" => |value| match is_on(value) {
        Some(true) => FpmEqual::Default,
        _ => FpmEqual::None("each line of the error log has time, level and site"),
    },
    "clear_env" => |value| match is_on(value) {
        Some(true) => FpmEqual::Default,
        _ => FpmEqual::None("scripts see what `env` and `pass_env` name, and `PATH`"),
    },
    "security.limit_extensions" => |value| match value.split_whitespace().collect::<Vec<_>>() {
        names if names.is_empty() => FpmEqual::None("only names in `extensions` run as PHP"),
        names => {
            let names: Vec<String> = names.into_iter().map(toml_text).collect();
            FpmEqual::Key("extensions", format!("[{}]", names.join(", ")))
        }
    },
    "env" => |value| match value.strip_prefix('$') {
        Some(variable) => FpmEqual::Passed(variable.to_owned()),
        None => FpmEqual::Entry("env", toml_text(value)),
    },
    "php_value" => |value| FpmEqual::Entry("ini", toml_text(value)),
    "php_flag" => |value| FpmEqual::Entry("ini", flag(value)),
    "php_admin_value" => |value| FpmEqual::Entry("admin_ini", toml_text(value)),
    "php_admin_flag" => |value| FpmEqual::Entry("admin_ini", flag(value)),
}

/// The difference for a pool that ends no script.
pub(super) const NO_TIME_LIMIT: &str = "a script without a sign of life is ended after \
    `request_timeout`, 60 s, and every script after `request_terminate_timeout`, one hour";

const SOCKET: &str = "no socket is between the server and its PHP processes";

/// A switch of php-fpm; `None` for another value.
fn is_on(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" | "1" => Some(true),
        "no" | "none" | "off" | "false" | "0" | "" => Some(false),
        _ => None,
    }
}

fn flag(value: &str) -> String {
    match is_on(value) {
        Some(true) => toml_text("1"),
        Some(false) => toml_text("0"),
        None => toml_text(value),
    }
}

/// A text, which is unset where it is empty.
fn text(key: &'static str, value: &str) -> FpmEqual {
    match value {
        "" => FpmEqual::Default,
        _ => FpmEqual::Key(key, toml_text(value)),
    }
}

/// A user or a group, which php-fpm also knows by its number.
fn named(key: &'static str, value: &str, name: fn(u32) -> io::Result<Option<String>>) -> FpmEqual {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return text(key, value);
    }
    match value.parse().ok().and_then(|number| name(number).ok()?) {
        Some(name) => text(key, &name),
        None => FpmEqual::None("this machine knows no name for the number; write the name"),
    }
}

fn number(key: &'static str, value: &str) -> FpmEqual {
    match value.parse::<u64>() {
        Ok(number) => FpmEqual::Key(key, number.to_string()),
        Err(_) => FpmEqual::None("it is no number"),
    }
}

fn limit(name: &'static str, value: &str) -> FpmEqual {
    match value.parse::<u64>() {
        Ok(number) => FpmEqual::Limit(name, number.to_string()),
        Err(_) => FpmEqual::None("it is no number"),
    }
}

fn duration(key: &'static str, value: &str, never: &'static str) -> FpmEqual {
    time(value, never).map_or_else(|other| other, |time| FpmEqual::Key(key, time))
}

/// A time of php-fpm, in seconds unless it has a unit, as TOML. 0 is none, about which `never` is
/// said.
fn time(value: &str, never: &'static str) -> Result<String, FpmEqual> {
    let digits = value.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = &value[digits.len()..];
    match (digits.trim_end().parse::<u64>(), unit) {
        (Ok(0), _) => Err(FpmEqual::None(never)),
        (Ok(days), "d") => Ok(toml_text(&format!("{}h", days.saturating_mul(24)))),
        (Ok(number), "") => Ok(toml_text(&format!("{number}s"))),
        (Ok(number), "s" | "m" | "h") => Ok(toml_text(&format!("{number}{unit}"))),
        _ => Err(FpmEqual::None("it is no time")),
    }
}
