//! Rounds on stacks that misbehave.

#![allow(clippy::unwrap_used)] // All of this is test code.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_lab::environment::Temporary;
use howdah_lab::load::{Load, Question, Ramp};
use howdah_lab::plan::{CellGroup, Effort, GroupConditions, Plan, PlannedCell};
use howdah_lab::process::{StackProgram, StartFailed, accepts, find, free_port, tree};
use howdah_lab::record::{Figure, Round, Run};
use howdah_lab::runner::{RunProgress, Runner};
use howdah_lab::stack::{Running, Stack, StackEnvironment};

/// A small server in Python that does what its name says.
#[derive(Debug)]
struct Fake(&'static str);

/// Answers `ok`; of kind `dies` it ends after 20 answers, of kind `wrong` it answers something
/// else.
const SERVER: &str = r#"
import http.server, os, sys
port, kind = int(sys.argv[1]), sys.argv[2]
if kind == "taken":
    import socket
    other = socket.create_server(("127.0.0.1", port))
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        count += 1
        if kind == "dies" and count > 20:
            os._exit(1)
        body = b"no" if kind == "wrong" else b"ok"
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

impl Stack for Fake {
    fn name(&self) -> &str {
        self.0
    }

    fn title(&self) -> &str {
        self.0
    }

    fn packages(&self, _php: &str) -> Vec<String> {
        Vec::new()
    }

    fn missing(&self, _ground: &StackEnvironment) -> Option<String> {
        (self.0 == "absent").then(|| "it is not installed".to_owned())
    }

    fn version(&self, _ground: &StackEnvironment) -> String {
        "1".to_owned()
    }

    fn start(&self, _ground: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let port = free_port().unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).arg(port.to_string()).arg(self.0);
        let mut program = StackProgram::start(&mut command, &folder.join("log"))?;
        // It is not enough that another server accepts there.
        program.wait_until(|| self.0 != "taken" && accepts(port))?;
        Ok(Running {
            programs: vec![program],
            reload: vec![None],
            ..Running::without_programs(port)
        })
    }
}

struct Silent;

impl RunProgress for Silent {
    fn group(&mut self, _group: &CellGroup, _stacks: &[&str]) {}
    fn round(
        &mut self,
        _cell: &PlannedCell,
        _stack: &str,
        _round: &Round,
        _done: usize,
        _all: usize,
    ) {
    }
    fn note(&mut self, _text: &str) {}
}

fn plan(stacks: &[&'static str]) -> Plan {
    let ramp = Ramp {
        clients: 4,
        keeps: false,
        reads: Duration::ZERO,
        recovery: Duration::ZERO,
        time: Duration::from_millis(400),
        timeout: Duration::from_secs(2),
    };
    let cell = PlannedCell {
        name: "ok".to_owned(),
        chart: "ok".to_owned(),
        at: None,
        axis: String::new(),
        figure: Figure::Hits,
        question: Question {
            path: "/".to_owned(),
            body: Some(b"ok".to_vec()),
            ..Question::default()
        },
        load: Load::Ramp(ramp),
        php: false,
        counts_calls: false,
        study: Vec::new(),
        base: None,
        most_rounds: None,
        in_turns: false,
    };
    let conditions = GroupConditions {
        php_processes: 1,
        connections: 4,
        opcache: true,
        alone: false,
        memory: None,
        swap: 0,
        database: false,
        tls: None,
        settings: Default::default(),
        search: None,
    };
    let stacks = stacks.iter().map(|name| Rc::new(Fake(name)) as Rc<dyn Stack>).collect();
    Plan {
        groups: vec![CellGroup {
            title: "fakes".to_owned(),
            stacks,
            conditions,
            cells: vec![cell],
        }],
        ..Plan::default()
    }
}

#[test]
fn bad_stacks_are_told_from_good_ones() {
    if find(&["python3"]).is_none() {
        howdah_skip::skip!("python3 is not here");
        return;
    }
    let temporary = Temporary::new().unwrap();
    let environment = StackEnvironment {
        root: temporary.path().into(),
        ini: "x".into(),
        php: "8.2".to_owned(),
        php_processes: 1,
        connections: 4,
        cores: 2,
        user: None,
        opcache: true,
        howdah: "x".into(),
        tls: None,
        settings: Default::default(),
    };
    let mut runner = Runner {
        environment,
        ini_without_opcache: "x".into(),
        database: None,
        folder: temporary.path().join("stacks"),
        effort: Effort { rounds: 2, ..Effort::QUICK },
        out: Some(temporary.path().join("out")),
        interrupted: Arc::default(),
        progress: &mut Silent,
    };
    let mut run = Run::default();
    assert!(
        runner
            .carry_out(&plan(&["good", "wrong", "dies", "absent", "taken"]), &mut run)
            .unwrap()
    );
    let results = &run.cells[0].results;
    assert_eq!(results["good"].valid().count(), 2, "{results:?}");
    let failure = results["wrong"].failure.as_deref().unwrap();
    assert!(failure.contains("a wrong body") && failure.contains("\"no\""), "{failure}");
    let void = results["dies"].rounds[0].void.as_deref().unwrap();
    assert!(void.contains("the server has died"), "{void}");
    assert_eq!(run.absent[0], ("absent".to_owned(), "it is not installed".to_owned()));
    let (name, why) = &run.absent[1];
    assert!(name == "taken" && why.contains("Address already in use"), "{why}");
    assert_eq!(run.absent.len(), 2);
    assert_eq!(tree(&[std::process::id()]).len(), 1, "nothing is left running");
    assert!(run.notes.iter().any(|note| note.contains("without absent")));
    assert_eq!(
        howdah_lab::report::read(&temporary.path().join("out"))
            .unwrap_or_default()
            .cells
            .len(),
        0,
        "format 0 is refused"
    );
}
