//! The properties that hold for any rules and any request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_http::{Request, Status};

use super::{RewriteOutcome, fixup, url};
use crate::client::ClientRequest;
use crate::evaluation_context::{EvaluationContext, SubRequestFacts};
use crate::host::{DirectiveHost, Probe, ProbeKind};
use crate::trace::Trace;
use crate::transaction::{FileKind, RequestState, Transaction};
use crate::{CompileContext, compile};

/// A file of directives, a path, a query and a request field's value, with zero bytes between them.
/// The rules end within a second or two, with results of bounded size, of which nothing can forge a
/// line of the response's head; and rules that are looked up do what they do one after the other.
pub fn rewriting(data: &[u8]) {
    let mut parts = data.splitn(4, |&byte| byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (lines, path, query, value) = (next(), next(), next(), next());
    let rules = [b"RewriteEngine On\n", lines].concat();
    let compiled = compile(&rules, &CompileContext::new("test", b"/srv/"));
    if compiled.mistake.is_some() {
        return;
    }
    let Some(config) = compiled.settings.rewrite else {
        return;
    };
    let mut request = Request::new();
    request.target = [b"/", path].concat();
    request.authority = b"own.example".to_vec();
    request.fields.push(b"Host", b"own.example");
    request.fields.push(b"User-Agent", value);
    let run = |is_traced: bool| {
        let mut transaction = Transaction {
            client: client(&request),
            state: state(path, query),
        };
        transaction.state.trace = is_traced.then(|| Box::new(Trace::default()));
        let begin = Instant::now();
        let outcome = fixup(&mut transaction, &config, &mut Half);
        let time = begin.elapsed();
        assert!(is_traced || time < Duration::from_secs(60), "{time:?}");
        bounded(&outcome, &transaction.state);
        let state = transaction.state;
        (outcome, state.args, state.env, state.error_fields, state.content_type, state.handler)
    };
    assert_eq!(run(false), run(true), "looked up, and one after the other");
}

fn bounded(outcome: &RewriteOutcome, state: &RequestState) {
    let (path, query) = (3 * 20_000, 3 * 70_000);
    assert!(state.args.as_ref().is_none_or(|args| args.len() <= query));
    for (_, line) in state.error_fields.iter() {
        assert!(crate::fields::can_be_sent(line));
    }
    match outcome {
        RewriteOutcome::Internal { uri, .. } => assert!(uri.len() <= path),
        RewriteOutcome::Redirect { status, location } => {
            assert!(status.is_redirection() && location.len() <= path + query);
            assert!(crate::fields::can_be_sent(location) && url::scheme(location).is_some());
        }
        RewriteOutcome::Proxy { url, .. } => assert!(url.len() <= path + query),
        RewriteOutcome::Declined | RewriteOutcome::Continue | RewriteOutcome::Status(_) => {}
    }
}

fn client(request: &Request) -> ClientRequest<'_> {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
    ClientRequest::new(request, address, address, 1_700_000_000_000_000)
}

fn state(path: &[u8], query: &[u8]) -> RequestState {
    let file = path.split(|&byte| byte == b';').next().unwrap_or_default();
    RequestState {
        uri: [b"/", path].concat(),
        args: (!query.is_empty()).then(|| query.to_vec()),
        document_root: Arc::from(&b"/srv"[..]),
        filename: [b"/srv/", file].concat(),
        // A semicolon marks the end of the file's name.
        path_info: match path.len() - file.len() {
            0 => Vec::new(),
            rest => [b"/", &path[path.len() - rest + 1..]].concat(),
        },
        found: if path.len().is_multiple_of(2) {
            FileKind::Missing
        } else {
            FileKind::File
        },
        ..RequestState::default()
    }
}

/// A context in which every second file exists.
struct Half;

impl EvaluationContext for Half {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
    fn lookup(&mut self, _from: &mut Transaction<'_>, uri: &[u8]) -> SubRequestFacts {
        SubRequestFacts {
            status: if uri.len().is_multiple_of(2) {
                Status::OK
            } else {
                Status::NOT_FOUND
            },
            filename: [b"/srv", uri].concat(),
            uri: uri.to_vec(),
            ..SubRequestFacts::default()
        }
    }
}

impl DirectiveHost for Half {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        (path.len().is_multiple_of(2)).then_some(Probe {
            kind: ProbeKind::File,
            size: path.len() as u64,
            modified: 0,
            mode: 0o644,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::mutation::Mutator;

    const SEEDS: &[&[u8]] = &[
        b"RewriteRule ^x/(.*)$ /y/$1?a=%{QUERY_STRING} [QSA,L]\0x/a b\0q=1\0Bot",
        b"RewriteCond %{HTTP_USER_AGENT} ^(B)ot [NC,OR]\nRewriteCond %1 =b\n\
          RewriteRule (.*) - [E=a:$1%1,CO=n:$1:d]\0x;y\0\0Bot",
        b"RewriteRule ^(.*)a(.*)$ $1b$2 [N,E=v:%{ENV:v}x]\nRewriteRule ^b - [F]\0aaaa\0\0",
        b"RewriteRule ^(.*)$ $1$1 [N=30]\0x\0\0",
        b"RewriteBase /b\nRewriteRule ^x$ y [R=301,NE,C]\n\
          RewriteRule !z http://own.example/$0 [P]\0x\0a?b\0",
        b"RewriteCond %{LA-U:REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} -s\n\
          RewriteRule ^ /i.php?u=%{REQUEST_URI} [B]\0x\0\0",
        b"RewriteCond expr \"%{REQUEST_URI} =~ /(x)/\"\n\
          RewriteRule (x) /$1%1${m:$1|%{HTTP:User-Agent}} [T=a/$1,H=b]\0x\0\0z",
        b"RewriteRule ^a$ /1\nRewriteRule ^b$ /2\nRewriteRule ^a /3 [S=2]\nRewriteRule ^c$ /4\n\
          RewriteRule ^d$ /5\n\
          RewriteRule ^e$ /6\nRewriteRule ^f$ /7\nRewriteRule ^g$ /8\nRewriteRule ^h$ /9\n\
          RewriteRule ^i$ /1\nRewriteRule ^j$ /1\n\
          RewriteRule ^k$ /1\nRewriteRule ^l$ /1\nRewriteRule ^m$ /1\nRewriteRule ^n$ /1\n\
          RewriteRule ^o$ /1\nRewriteRule ^p$ /1\n\
          RewriteRule ^q$ /1\nRewriteRule ^r$ /1\nRewriteRule ^s$ /1\nRewriteRule ^t$ /1\n\
          RewriteRule ^u$ /1\nRewriteRule ^v$ /1\n\
          RewriteRule ^w$ /1 [C]\nRewriteRule ^x$ /1\nRewriteRule !^y /1\0a\0\0",
    ];
    const WORDS: &[&[u8]] = &[
        b"RewriteRule ",
        b"RewriteCond ",
        b"%{REQUEST_URI}",
        b"%{ENV:a}",
        b"$1",
        b"%1",
        b"(.*)",
        b"[N]",
        b"[OR]",
        b"[L,QSA]",
        b"[C]",
        b"[R=301,NE]",
        b"[B=?]",
        b"[DPI]",
        b"http://o.example/",
        b"${m:",
        b"|",
        b"}",
        b"\\",
        b"?",
        b"\n",
        b"\0",
        b"^",
        b"!",
        b"-f",
        b"-",
        b"/../",
        b"%{LA-F:REQUEST_URI}",
        b"[S=1]",
        b"\"",
        b"\r\n",
        b"[E=a:%{ENV:a}%{ENV:a}b,N]",
        b"(a+)+$",
        b"ldap://h/?",
        b"//",
    ];

    #[test]
    fn seeds_are_rules() {
        for seed in SEEDS {
            let lines = seed.split(|&byte| byte == 0).next().unwrap();
            let text = format!("RewriteEngine On\n{}", String::from_utf8_lossy(lines));
            assert!(crate::testing::try_settings(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn rewriting_is_bounded_whatever_the_rules() {
        Mutator(5).mutations(SEEDS, WORDS, 2000, super::rewriting);
    }
}
