//! The settings of a pool, as its zygote gets them.

use std::io;

use super::BUILD;
use crate::packet::{PacketReader, PacketWriter};

/// Settings of a pool, which the zygote needs before PHP starts. The supervisor's first message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSettings {
    /// The pool's name, as it appears in logs.
    pub pool: String,
    /// Path of a `php.ini` file that replaces PHP's own choice; empty for none.
    pub ini_file: String,
    /// Number of requests after which a worker ends; 0: never.
    pub max_requests: u64,
    /// Bytes of its own memory beyond which a worker ends; 0: any.
    pub max_memory: u64,
    /// Ini values that scripts may change.
    pub ini: Vec<(String, String)>,
    /// Ini values that scripts may not change.
    pub admin_ini: Vec<(String, String)>,
    /// Environment for `getenv`, added to an otherwise empty one.
    pub environment: Vec<(String, String)>,
    /// Folder of this pool's temporary files, sessions and uploads.
    pub state_dir: String,
    /// The state folder belongs to another user than the supervisor's: what that user has put in
    /// the place of its folders keeps PHP from starting with no configuration.
    pub repairs_state: bool,
    /// `%2F` is part of a path (Apache's `AllowEncodedSlashes`).
    pub allows_encoded_slashes: bool,
    /// `%2F` is a slash, and not three bytes of a name (`AllowEncodedSlashes On`).
    pub decodes_encoded_slashes: bool,
    /// Working directory outside of scripts; empty for any. With `chroot`, a path below it.
    pub working_directory: String,
    /// The folder that workers see as `/`, as the other paths begin, without a slash at its end;
    /// empty for none.
    pub chroot: String,
    /// The path of that folder without symbolic links.
    pub chroot_folder: String,
    /// Scripts have the functions of PHP's pcntl extension.
    pub pcntl: bool,
    /// The name under which PHP says that it runs; empty for the usual one.
    pub sapi: String,
    /// Apache's modules whose directives have an effect, separated by spaces, for scripts.
    pub modules: String,
    /// Whether other processes of the same user may not look into the zygote and its workers.
    pub is_opaque: bool,
    /// Whether a worker may send signals only to itself and its children.
    pub separates_workers: bool,
    /// Processor time after which a worker is replaced, in seconds; 0: any.
    pub processor_seconds: u64,
    /// Milliseconds after which a running script is logged with its backtrace; 0: never.
    pub slow_milliseconds: u64,
    /// Frames of such a backtrace.
    pub slow_trace_depth: u64,
    /// The version of PHP that the program must have, as `8.2`; empty for any.
    pub php_version: String,
    /// The folder that the former generation's release was in, and the folder that the release is
    /// in now; both are empty if they are the same.
    pub former_release: String,
    /// See `former_release`.
    pub release: String,
}

/// Seconds of processor time between the signal that a worker has used
/// [`PoolSettings::processor_seconds`] and its end by the kernel.
pub const OVERTIME: u64 = 60;

impl PoolSettings {
    /// Appends the number of this build and all fields.
    pub(super) fn append_to(&self, out: PacketWriter) -> PacketWriter {
        out.number(BUILD)
            .text(&self.pool)
            .text(&self.ini_file)
            .number(self.max_requests)
            .number(self.max_memory)
            .pairs(&self.ini)
            .pairs(&self.admin_ini)
            .pairs(&self.environment)
            .text(&self.state_dir)
            .flag(self.repairs_state)
            .flag(self.allows_encoded_slashes)
            .flag(self.decodes_encoded_slashes)
            .text(&self.working_directory)
            .text(&self.chroot)
            .text(&self.chroot_folder)
            .flag(self.pcntl)
            .text(&self.sapi)
            .text(&self.modules)
            .flag(self.is_opaque)
            .flag(self.separates_workers)
            .number(self.processor_seconds)
            .number(self.slow_milliseconds)
            .number(self.slow_trace_depth)
            .text(&self.php_version)
            .text(&self.former_release)
            .text(&self.release)
    }

    /// Takes the fields after the number of the build.
    ///
    /// # Errors
    /// `InvalidData` for a packet that ends too early or has a wrong value.
    pub(super) fn take_from(input: &mut PacketReader<'_>) -> io::Result<PoolSettings> {
        Ok(PoolSettings {
            pool: input.text()?,
            ini_file: input.text()?,
            max_requests: input.number()?,
            max_memory: input.number()?,
            ini: input.pairs()?,
            admin_ini: input.pairs()?,
            environment: input.pairs()?,
            state_dir: input.text()?,
            repairs_state: input.flag()?,
            allows_encoded_slashes: input.flag()?,
            decodes_encoded_slashes: input.flag()?,
            working_directory: input.text()?,
            chroot: input.text()?,
            chroot_folder: input.text()?,
            pcntl: input.flag()?,
            sapi: input.text()?,
            modules: input.text()?,
            is_opaque: input.flag()?,
            separates_workers: input.flag()?,
            processor_seconds: input.number()?,
            slow_milliseconds: input.number()?,
            slow_trace_depth: input.number()?,
            php_version: input.text()?,
            former_release: input.text()?,
            release: input.text()?,
        })
    }
}
