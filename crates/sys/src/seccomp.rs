//! `seccomp(2)`: filters that decide, per system call, whether the kernel carries the call out.
//!
//! A filter is inherited by every process and program that comes after, and cannot be removed. The
//! kernel keeps one bit per system call for which the filter always says "allow" (since Linux
//! 5.11). Such a call costs a look at the bit. The filter's program runs for the other calls only.

pub mod calls;
mod program;

use std::collections::BTreeMap;
use std::io;

/// The kernel's answer to a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeccompVerdict {
    /// The call is carried out.
    Allow,
    /// The call fails with this `errno`.
    Refuse(i32),
    /// The verdict depends on an argument.
    Argument {
        /// Position of the argument, from 0. Only its low 32 bits are compared.
        index: u8,
        /// Bits of the argument that are compared.
        mask: u32,
        /// Values to which `then` applies.
        values: Vec<u32>,
        /// Verdict if the masked argument is one of `values`.
        then: Box<SeccompVerdict>,
        /// Verdict if the masked argument is none of `values`.
        otherwise: Box<SeccompVerdict>,
    },
    /// The verdict depends on whether an argument is 0, with all of its 64 bits: a null pointer.
    Null {
        /// Position of the argument, from 0.
        index: u8,
        /// Verdict if it is 0.
        then: Box<SeccompVerdict>,
        /// Verdict if it is not.
        otherwise: Box<SeccompVerdict>,
    },
}

impl SeccompVerdict {
    /// The call fails with `EPERM`, "not permitted".
    pub const NOT_PERMITTED: SeccompVerdict = SeccompVerdict::Refuse(libc::EPERM);
    /// The call fails with `ENOSYS`, as on a kernel that does not know the call. C libraries then
    /// use an older call.
    pub const NOT_THERE: SeccompVerdict = SeccompVerdict::Refuse(libc::ENOSYS);

    /// The call is carried out if an argument has one of these values.
    pub fn only(index: u8, values: &[u32]) -> SeccompVerdict {
        SeccompVerdict::Argument {
            index,
            mask: u32::MAX,
            values: values.to_vec(),
            then: Box::new(SeccompVerdict::Allow),
            otherwise: Box::new(SeccompVerdict::NOT_PERMITTED),
        }
    }

    /// The call is refused if an argument has one of these values.
    pub fn none_of(index: u8, values: &[u32]) -> SeccompVerdict {
        SeccompVerdict::Argument {
            index,
            mask: u32::MAX,
            values: values.to_vec(),
            then: Box::new(SeccompVerdict::NOT_PERMITTED),
            otherwise: Box::new(SeccompVerdict::Allow),
        }
    }

    /// The call is refused if an argument has one of the bits of `mask`.
    pub fn without_bits(index: u8, mask: u32) -> SeccompVerdict {
        SeccompVerdict::Argument {
            index,
            mask,
            values: vec![0],
            then: Box::new(SeccompVerdict::Allow),
            otherwise: Box::new(SeccompVerdict::NOT_PERMITTED),
        }
    }

    /// The call is carried out if an argument has all of the bits of `mask`.
    pub fn with_bits(index: u8, mask: u32) -> SeccompVerdict {
        SeccompVerdict::Argument {
            index,
            mask,
            values: vec![mask],
            then: Box::new(SeccompVerdict::Allow),
            otherwise: Box::new(SeccompVerdict::NOT_PERMITTED),
        }
    }
}

/// The verdict on each system call.
#[derive(Debug, Clone)]
pub struct SeccompRules {
    /// By number of the system call.
    verdicts: BTreeMap<u32, SeccompVerdict>,
    /// The verdict on all other calls.
    otherwise: SeccompVerdict,
}

impl SeccompRules {
    /// Rules with the same verdict on all calls.
    pub fn new(otherwise: SeccompVerdict) -> SeccompRules {
        SeccompRules { verdicts: BTreeMap::new(), otherwise }
    }

    /// Sets the verdict on `calls`, which are `SYS_` numbers. The last verdict on a call counts.
    pub fn set(mut self, calls: &[libc::c_long], verdict: &SeccompVerdict) -> SeccompRules {
        for &call in calls {
            if let Ok(number) = u32::try_from(call) {
                self.verdicts.insert(number, verdict.clone());
            }
        }
        self
    }

    /// Compiles the rules.
    ///
    /// # Panics
    /// If the program is longer than the kernel accepts, which no list of system calls can cause.
    pub fn compile(&self) -> SeccompFilter {
        let program = program::compile(&self.verdicts, &self.otherwise);
        assert!(program.len() <= 4096, "BPF_MAXINSNS");
        SeccompFilter { program }
    }
}

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct SeccompFilter {
    program: Vec<libc::sock_filter>,
}

impl SeccompFilter {
    /// Applies the filter to this thread and to all threads and processes that it creates from now
    /// on. The thread must have `no_new_privs` set, or the capability `CAP_SYS_ADMIN`.
    ///
    /// Programs do not get the kernel's mitigation of speculative store bypass, which older kernels
    /// tie to seccomp. It separates code within one process, and the filtered processes run the
    /// code of one tenant each.
    ///
    /// Async-signal-safe.
    ///
    /// # Errors
    /// The error of `seccomp(2)`: `ENOSYS` or `EINVAL` for a kernel without filters.
    pub fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: self.program.as_ptr().cast_mut(),
        };
        for flags in [libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0] {
            // SAFETY: the kernel copies the program, which lives until the call returns.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    flags,
                    &raw const program,
                )
            };
            if result == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            // Linux before 4.17 does not know the flag.
            if error.raw_os_error() != Some(libc::EINVAL) || flags == 0 {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Returns whether this kernel has filters.
pub fn is_available() -> bool {
    let allow: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const allow)
    };
    result == 0
}
