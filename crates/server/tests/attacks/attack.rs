//! An attack of the catalogue, and its file.

use std::fs;
use std::path::PathBuf;

/// An attack: a file of `tests/attacks` and the way to run it.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Name of the file, without its ending.
    pub name: &'static str,
    pub means: Means,
    /// Site A has innocent visitors, too, and none of them may get foreign bytes.
    pub own_visitors: bool,
    /// Site A's pool has no `user`.
    pub default_user: bool,
    /// The folder above site A's document root belongs to site A's user.
    pub owns_home: bool,
    /// The processes that site A's pool may have; `None` for the usual limit.
    pub pids: Option<u64>,
    /// Rules of site A may hand requests on to a socket that the attack makes.
    pub has_upstream: bool,
    /// Site A has a preload script, which hangs once the attack has made the file `hold`.
    pub has_preload: bool,
    /// The pools must have shared memory of their own, which not every machine allows.
    pub needs_own_memory: bool,
}

/// The way to run an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// This many clients ask site A for the attack's script, again and again, and ignore the
    /// answers. The script prepares the attack when it is asked with `?prepare`.
    Script(usize),
    /// `php NAME.php` runs with the address of the server, the seconds and the scene's file. The
    /// same file is a script of site A, and prepares the attack when it is asked with `?prepare`.
    Client,
    /// The same as [`Means::Script`], with a library of the same name in C that the script loads
    /// with FFI.
    Library(usize),
    /// One client asks for the script. An extension of PHP of the same name, in C, runs in the
    /// zygote.
    Extension,
}

/// The parts of an attack file's header.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// The first line.
    pub title: String,
    pub attacker: String,
    pub must_not: String,
    pub checked: String,
}

impl Attack {
    /// An attack with the usual configuration.
    pub const fn new(name: &'static str, means: Means) -> Attack {
        Attack {
            name,
            means,
            own_visitors: false,
            default_user: false,
            owns_home: false,
            pids: None,
            has_upstream: false,
            has_preload: false,
            needs_own_memory: false,
        }
    }

    /// Leaves the attack out where pools cannot have shared memory of their own: it would use up
    /// the machine's.
    pub const fn on_own_memory(mut self) -> Attack {
        self.needs_own_memory = true;
        self
    }

    /// Lets rules of site A hand requests on to the socket `upstream.sock` beside what it has found
    /// out.
    pub const fn with_upstream(mut self) -> Attack {
        self.has_upstream = true;
        self
    }

    /// Gives site A a preload script, which hangs once the attack has made the file `hold` beside
    /// what it has found out.
    pub const fn with_preload(mut self) -> Attack {
        self.has_preload = true;
        self
    }

    /// Limits the processes of site A's pool.
    pub const fn with_pids(mut self, pids: u64) -> Attack {
        self.pids = Some(pids);
        self
    }

    /// Gives site A's user the folder above the document root.
    pub const fn owning_home(mut self) -> Attack {
        self.owns_home = true;
        self
    }

    /// Sends innocent visitors to site A, too.
    pub const fn with_own_visitors(mut self) -> Attack {
        self.own_visitors = true;
        self
    }

    /// Leaves site A's pool the user of pools that have none of their own.
    pub const fn as_default_user(mut self) -> Attack {
        self.default_user = true;
        self
    }

    /// The attack's script.
    pub fn file(&self) -> PathBuf {
        folder().join(format!("{}.php", self.name))
    }

    /// The attack's header.
    pub fn header(&self) -> Header {
        let text = fs::read_to_string(self.file()).unwrap();
        Header::parse(&text).unwrap_or_else(|missing| panic!("{}: {missing}", self.name))
    }
}

impl Header {
    /// Reads the first comment of a file: a title, and paragraphs that begin with `Attacker:`,
    /// `Must not happen:` and `Checked:`.
    pub fn parse(text: &str) -> Result<Header, String> {
        let start = text.find("/*").ok_or("the file has no header")? + 2;
        let end = text[start..].find("*/").ok_or("the header has no end")? + start;
        let lines: Vec<&str> = text[start..end]
            .lines()
            .map(|line| line.trim().trim_start_matches('*').trim())
            .filter(|line| !line.is_empty())
            .collect();
        let part = |label: &str| -> Result<String, String> {
            let first = lines
                .iter()
                .position(|line| line.starts_with(label))
                .ok_or_else(|| format!("the header does not say {label:?}"))?;
            let rest = lines[first + 1..].iter().take_while(|line| !is_label(line));
            let words: Vec<&str> = [&lines[first][label.len()..]]
                .into_iter()
                .chain(rest.copied())
                .map(str::trim)
                .collect();
            Ok(words.join(" ").trim().to_owned())
        };
        let title =
            lines.first().filter(|line| !is_label(line)).ok_or("the header has no title")?;
        Ok(Header {
            title: title.trim_end_matches('.').to_owned(),
            attacker: part(LABELS[0])?,
            must_not: part(LABELS[1])?,
            checked: part(LABELS[2])?,
        })
    }
}

const LABELS: [&str; 3] = ["Attacker:", "Must not happen:", "Checked:"];

fn is_label(line: &str) -> bool {
    LABELS.iter().any(|label| line.starts_with(label))
}

/// The folder of the attacks.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/attacks"))
}

#[test]
fn a_header_has_a_title_and_three_parts() {
    let text = "<?php\n/*\n * A title.\n *\n * Attacker: does this\n *   and that.\n * Must not \
        happen: harm.\n\
        * Checked: all.\n */\necho 1;";
    let expected = Header {
        title: "A title".into(),
        attacker: "does this and that.".into(),
        must_not: "harm.".into(),
        checked: "all.".into(),
    };
    assert_eq!(Header::parse(text), Ok(expected));
    assert!(Header::parse("<?php /* A title. Attacker: x */").is_err());
}
