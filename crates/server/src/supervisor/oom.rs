//! The order in which the kernel ends processes when memory is short: first workers and what their
//! scripts have started, last this process. See proc_pid_oom_score_adj(5).
//!
//! Values below 0 need root's rights. Without these rights only the workers are marked, and they do
//! that themselves.

use std::fs;

use howdah_sys::process::Pid;

/// The supervisor's value; it takes little memory, and all else ends with it.
const SUPERVISOR: i32 = -800;
/// The front's value; the connections of all sites end with it.
const FRONT: i32 = -700;
/// The zygotes' value on the kernel's former scale from -17 to 15, about -600 on the present one.
const ZYGOTE: i32 = -10;
/// The value that workers choose, also for the programs that scripts start.
const WORKER: i32 = 300;

/// Protects this process.
pub(super) fn protect_supervisor() {
    lower(SUPERVISOR);
}

/// Protects this process, which will be a front.
pub(super) fn protect_front() {
    lower(FRONT);
}

/// Protects a zygote but not its workers, which take [`WORKER`] themselves.
///
/// A value that root writes is also the lowest that the process and its children may choose later.
/// Therefore root writes the workers' value first, and then the zygote's to the former file, which
/// does not change that lowest value: a script can never protect its process.
pub(super) fn prefer_workers(zygote: Pid) {
    let (file, former) =
        (format!("/proc/{zygote}/oom_score_adj"), format!("/proc/{zygote}/oom_adj"));
    let Ok(usual) = fs::read_to_string(&file) else {
        return;
    };
    // Without CAP_SYS_RESOURCE, which some containers do not give to root, nothing is lowered.
    let is_marked = fs::write(&file, WORKER.to_string()).is_ok();
    if is_marked && fs::write(former, ZYGOTE.to_string()).is_err() {
        let _ = fs::write(file, usual.trim());
    }
}

fn lower(wanted: i32) {
    let file = "/proc/self/oom_score_adj";
    let present = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if present.is_some_and(|present| present > wanted) {
        // Without root's rights it fails.
        let _ = fs::write(file, wanted.to_string());
    }
}
