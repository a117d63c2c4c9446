//! Hands everything over to another program: the new version of this one, executed with `exec` in
//! the same process.
//!
//! The state for the successor is text in a memory file. An environment variable names its
//! descriptor. The successor ignores lines that it does not know, because versions may differ.
//!
//! ```text
//! next 4                              number of the next generation
//! state /tmp/howdah-77-0a1b2c3d       folder to remove at the end
//! tickets 4                           descriptor of a memory file with the keys of session tickets
//! control 5 /run/howdah.sock          descriptor, path
//! listener 6 127.0.0.1:0              descriptor, address as configured
//! socket 7 /run/howdah/web.sock       descriptor, path: a listener as well
//! admin-listener 8 127.0.0.1:9180     as `listener` and `socket`, for monitors
//! datagram-secret 9                   descriptor of a memory file with the keys of HTTP/3
//! mailbox 10 11                       reader and writer of packets between generations
//! datagrams 12 127.0.0.1:443          descriptor of a UDP socket, address
//! connections 77                      connections that were accepted since the start
//! limits http2.pings:3                how often clients have met which limits of protocols
//! counters 0:12,1:3400 shop           numbers of a site, its name
//! generation 3 serving                number, `serving` or `draining`; what follows belongs to it
//! front 1234 9                        process, descriptor of its channel
//! pool 1235 10 11 shop                zygote, descriptors of its socket and its log, name
//! place 4 2                           that pool's position at its front, its zygote's number there
//! outputs 12                          descriptor of the socket with its workers' pipes
//! lender 12 0123456789abcdef          descriptor to write that pool's log, number of its settings
//! scripts 33 12 shop                  user, descriptor of a pipe with a list of scripts, name
//! shared-memory 13 14 15 shop         descriptors of a pool's shared memory, name
//! worker-memory 9437184 1024 7 8 shop numbers of a [`PoolMeasurement`], name
//! held refused shop…                  a release that is not served: site, folders, reason
//! closed shop                         name of a site with files that cannot be used
//! authorities 13 /etc/ssl/clients.pem descriptor of a memory file with the content of that file
//! pairs 14                            descriptor of a memory file with certificates and keys
//! ```

mod inheritance;

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use howdah_sys::descriptor;
use howdah_sys::memory;
use howdah_sys::process;

#[cfg(test)]
pub(super) use self::inheritance::tests;
pub(super) use self::inheritance::{
    FrontPlace, Inheritance, InheritedDatagrams, InheritedGeneration, InheritedLender,
    InheritedList, InheritedPool,
};
use super::environment::{Environment, variable};

/// The environment variable with the number of the memory file's descriptor.
const VARIABLE: &str = "HOWDAH_TAKE_OVER";

/// Builds the lines of the memory file, and collects the descriptors that they name.
#[derive(Debug, Default)]
pub(super) struct Handover<'d> {
    text: Vec<u8>,
    descriptors: Vec<BorrowedFd<'d>>,
}

impl<'d> Handover<'d> {
    /// Adds a line: words, descriptors, and a final text that may contain spaces.
    ///
    /// # Errors
    /// `rest` has a line feed.
    pub(super) fn line(
        &mut self,
        words: &[&str],
        descriptors: &[BorrowedFd<'d>],
        rest: &OsStr,
    ) -> io::Result<()> {
        if rest.as_bytes().contains(&b'\n') {
            let error =
                format!("cannot hand over {:?}: the name contains a line feed", rest.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let numbers = descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string());
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).chain(numbers).collect();
        self.text.extend_from_slice(words.join(" ").as_bytes());
        if !rest.is_empty() {
            self.text.push(b' ');
            self.text.extend_from_slice(rest.as_bytes());
        }
        self.text.push(b'\n');
        self.descriptors.extend_from_slice(descriptors);
        Ok(())
    }

    /// Executes the program at the path of this one. Returns only if that failed, without effect.
    pub(super) fn execute(self, environment: &Environment) -> io::Error {
        let file = match self.file() {
            Ok(file) => file,
            Err(error) => return error,
        };
        let (arguments, variables) = match (arguments(), variables(environment, Some(&file))) {
            (Ok(arguments), Ok(variables)) => (arguments, variables),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let all = || self.descriptors.iter().copied().chain([file.as_fd()]);
        let inherited =
            all().try_for_each(|descriptor| descriptor::set_inheritable(descriptor, true));
        let error = match inherited {
            Ok(()) => process::execute(&environment.executable, &arguments, &variables),
            Err(error) => error,
        };
        for descriptor in all() {
            // The opposite call has succeeded before, therefore this one cannot fail.
            let _ = descriptor::set_inheritable(descriptor, false);
        }
        error
    }

    fn file(&self) -> io::Result<File> {
        let mut file = File::from(memory::sealed_file(c"howdah", self.text.len())?);
        file.write_all(&self.text)?;
        file.rewind()?;
        Ok(file)
    }
}

/// The environment variables for another run of this program.
///
/// # Errors
/// A variable has a NUL byte.
pub(super) fn variables(
    environment: &Environment,
    inheritance: Option<&File>,
) -> io::Result<Vec<CString>> {
    let mut variables = Vec::new();
    for (name, value) in environment.variables.iter().filter(|(name, _)| name != VARIABLE) {
        variables.push(variable(name, value)?);
    }
    if let Some(file) = inheritance {
        for (name, value) in &environment.for_manager {
            variables.push(variable(name, value)?);
        }
        variables.push(variable(OsStr::new(VARIABLE), file.as_raw_fd().to_string().as_ref())?);
    }
    Ok(variables)
}

/// The arguments of this process.
fn arguments() -> io::Result<Vec<CString>> {
    std::env::args_os()
        .map(|argument| Ok(CString::new(argument.as_bytes())?))
        .collect()
}
