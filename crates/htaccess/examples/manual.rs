//! Writes the reference manual of `.htaccess` to standard output.

fn main() {
    print!("{}", howdah_htaccess::manual::markdown());
}
