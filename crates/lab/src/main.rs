//! `howdah-lab`: see the library.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    howdah_lab::command_line::main()
}
