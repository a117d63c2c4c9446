//! The arguments of this process as others see them in `/proc/PID/cmdline` and in `ps`.

use std::{fs, io, ptr, slice};

/// The memory in which the kernel put the program's arguments, each with a NUL at its end.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentMemory {
    address: usize,
    length: usize,
}

impl ArgumentMemory {
    /// Returns the memory of this process's own arguments. Children that do not execute another
    /// program have theirs in the same place.
    ///
    /// # Errors
    /// `/proc/self/stat` cannot be read, or says nothing of them (`proc(5)`: fields 48 and 49).
    pub fn own() -> io::Result<ArgumentMemory> {
        let stat = fs::read("/proc/self/stat")?;
        // A process can give itself a name with blanks and brackets.
        let end_of_name = stat.iter().rposition(|&byte| byte == b')');
        let fields = end_of_name.and_then(|end| str::from_utf8(&stat[end + 1..]).ok());
        let mut fields = fields.unwrap_or_default().split_ascii_whitespace().skip(FIELDS_BEFORE);
        let mut address = || fields.next().and_then(|field| field.parse::<usize>().ok());
        match (address(), address()) {
            (Some(start), Some(end)) if start > 0 && end > start => {
                Ok(ArgumentMemory { address: start, length: end - start })
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Writes `new` over the first place where the arguments contain `old`, of which it keeps the
    /// length: what is longer is cut, what is shorter is filled with blanks.
    pub fn replace(&self, old: &[u8], new: &[u8]) {
        // SAFETY: the kernel mapped this memory writable, on the stack of the first thread, and it
        // stays as long as the process. No reference to it lives outside of this function, since
        // the standard library copies arguments when it is asked for them.
        let arguments = unsafe {
            slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(self.address), self.length)
        };
        if old.is_empty() {
            return;
        }
        let place = arguments.windows(old.len()).position(|bytes| bytes == old);
        if let Some(at) = place {
            let bytes = new.iter().copied().chain(std::iter::repeat(b' '));
            arguments[at..at + old.len()]
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, byte)| *to = byte);
        }
    }
}

/// Fields of `/proc/self/stat` between the process's name and the start of its arguments.
const FIELDS_BEFORE: usize = 45;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_what_the_command_line_shows_and_takes_other_words() {
        let command_line = || fs::read("/proc/self/cmdline").unwrap();
        let memory = ArgumentMemory::own().unwrap();
        let before = command_line();
        assert_eq!(memory.length, before.len());
        let end = before.iter().position(|&byte| byte == 0).unwrap();
        let program = &before[..end];
        memory.replace(b"a word that is not there", b"x");
        memory.replace(b"", b"x");
        assert_eq!(command_line(), before);
        memory.replace(program, b"short");
        let blanks = b" ".repeat(program.len() - 5);
        assert_eq!(command_line(), [b"short", &blanks[..], &before[end..]].concat());
        memory.replace(&[b"short", &blanks[..]].concat(), &[program, b" and more"].concat());
        assert_eq!(command_line(), before);
    }
}
