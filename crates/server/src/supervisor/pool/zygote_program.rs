//! The program of a zygote.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use howdah_sys::confinement::Confinement;
use howdah_sys::process::Program;
use howdah_sys::signal::SIGTERM;

use super::super::environment::Environment;
use super::super::generation_plan::PoolPlan;
use super::limits::descriptor_limit;

/// Returns the program that starts as the zygote of a pool, with its descriptors from 0 on.
///
/// # Errors
/// A name or a path has a zero byte.
pub(super) fn zygote_program(
    name: &str,
    plan: &PoolPlan,
    environment: &Environment,
    confinement: Confinement,
    descriptors: Vec<OwnedFd>,
) -> io::Result<Program> {
    Ok(Program {
        path: CString::new(plan.program.as_os_str().as_bytes())?,
        // The name appears in `ps`.
        arguments: [&b"howdah-php"[..], b"zygote", name.as_bytes()]
            .into_iter()
            .map(CString::new)
            .collect::<Result<_, _>>()?,
        environment: environment.zygote_environment()?,
        descriptors,
        identity: plan.identity.clone(),
        umask: plan.umask,
        descriptor_limit: Some(descriptor_limit(plan, environment)),
        // The zygote lets its workers finish if the supervisor dies; see `outlive_parent_by` for
        // the front.
        death_signal: Some(SIGTERM),
        confinement,
    })
}
