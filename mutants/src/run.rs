//! Tests, each by itself, with a mutant or without one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use howdah_sys::process::Pid;

use crate::build::{self, Tree};

/// A test without a mutant has this long.
const MOST: Duration = Duration::from_secs(120);
/// A test with a mutant has this long, and ten times as long as without it. A mutant can make a
/// loop endless; a busy machine should not look like one.
const LEAST: Duration = Duration::from_secs(3);
/// The limits of a test, for mutants that never stop to ask for more: KiB of address space, and
/// blocks of 512 bytes of a file.
const LIMITS: &str = "ulimit -c 0; ulimit -v 16777216; ulimit -f 8388608; exec \"$@\"";
/// The longest times of the tests that run together: first the fast ones.
const BATCHES: [Duration; 3] =
    [Duration::from_millis(25), Duration::from_millis(250), Duration::from_millis(2500)];
const SIGKILL: i32 = 9;

/// The outcome of a mutant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// A test fails.
    Caught,
    /// A test does not end.
    TimeOut,
    /// Every test that reaches it passes.
    Missed,
    /// No test reaches it.
    NotReached,
    /// It does not compile.
    NotBuilt,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Caught => "caught",
            Outcome::TimeOut => "time-out",
            Outcome::Missed => "missed",
            Outcome::NotReached => "not reached",
            Outcome::NotBuilt => "not built",
        })
    }
}

/// The tests of a crate, the fastest first.
pub struct Tests {
    tests: Vec<Test>,
    left_out: Vec<String>,
}

struct Test {
    program: PathBuf,
    name: String,
    time: Duration,
    /// Whether the test reaches the mutant of this number.
    reached: Vec<bool>,
}

/// Tests that run together.
struct Batch<'t> {
    program: &'t Path,
    names: Vec<&'t str>,
    longest: Duration,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Passed,
    Failed,
    TimeOut,
}

impl Tests {
    /// Runs every test without a mutant. Those that are slower than `slowest`, or fail, are left
    /// out.
    pub fn measure(
        tree: &Tree,
        programs: &[PathBuf],
        mutants: usize,
        slowest: Duration,
    ) -> Result<Tests, String> {
        let mut all = Tests { tests: vec![], left_out: vec![] };
        let report = tree.scratch.with_extension("reached");
        for program in programs {
            let listed = build::output(Command::new(program).args(["--list", "--format=terse"]))?;
            let listed = String::from_utf8_lossy(&listed.stdout);
            for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
                let _ = fs::remove_file(&report);
                let reported = Some(("MUTANTS_REACHED", report.as_os_str()));
                let (end, time) = run(tree, program, &[name], reported, MOST)?;
                if end != End::Passed || time > slowest {
                    all.left_out.push(name.to_owned());
                    continue;
                }
                let mut reached = vec![false; mutants + 1];
                for number in fs::read_to_string(&report).unwrap_or_default().lines() {
                    if let Ok(number) = number.parse::<usize>() {
                        reached[number] = true;
                    }
                }
                let (program, name) = (program.clone(), name.to_owned());
                all.tests.push(Test { program, name, time, reached });
            }
        }
        all.tests.sort_by_key(|test| test.time);
        eprintln!("mutants: {} tests; left out: {:?}", all.tests.len(), all.left_out);
        for Batch { program, names, longest } in all.batches(|_| true) {
            if run(tree, program, &names, None, MOST + longest)?.0 != End::Passed {
                return Err(format!("these tests fail when they run together: {names:?}"));
            }
        }
        Ok(all)
    }

    /// Groups the tests that take about as long and are in one program, the fastest first.
    fn batches(&self, is_wanted: impl Fn(&Test) -> bool) -> Vec<Batch<'_>> {
        let mut batches: BTreeMap<(usize, &Path), Batch<'_>> = BTreeMap::new();
        for test in self.tests.iter().filter(|test| is_wanted(test)) {
            let slowness = BATCHES.iter().take_while(|most| test.time > **most).count();
            let none = Batch {
                program: &test.program,
                names: vec![],
                longest: Duration::ZERO,
            };
            let batch = batches.entry((slowness, &test.program)).or_insert(none);
            batch.names.push(&test.name);
            batch.longest = batch.longest.max(test.time);
        }
        batches.into_values().collect()
    }

    /// The names of the tests that are not run.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Runs the tests that reach a mutant until one of them notices it. Tests that take about as
    /// long run together, because many of them only wait.
    pub fn try_mutant(&self, tree: &Tree, number: u32) -> Result<Outcome, String> {
        let mut outcome = Outcome::NotReached;
        let chosen = number.to_string();
        let variable = Some(("MUTANT", chosen.as_ref()));
        for Batch { program, names, longest } in self.batches(|test| test.reached[number as usize])
        {
            match run(tree, program, &names, variable, LEAST + longest * 10)?.0 {
                End::Passed => outcome = Outcome::Missed,
                End::Failed => return Ok(Outcome::Caught),
                End::TimeOut => return Ok(Outcome::TimeOut),
            }
        }
        Ok(outcome)
    }
}

/// Runs tests in a process of its own, whose children end with it.
fn run(
    tree: &Tree,
    program: &Path,
    names: &[&str],
    variable: Option<(&str, &std::ffi::OsStr)>,
    limit: Duration,
) -> Result<(End, Duration), String> {
    let _ = fs::remove_dir_all(&tree.scratch);
    fs::create_dir_all(&tree.scratch)
        .map_err(|error| format!("{}: {error}", tree.scratch.display()))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", LIMITS, "sh"]).arg(program);
    shell.args(["--exact", "--test-threads=8"]).args(names);
    shell.current_dir(tree.package()).env("CARGO_MANIFEST_DIR", tree.package());
    // A backtrace of each failure would take longer than most tests.
    shell.env("TMPDIR", &tree.scratch).env("RUST_BACKTRACE", "0").envs(variable);
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let start = Instant::now();
    let mut child = shell.spawn().map_err(|error| format!("sh: {error}"))?;
    let group = Pid::from_number(child.id()).ok_or("a process has no number")?;
    let end = wait(&mut child, start + limit);
    let time = start.elapsed();
    // The test's own children, and the test if it still runs.
    group
        .signal_group(SIGKILL)
        .and_then(|()| child.wait())
        .map_err(|error| error.to_string())?;
    Ok((end?, time))
}

fn wait(child: &mut Child, deadline: Instant) -> Result<End, String> {
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(End::Passed),
            Some(_) => return Ok(End::Failed),
            None if Instant::now() > deadline => return Ok(End::TimeOut),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}
