//! A short, repeatable run of the properties over made-up requests.

use super::resolution;

/// Pieces that mean something somewhere; made-up paths are strung together from them.
const PIECES: [&str; 34] = [
    "/",
    "//",
    "/./",
    "/../",
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "%2f",
    "%5c",
    "\\",
    "%00",
    "%",
    "%2",
    "%zz",
    "%25",
    "%c3%a9",
    "a",
    "index.php",
    "/index.php/",
    ".php",
    ".phtml",
    ".PHP",
    ".phps",
    ".htaccess",
    ".well-known",
    ".git",
    "?",
    "?q=1",
    "*",
    " ",
    "~",
    "+",
    "\u{e9}",
];

const HOSTS: [&str; 10] = [
    "example.org",
    "a.example",
    "..",
    "../..",
    "a/b.example",
    "[::1]:80",
    "UPPER.example.:81",
    "",
    "a_b.example",
    ".",
];

#[test]
fn nothing_leaves_the_root() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..15_000 {
        let mut data = HOSTS[random.below(HOSTS.len())].as_bytes().to_vec();
        data.extend_from_slice(b"\n/");
        for _ in 0..random.below(9) {
            data.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes());
        }
        data.push(b'\n');
        data.extend((0..random.below(6)).map(|_| random.below(4) as u8));
        resolution(&data);
    }
}

#[test]
fn any_bytes_at_all() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..15_000 {
        let data: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        resolution(&data);
        resolution(&[b"a.example\n/", &data[..]].concat());
    }
}

#[test]
fn long_paths_are_not_asked_about() {
    for length in [4000, 4085, 4086, 4087, 4088, 4096, 8000] {
        let target = [b"h\n/".to_vec(), vec![b'a'; length], b"\n\0".to_vec()].concat();
        resolution(&target);
    }
}

/// xorshift64: the same numbers on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
