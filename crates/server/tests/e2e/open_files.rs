//! The limit of open files: a server that cannot work with it is not started.

use crate::support::{Folder, HOWDAH, Process, Setup};
use crate::wire::Wire;

/// Two sites without PHP, on one thread.
fn config(threads: usize) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = {threads}\n[log]\naccess = \"off\"\n\
         [[site]]\nroot = \"public\"\nphp = false\n"
    )
}

/// A setup of the program, as an ordinary user with this limit of open files, soft and hard.
fn limited(folder: &Folder, limit: u32, setup: Setup) -> Setup {
    let script = format!("#!/bin/sh\nulimit -n {limit}\nexec \"$HOWDAH\" \"$@\"\n");
    let program = folder.program(&format!("limited-{limit}"), &script);
    let setup = setup.environment("HOWDAH", HOWDAH).program(&program);
    // Root may raise the limit.
    if Process::own().uid() == 0 {
        setup.user(65_534)
    } else {
        setup
    }
}

#[test]
fn a_server_with_too_few_open_files_is_not_started() {
    let folder = Folder::new();
    folder.file("public/a.txt", "content");
    let file = folder.file("howdah.toml", config(2));
    let path = file.to_str().unwrap();
    for task in ["check", "serve"] {
        let setup = Setup::with(&[task, "--config", path]);
        let (code, _, told) = limited(&folder, 64, setup).run();
        assert_ne!(code, Some(0), "{task}: {told}");
        for part in [
            "the limit of open files is 64, and the server needs at least ",
            "(threads 2, listeners 1, sites 1); raise the limit with `ulimit -n`",
        ] {
            assert!(told.contains(part), "{task}: {part} in {told}");
        }
    }
    // With the number that the message names, it serves 16 clients; one address has three quarters
    // of the connections.
    let (_, _, told) = limited(&folder, 64, Setup::with(&["check", "--config", path])).run();
    let least = told.split("at least ").nth(1).and_then(|rest| rest.split(' ').next());
    let least: u32 = least.unwrap().parse().unwrap();
    let server = limited(&folder, least, Setup::config(&file)).start();
    let mut clients: Vec<Wire> = (0..12).map(|_| Wire::connect(server.address())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/a.txt").text(), "content", "{}", server.log());
    }
    for client in &mut clients {
        assert_eq!(client.get("/none").status, 404, "{}", server.log());
    }
    assert!(!server.log().contains("open files as it may"), "{}", server.log());
}

#[test]
fn a_reload_that_needs_more_open_files_than_there_may_be_keeps_the_former_configuration() {
    let folder = Folder::new();
    folder.file("public/a.txt", "content");
    let file = folder.file("howdah.toml", config(1));
    let server = limited(&folder, 160, Setup::config(&file)).start();
    folder.file("howdah.toml", config(64));
    server.signal(howdah_sys::signal::SIGHUP);
    server.wait_for_log("the limit of open files is 160, and the server needs at least ");
    let mut client = Wire::connect(server.address());
    assert_eq!(client.get("/a.txt").text(), "content", "{}", server.log());
}
