//! Both servers, with a tree of its own for every set of rules, and how they are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::answer::{Answer, Place};
use crate::apache::{Apache, Host};
use crate::case::{Case, Request, Tree};
use crate::client::Client;
use crate::support::{Folder, Server, Setup};
use crate::tree::Forest;

/// The servers that take part.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    pub apache: bool,
    pub howdah: bool,
}

pub struct Servers {
    hosts: BTreeMap<Tree, String>,
    forest: Forest,
    apache: Option<Apache>,
    howdah: Option<Server>,
    _folder: Folder,
}

/// The answers to a request; `None` for a server that takes no part.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub apache: Answer,
    pub howdah: Answer,
}

/// Clients that ask at once: two cores have two servers to run.
const CLIENTS: usize = 3;

impl Servers {
    /// Plants the cases' trees and starts the servers.
    pub fn start<'c>(trees: impl Iterator<Item = &'c Tree>, sides: Sides) -> Servers {
        let folder = Folder::new();
        let forest = Forest::plant(folder.path());
        let (mut hosts, mut kinds) = (BTreeMap::new(), Vec::<String>::new());
        for tree in trees.collect::<BTreeSet<_>>() {
            let kind = kinds.iter().position(|kind| *kind == tree.overrides).unwrap_or_else(|| {
                kinds.push(tree.overrides.clone());
                kinds.len() - 1
            });
            let host = format!("c{:04}.o{kind}.test", hosts.len());
            forest.grow(&host, tree);
            hosts.insert(tree.clone(), host);
        }
        let apache = sides.apache.then(|| {
            let host = |(tree, name): (&Tree, &String)| Host {
                name: name.clone(),
                root: forest.root(name),
                overrides: tree.overrides.clone(),
            };
            Apache::start(folder.path(), &hosts.iter().map(host).collect::<Vec<_>>())
        });
        let howdah = sides.howdah.then(|| start_howdah(&folder, &forest, &kinds));
        Servers {
            hosts,
            forest,
            apache,
            howdah,
            _folder: folder,
        }
    }

    /// Asks both for everything, in as many threads as are good for it. The answers are in the
    /// order of the requests.
    pub fn ask_all(&self, questions: &[(&Tree, &Request)]) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let ask_some = || {
            let mut clients = self.clients();
            let mut found = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((tree, request)) = questions.get(at) else {
                    return found;
                };
                found.push((at, self.ask(&mut clients, tree, request)));
            }
        };
        let mut outcomes = vec![Outcome::default(); questions.len()];
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask_some)).collect();
            for (at, outcome) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
                outcomes[at] = outcome;
            }
        });
        outcomes
    }

    /// A connection to each server that takes part.
    pub fn clients(&self) -> Clients {
        Clients {
            apache: self.apache.as_ref().map(|apache| Client::new(apache.address())),
            howdah: self.howdah.as_ref().map(|howdah| Client::new(howdah.address())),
        }
    }

    /// Asks both for one thing.
    pub fn ask(&self, clients: &mut Clients, tree: &Tree, request: &Request) -> Outcome {
        let host = &self.hosts[tree];
        let ask = |client: &mut Option<Client>, address: Option<SocketAddr>| {
            let (Some(client), Some(address)) = (client, address) else {
                return Answer::default();
            };
            let place = Place {
                host: host.clone(),
                port: address.port(),
                root: self.root(tree).display().to_string(),
            };
            Answer::new(&place, request, client.ask(host, request))
        };
        let howdah = self.howdah.as_ref().map(Server::address);
        // The first time it evaluates the rules, the second time it notes what that depends on, the
        // third time it remembers.
        for _ in 0..2 {
            if matches!(&*request.method, "GET" | "HEAD") {
                ask(&mut clients.howdah, howdah);
            }
        }
        Outcome {
            apache: ask(&mut clients.apache, self.apache.as_ref().map(Apache::address)),
            howdah: ask(&mut clients.howdah, howdah),
        }
    }

    /// The document root of a tree.
    pub fn root(&self, tree: &Tree) -> std::path::PathBuf {
        self.forest.root(&self.hosts[tree])
    }

    /// Puts another tree's entries into the place of one, which has the same names.
    pub fn write(&self, place: &Tree, tree: &Tree) {
        self.forest.overwrite(&self.hosts[place], tree);
    }

    /// The last line that each wrote to its log about a host.
    pub fn logs(&self, tree: &Tree) -> String {
        let host = &self.hosts[tree];
        let logs = [
            ("Apache", self.apache.as_ref().map(Apache::log)),
            ("howdah", self.howdah.as_ref().map(Server::log)),
        ];
        let mut text = String::new();
        for (name, log) in logs {
            let log = log.unwrap_or_default();
            if let Some(line) = log.lines().rfind(|line| line.contains(host.as_str())) {
                writeln!(text, "  {name} wrote: {line}").unwrap();
            }
        }
        text
    }
}

/// Connections to both servers.
pub struct Clients {
    apache: Option<Client>,
    howdah: Option<Client>,
}

/// Every request of some cases, with its tree.
pub fn questions(cases: &[Case]) -> Vec<(&Tree, &Request)> {
    cases
        .iter()
        .flat_map(|case| case.requests.iter().map(|request| (&case.tree, request)))
        .collect()
}

fn start_howdah(folder: &Folder, forest: &Forest, kinds: &[String]) -> Server {
    let mut text =
        "listen = [\"127.0.0.1:0\"]\nthreads = 2\ncontrol = \"control\"\n[log]\naccess = \"off\"\n"
            .to_owned();
    for (number, overrides) in kinds.iter().enumerate() {
        text += &site(number, overrides, forest);
    }
    Setup::config(&folder.file("howdah.toml", text)).start()
}

/// A site for all trees with the same `AllowOverride`, with the base configuration that Apache has
/// here.
fn site(number: usize, overrides: &str, forest: &Forest) -> String {
    let root = forest.root("{host}");
    let workers = if overrides.is_empty() { 3 } else { 1 };
    format!(
        "[[site]]\nname = \"o{number}\"\nhosts = [\"*.o{number}.test\"]\nroot = \"{}\"\n\
         symlinks = \"follow\"\n\
         dot_names = [\".*\"]\nmodules = [\"brotli\", \"substitute\"]\nrefuse = [\".ht*\"]\n\
         refuse_backups = false\n{}[site.php]\nworkers = {workers}\nstate_dir = \"state{number}\"\n\
         request_timeout = \"5m\"\nqueue_timeout = \"5m\"\n",
        root.display(),
        allow_override(overrides),
    )
}

/// Howdah's keys for the words of `AllowOverride`, which may go on with `List` and the words of
/// `AllowOverrideList`.
fn allow_override(words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    let quoted = |words: &str| {
        let words: Vec<String> =
            words.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        words.join(", ")
    };
    let (classes, list) = words.split_once("\nAllowOverrideList ").unwrap_or((words, ""));
    let classes = if classes == "None" { "" } else { classes };
    format!("allow_override = [{}]\nallow_override_list = [{}]\n", quoted(classes), quoted(list))
}

/// Where the cases and the recorded answers are.
pub fn cases_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/htaccess/cases"))
}
