//! Writes the reference manual of the configuration file to standard output.

fn main() {
    print!("{}", howdah_config::reference::markdown());
}
