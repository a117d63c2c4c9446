//! System calls that an older kernel, or the sandbox of an older container, does not know.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use howdah_sys::process::refuse_new_privileges;
use howdah_sys::seccomp::{SeccompRules, SeccompVerdict, calls};

use crate::support::{Folder, Setup, has_php, is_root};
use crate::{WHO, config, is_who};

/// Runs `body` in a thread in which, and in whose children, `call` has that verdict.
fn where_a_call(name: &'static str, verdict: SeccompVerdict, body: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            let call = calls::number(name).unwrap();
            if !is_root() {
                refuse_new_privileges().unwrap();
            }
            let rules = SeccompRules::new(SeccompVerdict::Allow).set(&[call], &verdict);
            rules.compile().install().unwrap();
            body();
        });
        filtered.join().unwrap();
    });
}

/// Before Linux 5.6 the call is unknown; the sandbox of an older container forbids it.
#[test]
fn sites_are_served_without_openat2() {
    if !has_php() {
        return;
    }
    for verdict in [SeccompVerdict::NOT_THERE, SeccompVerdict::NOT_PERMITTED] {
        where_a_call("openat2", verdict, || {
            let folder = Folder::with_script(WHO);
            fs::create_dir(folder.path().join("a")).unwrap();
            fs::write(folder.path().join("a/text.txt"), "text").unwrap();
            symlink("a", folder.path().join("b")).unwrap();
            let server = Setup::config(&config(&folder, "", "")).start();
            assert!(is_who(&server.get("/")));
            for path in ["/a/text.txt", "/b/text.txt"] {
                assert_eq!(server.get(path).body, b"text", "{path}");
            }
            assert_eq!(server.get("/b/none.txt").status, 404);
            server.stop();
        });
    }
}
