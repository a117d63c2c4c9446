use super::fixup;
use crate::evaluation_context::EvaluationContext;
use crate::host::DirectiveHost;
use crate::merge::Merge;
use crate::testing::{request, settings, transaction};

/// The server's own environment has `HOME`.
struct Server;

impl EvaluationContext for Server {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
}

impl DirectiveHost for Server {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name == b"HOME").then(|| b"/home".to_vec())
    }
}

/// The variables after the files, outermost first, of a request that has `SEEN=before` already.
fn variables(files: &[&str]) -> String {
    let merged = files
        .iter()
        .map(|lines| settings(lines).env.unwrap_or_default().as_ref().clone())
        .reduce(|base, add| Merge::merge(&base, &add))
        .expect("a file");
    let request = request("/", "");
    let mut transaction = transaction(&request);
    transaction.state.env.push(b"SEEN", b"before");
    fixup(&mut transaction, &merged, &mut Server).unwrap();
    let pairs = transaction.state.env.iter().map(|(name, value)| [name, b"=", value].concat());
    String::from_utf8(pairs.collect::<Vec<_>>().join(&b' ')).unwrap()
}

#[test]
fn what_is_set_passed_and_taken_back() {
    let rows: &[(&[&str], &str)] = &[
        (&["SetEnv A 1"], "SEEN=before A=1"),
        (&["SetEnv A"], "SEEN=before A="),
        (&["SetEnv A \"one two\""], "SEEN=before A=one two"),
        (&["SetEnv A 1\nSetEnv a 2"], "SEEN=before A=2"),
        (&["SetEnv SEEN after"], "SEEN=before SEEN=after"),
        (&["SetEnv A 1\nUnsetEnv A B"], "SEEN=before"),
        (&["UnsetEnv A\nSetEnv A 1"], "SEEN=before A=1"),
        (&["UnsetEnv SEEN"], "SEEN=before"),
        (&["SetEnv A 1\nSetEnv B 2", "UnsetEnv a"], "SEEN=before B=2"),
        (&["SetEnv A 1", "UnsetEnv A\nSetEnv A 2"], "SEEN=before A=2"),
        (&["SetEnv A 1", "SetEnv A 2"], "SEEN=before A=2"),
        (&["SetEnv A 1", "UnsetEnv A", "SetEnv B 2"], "SEEN=before B=2"),
        (&["PassEnv HOME NONE"], "SEEN=before HOME=/home"),
        (&["SetEnv HOME x\nSetEnv NONE y", "PassEnv HOME NONE"], "SEEN=before NONE=y HOME=/home"),
        (&["PassEnv HOME\nSetEnv HOME x"], "SEEN=before HOME=x"),
        (&["SetEnv HOME x\nPassEnv HOME\nSetEnv HOME y"], "SEEN=before HOME=y"),
        (&["SetEnv HOME x\nSetEnv B y\nPassEnv HOME\nSetEnv HOME z"], "SEEN=before HOME=z B=y"),
        (&["SetEnv HOME x\nPassEnv NONE\nPassEnv HOME"], "SEEN=before HOME=/home"),
        (&["PassEnv HOME\nPassEnv home"], "SEEN=before HOME=/home"),
        (&["SetEnv HOME x\nPassEnv HOME\nSetEnv B y\nPassEnv HOME"], "SEEN=before HOME=/home B=y"),
    ];
    for (files, expected) in rows {
        assert_eq!(variables(files), *expected, "{files:?}");
    }
}
