//! Supervisor, front, zygotes and workers for real: how they start, what happens when one of them
//! dies, how they are reloaded, replaced and ended.

#![allow(clippy::unwrap_used)] // Whatever is not as a test expects makes it fail.

#[path = "../support/mod.rs"]
mod support;

mod check_of_pools;
mod chroot;
mod command_line;
mod deaths;
mod draining;
mod front_user;
mod heartbeat;
mod import;
mod isolation;
mod older_kernels;
mod orphans;
mod password_files;
mod probation;
mod releases;
mod reload;
mod rights;
mod service_manager;
mod slow_starts;
mod spoilt_state;
mod standby;
mod stop;
mod takeover;
mod worker_memory;

/// A page that says which worker made it.
const WHO: &str = "echo 'worker ', getmypid();";
/// A page that takes a second, in which it says when it begins.
const SLOW: &str = "touch($_GET['mark']); sleep(1); echo 'slow but whole';";

/// The answer of [`WHO`].
fn is_who(response: &support::Response) -> bool {
    response.status == 200 && response.body.starts_with(b"worker ")
}

/// Fails unless it is the answer of [`WHO`].
fn assert_who(response: &support::Response) {
    assert!(is_who(response), "{} {}", response.status, String::from_utf8_lossy(&response.body));
}

/// A configuration with one site, `settings` above it and `site` in it. Its pool's state is in the
/// folder too.
fn config(folder: &support::Folder, settings: &str, site: &str) -> std::path::PathBuf {
    let root = folder.path().display();
    let php = "[site.php]\nstate_dir = \"state/shop\"";
    let site = match site {
        site if site.contains("php = false") => site.to_owned(),
        site if site.contains("[site.php]") => site.replace("[site.php]", php),
        site => format!("{site}\n{php}"),
    };
    // No test here provokes this limit, and a pool starts slowly on a busy machine.
    let patience = match site.contains("[site.php]") {
        true => "queue_timeout = \"5m\"\n",
        false => "",
    };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n{settings}\n[log]\naccess = \"off\"\n\
         [[site]]\nname = \"shop\"\nroot = \"{root}\"\n{site}\n{patience}"
    );
    folder.file("howdah.toml", text)
}
