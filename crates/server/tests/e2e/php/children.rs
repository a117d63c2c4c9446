//! Scripts that create processes: the answer comes from the worker alone.

use crate::site::Site;
use crate::support::{Process, has_php, wait_until};
use crate::wire::Wire;

const PHP: &str =
    "mode = \"static\"\nworkers = 3\npcntl = true\nadmin_ini = { \"ffi.enable\" = \"1\" }";
const OK: (&str, &str) = ("ok.php", "<?php echo 'ok ', $_GET['n'], str_repeat('.', 3000);");

/// Ways to create a process, each of which then goes on with the script.
const FORKS: (&str, &str) = (
    "forks.php",
    "<?php function create(string $how): int {
        if ($how === 'pcntl') return pcntl_fork();
        $c = FFI::cdef('int fork(void); long syscall(long, ...);');
        // A raw `clone(SIGCHLD)`, which no library notices.
        return $how === 'ffi' ? $c->fork() : $c->syscall(php_uname('m') === 'x86_64' ? 56 : 220, \
        17, 0, 0, 0, 0);
    }",
);

fn site() -> Site {
    let script = |after: &str| {
        format!(
            "<?php require 'forks.php'; echo 'begun ', $_GET['n'], ' ';
             $child = create($_GET['how']);
             {after}
             if ($child) {{ pcntl_waitpid($child, $status); echo pcntl_wexitstatus($status), \
             str_repeat(',', 5000), ' ended ', $_GET['n']; }}"
        )
    };
    let files = [
        ("exit.php", script("if (!$child) exit(7);")),
        (
            "echo.php",
            script("if (!$child) { echo str_repeat('foreign', 9999); flush(); exit(7); }"),
        ),
        (
            "head.php",
            script(
                "if (!$child) { http_response_code(404); header('X-Foreign: 1'); echo 'x'; \
                 flush(); fastcgi_finish_request(); exit(7); }",
            ),
        ),
        ("goes_on.php", script("")),
        ("throws.php", script("if (!$child) throw new Exception('in the child');")),
        (
            "shutdown.php",
            script(
                "if (!$child) { register_shutdown_function(fn() => touch($_GET['out'])); \
                 exit(7); }",
            ),
        ),
        (
            "executes.php",
            script("if (!$child) { pcntl_exec('/bin/sh', ['-c', 'echo foreign; exit 7']); }"),
        ),
        ("killed.php", script("if (!$child) posix_kill(getmypid(), 9);")),
    ];
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .chain([OK, FORKS])
        .collect();
    Site::with_php(&files, PHP)
}

/// Every answer is that of its own request, whatever the children of scripts do, and no child is
/// left over.
#[test]
fn a_forked_child_neither_answers_nor_serves_other_visitors() {
    if !has_php() {
        return;
    }
    let site = site();
    let out = site.scratch().join("shut");
    wait_until("the workers are there", || site.server.workers().len() == 3);
    let before = site.server.workers();
    for how in ["pcntl", "ffi", "raw"] {
        for (script, status) in [
            ("exit", 7),
            ("echo", 7),
            ("head", 7),
            ("goes_on", 0),
            ("throws", 255),
            ("shutdown", 7),
            ("executes", 7),
            ("killed", 0),
        ] {
            // Innocent requests run at the same time.
            let mut wires: Vec<Wire> = (0..8).map(|_| site.connect()).collect();
            for (number, wire) in wires.iter_mut().enumerate() {
                let target = if number % 2 == 0 {
                    format!("/{script}.php?how={how}&n={number}&out={}", out.display())
                } else {
                    format!("/ok.php?n={number}")
                };
                wire.request("GET", &target, &[], b"");
            }
            for (number, wire) in wires.iter_mut().enumerate() {
                let reply = wire.reply("GET");
                let expected = if number % 2 == 0 {
                    let commas = ",".repeat(5000);
                    format!("begun {number} {status}{commas} ended {number}")
                } else {
                    format!("ok {number}{}", ".".repeat(3000))
                };
                assert_eq!(reply.text(), expected, "{script} with {how}");
                assert_eq!((reply.status, reply.field("X-Foreign")), (200, None));
            }
        }
        assert!(out.exists(), "the child's shutdown functions run");
        std::fs::remove_file(&out).unwrap();
    }
    assert_eq!(site.server.workers(), before, "no worker died");
    wait_until("no child is left", || no_child_of(&site));
}

fn no_child_of(site: &Site) -> bool {
    site.server.workers().iter().all(|worker| worker.children().is_empty())
}

/// A child that outlives its request serves nobody, and ends when its script ends.
#[test]
fn a_child_that_outlives_its_request_ends_with_its_script() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "leaves.php",
                "<?php if (!pcntl_fork()) { usleep(700_000); echo 'late'; touch($_GET['out']); \
                 return; } echo 'answered';",
            ),
            OK,
        ],
        "workers = 1\npcntl = true",
    );
    let out = site.scratch().join("late");
    let mut wire = site.connect();
    let reply = wire.get(&format!("/leaves.php?out={}", out.display()));
    assert_eq!(reply.text(), "answered");
    wait_until("the child has said all", || {
        assert!(wire.get("/ok.php?n=1").text().starts_with("ok 1."));
        out.exists()
    });
    wait_until("no child is left", || {
        no_child_of(&site) || site.server.workers()[0].children().iter().all(Process::is_zombie)
    });
    assert!(wire.get("/ok.php?n=2").text().starts_with("ok 2."));
}

/// A child that ends first does not delete the uploaded files of its parent.
#[test]
fn a_child_leaves_the_uploaded_files_to_its_parent() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[(
            "upload.php",
            "<?php if (!($child = pcntl_fork())) exit; pcntl_waitpid($child, $status);
             echo file_get_contents($_FILES['f']['tmp_name']);",
        )],
        "workers = 1\npcntl = true",
    );
    let body = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n\
        content\r\n--b--\r\n";
    let fields = [("Content-Type", "multipart/form-data; boundary=b")];
    let reply = site.ask("POST", "/upload.php", &fields, body.as_bytes());
    assert_eq!(reply.text(), "content");
}

/// The rule of Apache's module: scripts have no `pcntl` unless the site turns it on.
#[test]
fn pcntl_is_there_only_where_the_site_turns_it_on() {
    if !has_php() {
        return;
    }
    let file = (
        "has.php",
        "<?php echo json_encode([function_exists('pcntl_fork'), extension_loaded('pcntl'), \
         defined('SIGKILL')]);",
    );
    for (key, expected) in [("", "[false,false,false]"), ("pcntl = true", "[true,true,true]")] {
        assert_eq!(Site::with_php(&[file], key).get("/has.php").text(), expected, "{key}");
    }
}

/// Signal handlers, timers and blocked signals of a script end with its request.
#[test]
fn an_alarm_of_one_request_does_not_reach_the_next() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "alarm.php",
                "<?php pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { echo \
                    'wrong'; });
                 pcntl_signal(SIGTERM, SIG_IGN); pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1, SIGHUP]); \
                 pcntl_alarm(1); echo getmypid();",
            ),
            ("default.php", "<?php pcntl_alarm(1); echo getmypid();"),
            (
                "next.php",
                "<?php $began = hrtime(true); usleep(1_300_000); \
                    pcntl_sigprocmask(SIG_UNBLOCK, [SIGUSR2], $mask);
                 echo json_encode([getmypid(), hrtime(true) - $began >= 1_300_000_000, $mask, \
                 pcntl_signal_get_handler(SIGALRM)]);",
            ),
        ],
        "workers = 1\npcntl = true",
    );
    for script in ["/alarm.php", "/default.php"] {
        let pid = site.get(script).text().to_owned();
        assert_eq!(site.get("/next.php").text(), format!("[{pid},true,[],0]"), "{script}");
    }
    // SIGTERM is the worker's again: the server stops in order.
    let mut site = site;
    site.server.signal(howdah_sys::signal::SIGTERM);
    assert!(site.server.wait().success());
}
