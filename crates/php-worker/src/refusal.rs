//! The answers for scripts that PHP does not open.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// The answer for a script that PHP did not open.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptRefusal {
    /// Status of the response. With 503 the worker cannot open the next script either.
    pub status: i32,
    /// Message for the log.
    pub reason: &'static str,
    /// Content of the response.
    pub page: &'static CStr,
}

impl ScriptRefusal {
    /// Finds out why PHP did not open the script, by opening it.
    pub fn of(script: &Path) -> ScriptRefusal {
        ScriptRefusal::because(File::open(script).err())
    }

    /// `error` is that of opening the script; `None` if PHP itself has refused it, for example for
    /// `open_basedir`.
    fn because(error: Option<io::Error>) -> ScriptRefusal {
        let number = error.as_ref().and_then(io::Error::raw_os_error);
        match number {
            Some(libc::EMFILE | libc::ENFILE) => ScriptRefusal {
                status: 503,
                reason: "too many files are open, left by earlier scripts; the worker is replaced",
                page: c"Service Unavailable.\n",
            },
            Some(libc::EACCES) => ScriptRefusal {
                status: 403,
                reason: "script is not readable",
                page: c"Access denied.\n",
            },
            _ => ScriptRefusal {
                status: 404,
                reason: "script not found",
                page: c"File not found.\n",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_whose_fault_it_is() {
        for (error, status) in [
            (Some(libc::EMFILE), 503),
            (Some(libc::ENFILE), 503),
            (Some(libc::EACCES), 403),
            (Some(libc::ENOENT), 404),
            (None, 404),
        ] {
            let refusal = ScriptRefusal::because(error.map(io::Error::from_raw_os_error));
            assert_eq!(refusal.status, status, "{error:?}");
        }
    }
}
