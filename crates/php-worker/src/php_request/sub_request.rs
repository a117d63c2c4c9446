//! Including another URI of the site with `virtual()`: the front says what it leads to.

use std::ffi::{OsStr, c_int};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_ipc::request::{DecodedRequest, FixedText};
use howdah_ipc::sub_request::{SubRequestQuestion, SubRequestResult};

use super::{ClientGone, PhpRequest, ResponseStage, raw_bytes};
use crate::children;
use crate::chroot::{self, PoolRoot};
use crate::lookup;
use crate::sapi::raw;
use crate::text_table::TextTable;

/// The sub-requests of a script. While one runs, the next may begin within it.
#[derive(Debug, Default)]
pub(super) struct SubRequests {
    /// The scripts that are included now, the innermost last.
    scripts: Vec<IncludedScript>,
    /// The files that were found and not sent yet, the last one last. Callbacks that run before a
    /// file is sent may include another one.
    files: Vec<File>,
    /// The path or the reason of the last answer, followed by a NUL.
    about: Vec<u8>,
}

/// The texts of a script that another one includes. They end with it.
#[derive(Debug, Default)]
struct IncludedScript {
    /// The variables that the front told, and those that the script has set.
    variables: TextTable,
    notes: TextTable,
}

/// Something to include.
#[derive(Debug)]
enum Included {
    /// The path of a script.
    Script(Vec<u8>),
    /// A file that is open.
    File(File),
}

/// The most scripts that may be included within one another, which is Apache's number. A further
/// `virtual()` fails with a warning.
const MOST_NESTED: usize = 10;
/// Bytes that are read from a file at once.
const PIECE: usize = 64 * 1024;

impl PhpRequest<'_> {
    /// Finds what another URI of the site leads to. Returns what it is, one of the shim's numbers,
    /// and its path or the reason why there is nothing.
    pub(crate) fn sub_request(&mut self, uri: &[u8]) -> (c_int, raw::Text) {
        let can_ask = children::is_worker() && self.stage != ResponseStage::Ended;
        let client = &mut self.client;
        let ask = |question: &[u8]| if can_ask { client.ask(question) } else { None };
        let root = self.facts.root;
        let (found, about) = self.sub_requests.enter(&self.request, root, uri, ask);
        (found, raw_bytes(about))
    }

    /// Sends the file that was found, or ends the script that was.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) fn end_sub_request(&mut self, found: c_int) -> Result<(), ClientGone> {
        if found == raw::SCRIPT {
            self.sub_requests.leave();
            return Ok(());
        }
        let mut sub_requests = std::mem::take(&mut self.sub_requests);
        let sent = sub_requests.send(|piece| self.write(piece));
        self.sub_requests = sub_requests;
        sent
    }
}

impl IncludedScript {
    /// A script with these variables, as Apache changes them for what another page includes: its
    /// SCRIPT_NAME has the PATH_INFO as well, and the REQUEST_URI stays that of the client.
    fn with(root: Option<&PoolRoot>, variables: &[(&[u8], &[u8])]) -> IncludedScript {
        let find = |wanted: &[u8]| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map_or(&b""[..], |(_, value)| value)
        };
        let mut script = IncludedScript::default();
        for (name, value) in variables.iter().filter(|(name, _)| *name != b"REQUEST_URI") {
            script.variables.set(name, chroot::variable(root, name, value));
        }
        let whole = [find(b"SCRIPT_NAME"), find(b"PATH_INFO")].concat();
        script.variables.set(b"SCRIPT_NAME", &whole);
        script.variables.set(b"SERVER_PROTOCOL", b"INCLUDED");
        script
    }
}

impl SubRequests {
    /// Finds what `uri` leads to. `ask` puts a question to the front, which may have no answer.
    /// The variables of a script hold until [`SubRequests::leave`]. Returns what it is, one of the
    /// shim's numbers, and its path or the reason why there is nothing, followed by a NUL.
    fn enter(
        &mut self,
        request: &DecodedRequest<'_>,
        root: Option<&PoolRoot>,
        uri: &[u8],
        ask: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> (c_int, &[u8]) {
        let (found, mut about) = match self.find(request, root, uri, ask) {
            Ok(Included::Script(path)) => (raw::SCRIPT, path),
            Ok(Included::File(file)) => {
                self.files.push(file);
                (raw::FILE, Vec::new())
            }
            Err(reason) => (raw::NOTHING, reason.as_bytes().to_vec()),
        };
        about.push(0);
        self.about = about;
        (found, &self.about)
    }

    fn find(
        &mut self,
        request: &DecodedRequest<'_>,
        root: Option<&PoolRoot>,
        uri: &[u8],
        ask: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Included, &'static str> {
        if self.scripts.len() == MOST_NESTED {
            return Err("10 pages are included within one another already");
        }
        let question = question(request, uri).ok_or("error finding URI")?;
        let answer = ask(&question).ok_or("the server gives no answer")?;
        match SubRequestResult::decode(&answer).ok_or("the server gives no answer")? {
            SubRequestResult::File(path) => {
                let path = Path::new(OsStr::from_bytes(chroot::inside(root, path)));
                let file = File::open(path).map_err(|_| "PHP's user cannot read the file")?;
                Ok(Included::File(file))
            }
            SubRequestResult::Script { path, variables } => {
                self.scripts.push(IncludedScript::with(root, &variables));
                Ok(Included::Script(chroot::inside(root, path).to_vec()))
            }
            SubRequestResult::Other => {
                Err("a page of an upstream or a list of files cannot be included")
            }
            SubRequestResult::Status(300..=399 | 404) => Err("request execution failed"),
            SubRequestResult::Status(_) => Err("error finding URI"),
        }
    }

    /// Ends the innermost script.
    fn leave(&mut self) {
        self.scripts.pop();
    }

    /// Gives the content of the file that was found last to `write`.
    ///
    /// # Errors
    /// The client has gone.
    fn send(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), ClientGone>,
    ) -> Result<(), ClientGone> {
        let Some(mut file) = self.files.pop() else {
            return Ok(());
        };
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => write(&piece[..count])?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The content ends early, as with a file that has become shorter.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Returns the variable of the innermost script that has it, followed by a NUL: a script begins
    /// with the variables of the one that includes it. `None`: no script has it.
    pub(super) fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        self.scripts.iter().rev().find_map(|script| script.variables.find(name))
    }

    /// The variables of all scripts that are included now, the innermost script's first.
    pub(super) fn all_variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.scripts.iter().rev().flat_map(|script| script.variables.iter())
    }

    /// Returns the variables of the innermost script. `None` where none is included.
    pub(super) fn variables(&mut self) -> Option<&mut TextTable> {
        self.scripts.last_mut().map(|script| &mut script.variables)
    }

    /// Returns the notes of the innermost script. `None` where none is included.
    pub(super) fn notes(&mut self) -> Option<&mut TextTable> {
        self.scripts.last_mut().map(|script| &mut script.notes)
    }
}

/// Returns the question to the front: a request for `uri` by the same client. `None` for a URI that
/// no client may ask for.
pub(super) fn question(request: &DecodedRequest<'_>, uri: &[u8]) -> Option<Vec<u8>> {
    let variable = |wanted: &[u8]| {
        request.variables().find(|(name, _)| *name == wanted).map(|(_, value)| value)
    };
    let target = lookup::joined(request.fixed(FixedText::RequestUri).unwrap_or_default(), uri)?;
    let question = SubRequestQuestion {
        scheme: variable(b"REQUEST_SCHEME").unwrap_or(b"http"),
        host: variable(b"HTTP_HOST").unwrap_or_default(),
        target: &target,
        fields: request.fields().filter(|(name, _)| !is_of_the_message(name)).collect(),
    };
    question.encode()
}

/// Returns whether a field is about the client's own message, and not about the client.
fn is_of_the_message(name: &[u8]) -> bool {
    const FIELDS: [&str; 8] = [
        "host",
        "connection",
        "upgrade",
        "expect",
        "range",
        "transfer-encoding",
        "content-length",
        "te",
    ];
    FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}
