//! Checks of the settings of a site's pool.

use std::path::Path;

use super::SettingPositions;
use crate::diagnostic::MistakeCollector;
use crate::settings::{Php, SiteSettings};
use crate::values::{Count, PoolMode, RootTemplate, Sandbox};

/// Reports keys that only a sandbox can enforce, in a site without one.
pub(super) fn sandbox(
    site: &SiteSettings,
    number: usize,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let Some(php) = site.php.as_ref().filter(|php| php.sandbox == Sandbox::Off) else {
        return;
    };
    let given = [
        ("connect", php.connect.is_some()),
        ("readable", !php.readable.is_empty()),
        ("writable", !php.writable.is_empty()),
    ];
    for (key, _) in given.iter().filter(|(_, is_given)| *is_given) {
        report.add_at(
            places.php_key(number, key),
            format!("`{key}` has no effect with `sandbox = \"off\"`"),
            Some(format!("leave `{key}` out, or give `sandbox = \"standard\"`")),
        );
    }
}

/// Reports numbers of workers that contradict each other, and those that the pool's mode ignores.
pub(super) fn workers(
    site: &SiteSettings,
    number: usize,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let Some(php) = &site.php else { return };
    let is_given = |key: &str| places.has_php(number, key);
    for mistake in mistakes(php).into_iter().chain(without_effect(php, is_given)) {
        let PoolMistake { key, message, help } = mistake;
        report.add_at(places.php_key(number, key), message, Some(help));
    }
}

/// Reports what a pool with `chroot` needs and cannot reach from inside, and what would let its
/// scripts out.
pub(super) fn chroot(
    site: &SiteSettings,
    number: usize,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let Some(php) = &site.php else { return };
    let Some(folder) = &php.chroot else { return };
    let mut add = |place, message, help: &str| report.add_at(place, message, Some(help.to_owned()));
    let root = match &site.root {
        RootTemplate::Fixed(path) => path.as_path(),
        RootTemplate::PerHost { before, .. } => Path::new(before),
    };
    let chroot = folder.display();
    if !root.starts_with(folder) {
        add(
            places.key(number, "root"),
            format!("`root` = {} is not below `chroot` = {chroot}", root.display()),
            "write the machine's path of the document root, which begins with that of `chroot`",
        );
    }
    if let Some(state) = php.state_dir.as_ref().filter(|state| !state.starts_with(folder)) {
        add(
            places.php_key(number, "state_dir"),
            format!("`state_dir` = {} is not below `chroot` = {chroot}", state.display()),
            "scripts keep sessions and temporary files there; leave it out, or name a folder below",
        );
    }
    if !php.no_new_privs {
        add(
            places.php_key(number, "no_new_privs"),
            "`no_new_privs = false` beside `chroot`".to_owned(),
            "leave it out: where set-user-ID programs get rights, the folder is no protection",
        );
    }
}

/// A mistake in the value of a key.
struct PoolMistake {
    key: &'static str,
    message: String,
    help: String,
}

fn mistakes(php: &Php) -> Vec<PoolMistake> {
    let mut mistakes = Vec::new();
    let mut add = |key, message: String, help: &str| {
        mistakes.push(PoolMistake { key, message, help: help.to_owned() });
    };
    for (key, is_given, modes) in [
        ("start_workers", php.start_workers.is_some(), &[PoolMode::Dynamic][..]),
        ("min_spare_workers", php.min_spare_workers.is_some(), &[PoolMode::Dynamic]),
        ("max_spare_workers", php.max_spare_workers.is_some(), &[PoolMode::Dynamic]),
        (
            "idle_timeout",
            php.idle_timeout.is_some(),
            &[PoolMode::Auto, PoolMode::Dynamic, PoolMode::OnDemand],
        ),
    ] {
        if is_given && !modes.contains(&php.mode) {
            let message = format!("`{key}` has no effect with `mode = \"{}\"`", php.mode.name());
            let help = format!("leave `{key}` out, or give `mode = \"{}\"`", modes[0].name());
            add(key, message, &help);
        }
    }
    if php.program.is_some() && php.version.is_some() {
        let message = "`version` beside `program`".to_owned();
        add("version", message, "leave one out: both name the program that runs PHP");
    }
    if php.mode != PoolMode::Dynamic {
        return mistakes;
    }
    for (key, value) in spare_keys(php) {
        if let Count::Exactly(workers) = php.workers
            && value > workers
        {
            let message = format!("`{key}` = {value} is more than `workers` = {workers}");
            add(key, message, "give at most as many as `workers`");
        }
    }
    let least = php.min_spare_workers.unwrap_or(1);
    if php.max_spare_workers.is_some_and(|most| most < least) {
        let message = format!("`max_spare_workers` is less than `min_spare_workers` = {least}");
        add("max_spare_workers", message, "give at least as many as `min_spare_workers`");
    }
    if let Some(start) = php.start_workers
        && (start < least || php.max_spare_workers.is_some_and(|most| start > most))
    {
        let limits = "`min_spare_workers` and `max_spare_workers`";
        let message = format!("`start_workers` = {start} is not between {limits}");
        add("start_workers", message, "give a number between them: workers that start are free");
    }
    mistakes
}

/// Finds keys that change nothing because of others. `is_given` says whether a key is there.
fn without_effect(php: &Php, is_given: impl Fn(&str) -> bool) -> Vec<PoolMistake> {
    let mut mistakes = Vec::new();
    let mut add = |key, message: String, help: &str| {
        mistakes.push(PoolMistake { key, message, help: help.to_owned() });
    };
    if is_given("memory_share") && php.mode != PoolMode::Auto {
        let message = format!("`memory_share` has no effect with `mode = \"{}\"`", php.mode.name());
        add("memory_share", message, "leave `memory_share` out, or give `mode = \"auto\"`");
    }
    if is_given("shm_size") && !php.private_ipc {
        let message = "`shm_size` has no effect with `private_ipc = false`".to_owned();
        add("shm_size", message, "leave one of them out");
    }
    if php.ping_path.is_some() && php.ping_path == php.status_path {
        let message = "`ping_path` is `status_path` as well".to_owned();
        add("ping_path", message, "give each page a path of its own");
    }
    let Some(most) = php.request_terminate_timeout else {
        return mistakes;
    };
    if php.slow_after().is_some_and(|after| after > most) {
        let message = "`slow_after` is longer than `request_terminate_timeout`".to_owned();
        add("slow_after", message, "give it less: no script runs for as long as that");
    }
    mistakes
}

/// The numbers of workers that are given, by key.
fn spare_keys(php: &Php) -> impl Iterator<Item = (&'static str, usize)> {
    let keys = [
        ("start_workers", php.start_workers),
        ("min_spare_workers", php.min_spare_workers),
        ("max_spare_workers", php.max_spare_workers),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key, value?)))
}
