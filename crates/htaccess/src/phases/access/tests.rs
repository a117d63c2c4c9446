//! Cases as (directives of a folder and those below it, request, status), each tried with Apache.

mod require;
mod trees;

use std::net::IpAddr;
use std::sync::Arc;

use howdah_http::{Method, Request, Scheme, Status};

use super::check;
use crate::ClientRequest;
use crate::DirectiveSettings;
use crate::client::Unrepeatable;
use crate::evaluation_context::EvaluationContext;
use crate::host::{DirectiveHost, LookedUp, Owners, PasswordVerdict};
use crate::modules::auth::password;
use crate::testing::{request, settings, transaction};
use crate::trace::Trace;
use crate::transaction::{Denial, Transaction};

/// A context with files of users and groups, in which 192.0.2.1 is `client.example.org`.
#[derive(Default)]
pub(crate) struct Site {
    /// Whether names of hosts are not looked up.
    pub nameless: bool,
    /// Whether passwords are still to be compared.
    pub is_slow: bool,
    /// How often the file of groups was read.
    pub reads_of_groups: usize,
}

/// Everybody's password is `secret`.
const USERS: &[u8] =
    b"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nodd:secret\n";
const GROUPS: &[u8] = b"admins: ann\nstaff: ann bob\nwww-data: bob\n";
/// Of realm `Realm`, `ann` with password `secret`.
const DIGESTS: &[u8] = b"ann:Realm:ca111ad04a5b32af87475db6564b8cc9\n";

impl EvaluationContext for Site {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
}

impl DirectiveHost for Site {
    fn read(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        let content = match path {
            b"/users" => USERS,
            b"/groups" => {
                self.reads_of_groups += 1;
                GROUPS
            }
            b"/digests" => DIGESTS,
            _ => return None,
        };
        Some(content.into())
    }
    fn verify(&mut self, _: Unrepeatable, hash: &[u8], password: &[u8]) -> PasswordVerdict {
        match password::fits(hash, password) {
            _ if self.is_slow => PasswordVerdict::Later,
            true => PasswordVerdict::Yes,
            false => PasswordVerdict::No,
        }
    }
    fn host_name(&mut self, _: Unrepeatable, address: IpAddr) -> LookedUp<Vec<u8>> {
        match address.to_string().as_str() {
            _ if self.nameless => LookedUp::Never,
            "192.0.2.1" => LookedUp::Found(b"client.example.org".to_vec()),
            _ => LookedUp::Nothing,
        }
    }
    fn addresses(&mut self, _: Unrepeatable, name: &[u8]) -> LookedUp<Vec<IpAddr>> {
        match name {
            _ if self.nameless => LookedUp::Never,
            b"home.example" => LookedUp::Found(vec!["192.0.2.1".parse().unwrap()]),
            _ => LookedUp::Nothing,
        }
    }
    fn owners(&mut self, _: Unrepeatable, _path: &[u8]) -> Option<Owners> {
        Some(Owners {
            user: Some((*b"ann").into()),
            group: Some((*b"www-data").into()),
        })
    }
    fn nonce_secret(&mut self, _: Unrepeatable) -> Option<[u8; 32]> {
        Some([7; 32])
    }
}

/// The directives of a site with users.
pub(crate) const USERS_OF: &str =
    "AuthType Basic\nAuthName Realm\nAuthUserFile /users\nAuthGroupFile /groups\n";

/// The settings in force with the directives of folders, outermost first.
pub(crate) fn merged(folders: &[&str]) -> DirectiveSettings {
    let all = folders.iter().map(|lines| settings(lines));
    all.reduce(|above, below| above.merge(&below)).unwrap_or_default()
}

/// A request in a line: `GET`, `POST e1=1` with a variable, `GET ann:secret` with a password, `GET
/// https`, `GET @2001:db8::1` from another address.
pub(crate) struct Asked {
    request: Request,
    from: Option<IpAddr>,
    variables: Vec<String>,
}

impl Asked {
    pub(crate) fn new(line: &str) -> Asked {
        let mut words = line.split(' ');
        let mut asked = Asked {
            request: request("/x", ""),
            from: None,
            variables: Vec::new(),
        };
        asked.request.method = Method::from_bytes(words.next().unwrap().as_bytes()).unwrap();
        for word in words {
            if word == "https" {
                asked.request.scheme = Scheme::Https;
            } else if let Some(address) = word.strip_prefix('@') {
                asked.from = Some(address.parse().unwrap());
            } else if let Some((name, _)) = word.split_once('=') {
                asked.variables.push(name.to_owned());
            } else {
                let encoded = crate::base64::encode(word.as_bytes());
                let value = [&b"Basic "[..], &encoded].concat();
                asked.request.fields.push(b"Authorization", &value);
            }
        }
        asked
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Asked {
        self.request.fields.push(name.as_bytes(), value.as_bytes());
        self
    }

    pub(crate) fn transaction(&self) -> Transaction<'_> {
        let mut tx = transaction(&self.request);
        tx.state.method = self.request.method.clone();
        if let Some(address) = self.from {
            let (client, mut remote) = (tx.client, tx.client.remote());
            remote.set_ip(address);
            tx.client = ClientRequest::new(client.request(), remote, client.local(), client.time());
        }
        for name in &self.variables {
            tx.state.env.set(name.as_bytes(), b"1");
        }
        tx
    }
}

/// The status that a request gets; 200 where it may go on.
pub(crate) fn status(folders: &[&str], line: &str) -> u16 {
    let asked = Asked::new(line);
    code(check(&mut asked.transaction(), &merged(folders), &mut Site::default()))
}

pub(crate) fn code(outcome: Result<(), Denial>) -> u16 {
    match outcome {
        Ok(()) => 200,
        Err(Denial::Status(status)) => status.code(),
        Err(Denial::Later) => 0,
    }
}

/// Rows of directives, folders separated by a line `--`, and requests with their statuses.
pub(crate) fn run(rows: &[(&str, &[(&str, u16)])]) {
    for (text, requests) in rows {
        let folders: Vec<&str> = text.split("\n--\n").collect();
        for (line, expected) in *requests {
            assert_eq!(status(&folders, line), *expected, "{text}\n> {line}");
        }
    }
}

#[test]
fn without_directives_all_is_open() {
    assert_eq!(status(&[], "GET"), 200);
    assert_eq!(status(&["DirectoryIndex x"], "POST"), 200);
}

#[test]
fn who_authenticates_is_known_afterwards() {
    let settings = merged(&[USERS_OF, "Require valid-user"]);
    let asked = Asked::new("GET ann:secret");
    let mut tx = asked.transaction();
    assert_eq!(check(&mut tx, &settings, &mut Site::default()), Ok(()));
    assert_eq!(tx.state.user.as_deref(), Some(&b"ann"[..]));
    assert_eq!(tx.state.auth_type, Some("Basic"));
    let mut next = asked.transaction();
    super::inherit(&mut next.state, &tx.state);
    assert_eq!((next.state.user, next.state.auth_type), (tx.state.user, Some("Basic")));
}

#[test]
fn a_slow_password_puts_the_answer_off() {
    let settings = merged(&[USERS_OF, "Require valid-user"]);
    let mut context = Site { is_slow: true, ..Site::default() };
    let asked = Asked::new("GET ann:secret");
    let outcome = check(&mut asked.transaction(), &settings, &mut context);
    assert_eq!(outcome, Err(Denial::Later));
}

#[test]
fn what_happens_is_traced_and_no_password_is_in_it() {
    let settings = merged(&[
        USERS_OF,
        "Satisfy All\nAllow from all\n<RequireAll>\nRequire user bob\nRequire ip 192.0.2.1\n\
         </RequireAll>",
    ]);
    let asked = Asked::new("GET ann:secret");
    let mut tx = asked.transaction();
    tx.state.trace = Some(Box::<Trace>::default());
    assert_eq!(code(check(&mut tx, &settings, &mut Site::default())), 401);
    let events = &tx.state.trace.as_ref().unwrap().events;
    let lines: Vec<String> = events
        .iter()
        .map(|event| format!("{}: {}", event.text, event.outcome))
        .collect();
    assert_eq!(
        lines,
        [
            "Allow from all: matches",
            "Order Deny,Allow: granted",
            "Require user bob: denied without a user",
            "Require ip 192.0.2.1: granted",
            "<RequireAll>: denied without a user",
            "<RequireAny>: denied without a user",
            "user ann: authenticated",
            "Require user bob: denied",
            "<RequireAll>: denied",
            "<RequireAny>: denied",
        ]
    );
    let said = format!("{:?}{:?}", tx.state.complaints, lines);
    assert!(!said.contains("secret") && !said.contains("5en6G6"), "{said}");
    assert_eq!(
        tx.state.error_fields.value(b"WWW-Authenticate"),
        Some(&b"Basic realm=\"Realm\""[..])
    );
}

#[test]
fn the_status_is_forbidden_without_a_method() {
    assert_eq!(Status::FORBIDDEN.code(), status(&["Require method POST"], "GET"));
}
