//! php-fpm, the PHP side of nginx, lighttpd and Apache's proxy.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::template::{fill, only_if, version};
use crate::environment::own_ini;
use crate::process::{StackProgram, StartFailed, accepts, find, free_port};
use crate::stack::{Running, StackEnvironment};

/// The socket between server and pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FpmSocket {
    /// A unix socket.
    Unix,
    /// A port of the loopback interface.
    Tcp,
}

const CONFIGURATION: &str = "\
[global]
daemonize = no
error_log = @folder@/fpm-error.log
; Restarts and time-outs are no part of a measurement.
log_level = error

[www]
listen = @listen@
; One place in the kernel's queue for every connection that may wait.
listen.backlog = 1024
@identity@
; A fixed set of children, the same number as every other stack's PHP processes: no forking while \
measuring.
pm = @pm@
pm.max_children = @children@
; Children live on; the recycling that some hosts add would only cost.
pm.max_requests = 0
; Catching the workers' output would cost a pipe.
catch_workers_output = no
";

/// `pm.max_children` of Debian's www.conf, whose `pm` is dynamic.
const DEBIAN_CHILDREN: usize = 5;

/// Finds the program of php-fpm. `None`: it is not installed.
pub(super) fn binary(environment: &StackEnvironment) -> Option<PathBuf> {
    find(&[&format!("php-fpm{}", environment.php), "php-fpm"])
}

/// Says that php-fpm is not installed. `None`: it is.
pub(super) fn missing(environment: &StackEnvironment) -> Option<String> {
    binary(environment)
        .is_none()
        .then(|| format!("php{}-fpm is not installed", environment.php))
}

pub(super) fn version_of(environment: &StackEnvironment) -> String {
    version(binary(environment).as_deref(), "-v", "PHP ")
}

/// Starts a pool of `children` processes as a part of `running`, and waits until it accepts.
/// Returns its address in nginx's form: `unix:/path` or `127.0.0.1:9000`.
///
/// # Errors
/// There is no free port, the configuration cannot be written, or php-fpm does not start.
pub(super) fn start(
    environment: &StackEnvironment,
    folder: &Path,
    transport: FpmSocket,
    children: usize,
    running: &mut Running,
) -> Result<String, StartFailed> {
    let binary = binary(environment).unwrap_or_else(|| "php-fpm".into());
    let socket = folder.join("fpm.sock");
    let port = free_port().map_err(|error| StartFailed::Execute("php-fpm".to_owned(), error))?;
    let (listen, address) = match transport {
        FpmSocket::Unix => (socket.display().to_string(), format!("unix:{}", socket.display())),
        FpmSocket::Tcp => (format!("127.0.0.1:{port}"), format!("127.0.0.1:{port}")),
    };
    let identity = environment.user.as_ref().map_or(String::new(), |user| {
        format!("user = {user}\ngroup = {user}\nlisten.owner = {user}\nlisten.group = {user}")
    });
    // Debian's pool has five children at the most.
    let (children, pm) = if environment.is_as_installed() {
        (DEBIAN_CHILDREN, "dynamic")
    } else {
        (children, "static")
    };
    let setting = |name: &str| environment.settings.get(name).cloned();
    let children = setting("pm.max_children").unwrap_or_else(|| children.to_string());
    let pm = setting("pm").unwrap_or_else(|| pm.to_owned());
    let mut configuration = fill(
        CONFIGURATION,
        &[
            ("folder", &folder.display().to_string()),
            ("listen", &listen),
            ("identity", &identity),
            ("pm", &pm),
            ("children", &children),
        ],
    );
    configuration += &only_if(
        pm == "dynamic",
        "pm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n".to_owned(),
    );
    let file = folder.join("fpm.conf");
    std::fs::write(&file, &configuration)
        .map_err(|error| StartFailed::Execute(file.display().to_string(), error))?;
    let mut command = Command::new(binary);
    command
        .args(["-F", "-c"])
        .arg(own_ini(environment, folder)?)
        .arg("-y")
        .arg(&file);
    let mut program = StackProgram::start(&mut command, &folder.join("fpm.log"))?;
    program.wait_until(|| match transport {
        FpmSocket::Unix => UnixStream::connect(&socket).is_ok(),
        FpmSocket::Tcp => accepts(port),
    })?;
    running.add(program, ("fpm.conf", configuration), Some(Signal::USR2));
    Ok(address)
}
