//! Every stack that is installed here starts, answers the right bytes, and leaves nothing behind.

#![allow(clippy::unwrap_used)] // All of this is test code.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_lab::environment::{self, HELLO, Temporary};
use howdah_lab::load::{LoadProtocol, Question};
use howdah_lab::loads::sample;
use howdah_lab::probes::memory;
use howdah_lab::process::{accepts, tree};
use howdah_lab::stack::{Stack, StackEnvironment};
use howdah_lab::stacks;
use howdah_lab::tls::{self, KeyKind, PemFiles};

fn environment(folder: &Path) -> StackEnvironment {
    let root = folder.join("root");
    environment::write_documents(&root).unwrap();
    environment::write_ini(&folder.join("php.ini"), true).unwrap();
    StackEnvironment {
        root,
        ini: folder.join("php.ini"),
        php: environment::php_version().unwrap_or_else(|| "8.2".to_owned()),
        php_processes: 3,
        connections: 4,
        cores: 2,
        user: environment::user(),
        opcache: true,
        howdah: howdah(),
        tls: None,
        settings: Default::default(),
    }
}

/// Built beside this test.
fn howdah() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("howdah")
}

fn question(path: &str, body: Option<&[u8]>) -> Question {
    Question {
        path: path.to_owned(),
        body: body.map(<[u8]>::to_vec),
        ..Question::default()
    }
}

fn try_out(stack: &Rc<dyn Stack>, environment: &StackEnvironment, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    environment::give(folder, environment);
    let name = stack.name();
    let running = stack
        .start(environment, folder)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let port = running.port;
    let check = |path: &str, body: Option<&[u8]>| {
        sample::check(&question(path, body), port, 2)
            .unwrap_or_else(|wrong| panic!("{name}: {path}: {wrong}"));
    };
    // A server with room for few connections may still hold those that asked whether it accepts,
    // and PHP may still be starting.
    let until = Instant::now() + Duration::from_secs(120);
    let first = if stack.serves_php() {
        "/HelloWorld.php"
    } else {
        "/HelloWorld.txt"
    };
    let ask = || sample::ask_within(Duration::from_secs(15), &question(first, None), port);
    while let Err(wrong) = ask() {
        assert!(Instant::now() < until, "{name}: {wrong}\n{}", logged(folder));
        std::thread::sleep(Duration::from_millis(50));
    }
    check("/HelloWorld.txt", Some(HELLO));
    if stack.serves_php() {
        check("/HelloWorld.php", Some(HELLO));
        // The stacks of the htaccess scenario have document roots of their own, without it.
        let has_own_root = ["-rules", "-plain", "-again", "-redirects", "-bad-bots"];
        if !has_own_root.iter().any(|end| name.ends_with(end)) {
            check("/framework/index.php", Some(b"included 300 parts\n"));
        }
        let large = sample::ask(&question("/1MB.php", None), port).unwrap();
        assert_eq!((large.status, large.body.len()), (200, 1 << 20), "{name}");
    }
    assert!(
        stack.version(environment).chars().any(|c| c.is_ascii_digit()),
        "{name}: {}",
        stack.version(environment)
    );
    assert!(!running.configuration.is_empty(), "{name}");
    if ["howdah", "nginx-fpm", "apache-event-fpm"].contains(&name) {
        let memory = memory(&running.roots()).unwrap();
        let most = environment.php_processes as u64;
        // Howdah's pools have as many workers as the load needs.
        let least = if name == "howdah" { 1 } else { most };
        assert!((least..=most).contains(&memory.workers.1), "{name}: {memory:?}");
        assert!(0 < memory.front && memory.front < memory.all, "{name}: {memory:?}");
    }
    let processes = tree(&running.roots());
    assert!(!processes.is_empty());
    drop(running);
    assert!(!accepts(port), "{name} still listens");
    let left: Vec<u32> = processes.into_iter().filter(|pid| is_running(*pid)).collect();
    assert!(left.is_empty(), "{name} leaves {left:?}");
}

/// Returns the logs of a stack's programs.
fn logged(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().as_encoded_bytes().ends_with(b".log"));
    let tell = |file: std::fs::DirEntry| {
        let text = std::fs::read(file.path()).unwrap_or_default();
        format!("--- {}\n{}", file.path().display(), String::from_utf8_lossy(&text))
    };
    logs.map(tell).collect()
}

/// Returns whether a process runs. One that has ended and was not waited for does not.
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| !text.contains(") Z "))
}

/// The stacks of the scenario `https`.
const ENCRYPTED: [&str; 7] =
    ["howdah", "howdah-http3", "nginx-fpm", "apache-event-fpm", "lighttpd-fpm", "h2o", "caddy"];

#[test]
fn stacks_answer_over_tls_with_the_certificate_that_they_were_given() {
    let temporary = Temporary::new().unwrap();
    let pair = PemFiles::of(KeyKind::EcdsaP256, temporary.path()).unwrap();
    let environment = StackEnvironment {
        tls: Some(pair.clone()),
        ..environment(temporary.path())
    };
    for stack in stacks::named(&ENCRYPTED).unwrap() {
        let name = stack.name();
        if let Some(missing) = stack.missing(&environment) {
            howdah_skip::skip!("{name}: {missing}");
            continue;
        }
        let folder = temporary.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        environment::give(&folder, &environment);
        let running = stack
            .start(&environment, &folder)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let until = Instant::now() + Duration::from_secs(30);
        let found = loop {
            match tls::agreed(running.port, &pair) {
                Ok(found) => break found,
                Err(wrong) => assert!(Instant::now() < until, "{name}: {wrong}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(found.ends_with("X25519") && found.contains("AES_128_GCM"), "{name}: {found}");
        for protocol in [LoadProtocol::Https, LoadProtocol::Http2] {
            let file = Question {
                protocol,
                ..question("/HelloWorld.txt", Some(HELLO))
            };
            sample::check(&file, running.port, 2)
                .unwrap_or_else(|wrong| panic!("{name}: {protocol:?}: {wrong}"));
        }
        assert_eq!(running.target().http3, name == "howdah-http3");
    }
}

#[test]
fn every_stack_answers_and_leaves_nothing_behind() {
    let temporary = Temporary::new().unwrap();
    let environment = environment(temporary.path());
    let mut tried = 0;
    for stack in stacks::all() {
        match stack.missing(&environment) {
            Some(missing) => howdah_skip::skip!("{}: {missing}", stack.name()),
            None => {
                try_out(&stack, &environment, &temporary.path().join(stack.name()));
                tried += 1;
            }
        }
    }
    eprintln!("{tried} stacks tried");
    let folder = temporary.path().to_owned();
    drop(temporary);
    assert!(!folder.exists());
}
