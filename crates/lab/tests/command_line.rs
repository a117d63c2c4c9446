//! `howdah-lab` as a person uses it, and what it says to bad input.

#![allow(clippy::unwrap_used)] // All of this is test code.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use howdah_lab::process::{StartFailed, tree};
use howdah_lab::record::{Figure, Run};
use howdah_lab::report;
use rustix::process::{Pid, Signal, kill_process};

const LAB: &str = env!("CARGO_BIN_EXE_howdah-lab");

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("howdah-lab-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(LAB).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The stacks that can be run here, for a test that needs some.
fn usable() -> Option<&'static str> {
    let howdah = Path::new(LAB).with_file_name("howdah");
    let ab = howdah_lab::process::find(&["ab"]);
    let missing = ["php"].iter().find(|name| howdah_lab::process::find(&[name]).is_none());
    if !howdah.is_file() || ab.is_none() || missing.is_some() {
        howdah_skip::skip!("howdah, ab (apache2-utils) or php is not here");
        return None;
    }
    Some("howdah,howdah-no-htaccess")
}

#[test]
fn bad_usage_is_answered_with_what_there_is() {
    let rows: [(&[&str], i32, &str); 10] = [
        (&["run", "phoronix"], 1, "there is no scenario phoronix; there are today, a2o-2009"),
        (&["run", "fastcgi-2006", "--stacks", "iis"], 1, "there is no stack iis; there are howdah"),
        (&["run", "site"], 1, "--root"),
        (&["run", "site", "--root", "/nonexistent/folder"], 1, "/nonexistent/folder"),
        (&["run", "ab"], 1, "--before FILE and --after FILE"),
        (
            &["run", "ab", "--before", "/nonexistent", "--after", "/nonexistent"],
            1,
            "/nonexistent: No such file",
        ),
        (&["run", "today", "--quick", "--cells", "NoSuchPage"], 1, "there is no cell NoSuchPage"),
        (&["report", "/nonexistent"], 1, "/nonexistent/run.json"),
        (&["diff", "/nonexistent", "/nonexistent"], 1, "/nonexistent/run.json"),
        (&["walk"], 2, "unrecognized subcommand"),
    ];
    for (arguments, code, text) in rows {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn list_and_doctor_say_what_there_is() {
    let list = said(&lab(&["list"]));
    assert!(list.contains("vps-256mb") && list.contains("apache-worker-fcgid"), "{list}");
    if howdah_lab::process::find(&["php"]).is_some() {
        let doctor = said(&lab(&["doctor"]));
        assert!(
            doctor.contains("noise: ")
                && doctor.contains("open files: ")
                && doctor.contains("Apache event")
                && doctor.contains("suEXEC is left out"),
            "{doctor}"
        );
    }
}

#[test]
fn a_run_is_kept_reported_and_compared() {
    let Some(stacks) = usable() else { return };
    let folder = Folder::new("run");
    let out = folder.0.join("run").to_string_lossy().into_owned();
    let arguments =
        ["run", "fastcgi-2006", "--quick", "--rounds", "2", "--stacks", stacks, "--out", &out];
    let output = lab(&arguments);
    assert!(output.status.success(), "{}", said(&output));
    let run = report::read(Path::new(&out)).unwrap();
    assert_eq!((run.cells.len(), run.stacks.len()), (2, 2), "{}", said(&output));
    for cell in &run.cells {
        for (stack, outcome) in &cell.results {
            assert_eq!(
                (outcome.valid().count(), &outcome.failure),
                (2, &None),
                "{stack} {}",
                said(&output)
            );
        }
    }
    let html = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    for part in [
        "class=bars",
        "howdah.toml",
        "the study: prefork + mod_php",
        "prefers-color-scheme",
        "application/json",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(
        !html.contains("http-equiv") && !html.contains("src=\"http"),
        "the report needs nothing from elsewhere"
    );
    let chart = std::fs::read_to_string(Path::new(&out).join("chart.svg")).unwrap();
    assert!(chart.contains("opcode cache off"), "{chart}");
    // The run is complete: the same command only draws the report again.
    assert!(lab(&arguments).status.success());
    assert_eq!(report::read(Path::new(&out)).unwrap(), run);
    assert!(said(&lab(&["report", &out])).contains("report.html"));
    assert!(said(&lab(&["diff", &out, &out])).contains("+0.0 %"));
    let other = lab(&["run", "allowoverride", "--quick", "--stacks", stacks, "--out", &out]);
    assert!(said(&other).contains("holds another run (fastcgi-2006)"), "{}", said(&other));
}

#[test]
fn two_binaries_are_compared() {
    let howdah = Path::new(LAB).with_file_name("howdah");
    if usable().is_none() || howdah_lab::process::find(&["wrk"]).is_none() {
        howdah_skip::skip!("howdah or wrk is not here");
        return;
    }
    let folder = Folder::new("ab");
    let out = folder.0.join("run").to_string_lossy().into_owned();
    let howdah = howdah.to_string_lossy().into_owned();
    let output = lab(&[
        "run",
        "ab",
        "--before",
        &howdah,
        "--after",
        &howdah,
        "--cells",
        "HelloWorld.txt,10x100KB.php",
        "--rounds",
        "2",
        "--seconds",
        "1",
        "--turns",
        "--out",
        &out,
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let run = report::read(Path::new(&out)).unwrap();
    let cells: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(cells, ["10x100KB.php", "HelloWorld.txt"], "{}", said(&output));
    for cell in &run.cells {
        for stack in ["before", "after"] {
            let outcome = &cell.results[stack];
            assert_eq!(outcome.valid().count(), 2, "{stack}: {}", said(&output));
        }
    }
    let versions: Vec<&str> = run.stacks.iter().map(|stack| stack.version.as_str()).collect();
    assert!(versions[0].contains("SHA-256") && versions[0] == versions[1], "{versions:?}");
    let table = std::fs::read_to_string(Path::new(&out).join("table.md")).unwrap();
    for part in ["ratio to before", "| after | CPU µs/request |", "above 1 is better"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn the_cost_of_htaccess_files_is_measured() {
    if usable().is_none() || howdah_lab::process::find(&["wrk"]).is_none() {
        howdah_skip::skip!("howdah or wrk is not here");
        return;
    }
    let folder = Folder::new("htaccess");
    let out = folder.0.join("run").to_string_lossy().into_owned();
    let stacks = "howdah-plain,howdah-drupal-rules,howdah-folders";
    let arguments = ["run", "htaccess", "--quick", "--rounds", "1", "--seconds", "1", "--stacks"];
    let output =
        lab(&[&arguments[..], &[stacks, "--cells", "HelloWorld.txt,many", "--out", &out]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let run = report::read(Path::new(&out)).unwrap();
    let [page, folders] = run.cells.as_slice() else {
        panic!("{}", said(&output));
    };
    for stack in ["howdah-plain", "howdah-drupal-rules"] {
        let rates = page.results[stack].values(Figure::RequestsPerSecond);
        assert!(rates.len() == 1 && rates[0] > 0.0, "{stack}: {}", said(&output));
    }
    let folders = &folders.results["howdah-folders"];
    for figure in [Figure::FirstRequest, Figure::SecondRequest, Figure::GrownPss] {
        assert_eq!(folders.values(figure).len(), 1, "{figure:?}: {}", said(&output));
    }
}

#[test]
fn a_fast_page_is_measured_beside_a_slow_one() {
    if usable().is_none() {
        howdah_skip::skip!("howdah is not here");
        return;
    }
    let folder = Folder::new("fairness");
    let out = folder.0.join("run").to_string_lossy().into_owned();
    let arguments = ["run", "fairness", "--quick", "--rounds", "1", "--seconds", "1"];
    let chosen = ["--stacks", "howdah-lanes", "--cells", "HelloWorld.php beside waiting"];
    let output = lab(&[&arguments[..], &chosen, &["--out", &out]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let run = report::read(Path::new(&out)).unwrap();
    let [cell] = run.cells.as_slice() else {
        panic!("{}", said(&output));
    };
    for figure in [Figure::Latency99, Figure::Latency99Idle] {
        let values = cell.results["howdah-lanes"].values(figure);
        assert!(values.len() == 1 && values[0] > 0.0, "{figure:?}: {}", said(&output));
    }
    let configuration = &run.stacks[0].configuration["howdah.toml"];
    assert!(configuration.contains("[[site.php.lane]]"), "{configuration}");
}

#[test]
fn tls_is_measured_over_every_protocol() {
    if usable().is_none() || howdah_lab::process::find(&["h2load"]).is_none() {
        howdah_skip::skip!("howdah or h2load is not here");
        return;
    }
    let folder = Folder::new("https");
    let out = folder.0.join("run").to_string_lossy().into_owned();
    let arguments = ["run", "https", "--quick", "--rounds", "1", "--seconds", "1"];
    let cells = "resumed handshakes with ECDSA,HelloWorld.txt over HTTP/3";
    let output =
        lab(&[&arguments[..], &["--stacks", "howdah", "--cells", cells, "--out", &out]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let run = report::read(Path::new(&out)).unwrap();
    let [handshakes, files] = run.cells.as_slice() else {
        panic!("{}", said(&output));
    };
    for (cell, stack) in [(handshakes, "howdah"), (files, "howdah"), (files, "howdah-http3")] {
        let rates = cell.results[stack].values(Figure::PerCpuSecond);
        assert!(rates.len() == 1 && rates[0] > 0.0, "{stack}: {}", said(&output));
    }
    let configuration = &run.stacks[0].configuration["howdah.toml"];
    assert!(configuration.contains("tls = { cert ="), "{configuration}");
}

#[test]
fn an_interrupted_run_keeps_what_was_measured_and_leaves_nothing() {
    let Some(stacks) = usable() else { return };
    let folder = Folder::new("interrupt");
    let out = folder.0.join("run");
    let mut child = Command::new(LAB)
        .args(["run", "fastcgi-2006", "--quick", "--rounds", "60", "--stacks", stacks, "--out"])
        .arg(&out)
        .env("TMPDIR", &folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let measured = wait_for_a_round(&mut child, &out);
    let below = tree(&[child.id()]);
    assert!(below.len() > 2);
    // Twice: the second must not leave servers behind either.
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let run = report::read(&out).unwrap();
    assert!(
        run.cells[0].results.values().map(|outcome| outcome.rounds.len()).sum::<usize>()
            >= measured
    );
    let runs = |pid: &&u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|text| !text.contains(") Z "))
    };
    assert_eq!(below.iter().filter(runs).count(), 0);
    let left: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["run"], "{}", said(&output));
}

fn wait_for_a_round(child: &mut Child, out: &Path) -> usize {
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let run: Option<Run> = report::read(out).ok();
        let measured = run
            .iter()
            .flat_map(|run| &run.cells)
            .flat_map(|cell| cell.results.values())
            .map(|outcome| outcome.rounds.len())
            .sum();
        if measured > 0 {
            return measured;
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < deadline, "no round in three minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A small file system in a mount namespace of its own, which ends with the run.
#[test]
fn a_full_disk_ends_the_run_with_a_message_and_leaves_nothing() {
    let Some(stacks) = usable() else { return };
    let folder = Folder::new("disk");
    let disk = folder.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=4k none \"$1\" && exec \"$2\" run fastcgi-2006 --quick \
        --stacks \"$3\" --out \"$1/run\"";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&disk)
        .args([LAB, stacks])
        .env("TMPDIR", &folder.0)
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else { return };
    let text = said(&output);
    if text.contains("unshare failed") || text.contains("mount:") {
        howdah_skip::skip!("only root may mount");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot write") && text.contains("No space left"), "{text}");
    let left: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["disk"], "{text}");
}

#[test]
fn nothing_is_installed_without_a_yes() {
    // Without a terminal nothing is confirmed; where nothing is missing, nothing is asked.
    let text = said(&lab(&["setup"]));
    assert!(
        text.contains("nothing was installed") || text.contains("everything is installed"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = Folder::new("full");
    let file = folder.0.join("file");
    std::fs::write(&file, "").unwrap();
    let error = howdah_lab::runner::write_run(&file.join("run"), &Run::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("Not a directory"), "{error}");
    let full = Path::new("/dev/full");
    if full.exists() {
        // A disk without room: the file that is written first is a link to it.
        std::os::unix::fs::symlink(full, folder.0.join("run.json.part")).unwrap();
        let error = howdah_lab::runner::write_run(&folder.0, &Run::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot write") && error.contains("No space left"), "{error}");
        assert!(!folder.0.join("run.json").exists());
    }
    let text = StartFailed::Execute("x".to_owned(), std::io::Error::other("y")).to_string();
    assert_eq!(text, "cannot start x: y");
}
