//! The front's own restrictions: what code in it could not do, had somebody taken it over.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use howdah_sys::seccomp::calls;

use super::{ENOSYS, EPERM, Sites, can_run, has_landlock};
use crate::support::{Folder, Process, Setup};

const EACCES: i32 = 13;
const EAFNOSUPPORT: i32 = 97;

/// Makes system calls in a thread of a process, as its own code would. Each call is a name and its
/// arguments in the words of `inject.c`. `None` where that cannot be done here.
fn inject(sites: &Sites, thread: u32, list: &[(&str, String)]) -> Option<Vec<i64>> {
    if cfg!(not(target_arch = "x86_64")) {
        howdah_skip::skip!("the calls are made with the registers of x86-64");
        return None;
    }
    let program = sites.folder.path().join("inject");
    if !program.exists() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/isolation/inject.c");
        let mut compiler = Command::new("cc");
        let made = compiler.args(["-O1", "-Wall", "-o"]).arg(&program).arg(source).status();
        assert!(made.unwrap().success());
    }
    let mut child = Command::new(&program)
        .arg(thread.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text: String = list
        .iter()
        .map(|(name, arguments)| format!("{} {arguments}\n", number(name)))
        .collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.starts_with("seize: Operation not permitted") {
        howdah_skip::skip!("this machine lets nobody trace a process");
        return None;
    }
    assert!(output.status.success(), "{told}");
    let results = String::from_utf8(output.stdout).unwrap();
    Some(results.lines().map(|line| line.parse().unwrap()).collect())
}

/// The number of a system call.
fn number(name: &str) -> i64 {
    let here = [
        ("bind", 49),
        ("capset", 126),
        ("chroot", 161),
        ("connect", 42),
        ("execve", 59),
        ("execveat", 322),
        ("fork", 57),
        ("kill", 62),
        ("openat", 257),
        ("prctl", 157),
        ("setgroups", 116),
        ("setresuid", 117),
        ("setuid", 105),
        ("socket", 41),
        ("socketpair", 53),
        ("tgkill", 234),
        ("tkill", 200),
        ("unlinkat", 263),
        ("vfork", 58),
    ];
    let found = here.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    found.or_else(|| calls::number(name)).unwrap_or_else(|| panic!("{name}"))
}

fn threads(process: Process) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{}/task", process.number())).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn code_in_the_front_could_not_leave_it() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    let front = sites.server.front();
    // Permissions of the file system are no protection here.
    let open = |name: &str| {
        let path = sites.folder.path().join(name);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        path.display().to_string()
    };
    let (public, page, program) = (
        open("one/public"),
        open("one/public/index.php"),
        sites.folder.program("run", "#!/bin/sh\n"),
    );
    let program = program.display().to_string();
    let supervisor = sites.server.supervisor().number();
    let zygote = sites.server.zygotes()[0].number();
    // An address of the Internet's family: port 9 of this machine, or any port.
    let nine = "x:02000009 7f000001 0000000000000000".replace(' ', "");
    let any = "x:02000000 7f000001 0000000000000000".replace(' ', "");
    let mut rows: Vec<(&str, String, i32)> = vec![
        ("execve", format!("s:{program} 0 0"), EPERM),
        ("execveat", format!("-100 s:{program} 0 0 0"), EPERM),
        ("fork", String::new(), EPERM),
        ("vfork", String::new(), EPERM),
        ("clone", "17 0 0 0 0".to_owned(), EPERM),
        ("clone3", "0 0".to_owned(), ENOSYS),
        ("setuid", "0".to_owned(), EPERM),
        ("setresuid", "0 0 0".to_owned(), EPERM),
        ("setgroups", "0 0".to_owned(), EPERM),
        ("capset", "0 0".to_owned(), EPERM),
        ("unshare", "0x10000000".to_owned(), EPERM),
        ("setns", "0 0".to_owned(), EPERM),
        ("mount", "0 0 0 0 0".to_owned(), EPERM),
        ("chroot", "s:/".to_owned(), EPERM),
        ("ptrace", format!("16 {zygote} 0 0"), EPERM),
        ("process_vm_readv", format!("{zygote} 0 0 0 0 0"), EPERM),
        ("pidfd_getfd", "0 0 0".to_owned(), EPERM),
        ("bpf", "0 0 0".to_owned(), EPERM),
        ("perf_event_open", "0 0 -1 -1 0".to_owned(), EPERM),
        ("userfaultfd", "1".to_owned(), EPERM),
        ("io_uring_setup", "1 0".to_owned(), EPERM),
        ("keyctl", "0 -3 0 0 0".to_owned(), EPERM),
        ("init_module", "0 0 0".to_owned(), EPERM),
        ("kexec_load", "0 0 0 0".to_owned(), EPERM),
        ("socket", "17 3 0".to_owned(), EAFNOSUPPORT), // AF_PACKET
        ("socket", "16 3 0".to_owned(), EAFNOSUPPORT), // AF_NETLINK
        ("socket", "40 1 0".to_owned(), EAFNOSUPPORT), // AF_VSOCK
        ("socketpair", "2 1 0 0".to_owned(), EAFNOSUPPORT),
        ("ioctl", "0 0x5412 0".to_owned(), EPERM), // TIOCSTI
        ("prctl", "4 1 0 0 0".to_owned(), EPERM),  // PR_SET_DUMPABLE
        ("kill", format!("{supervisor} 9"), EPERM),
        ("tkill", format!("{zygote} 9"), EPERM),
        ("tgkill", format!("{zygote} {zygote} 9"), EPERM),
    ];
    if has_landlock() {
        rows.extend([
            ("openat", format!("-100 s:{page} 1 0"), EACCES),
            ("openat", format!("-100 s:{public}/new.php 0x41 0666"), EACCES),
            ("unlinkat", format!("-100 s:{page} 0"), EACCES),
            ("openat", "-100 s:/dev/full 1 0".to_owned(), EACCES),
        ]);
    }
    let list: Vec<_> = rows.iter().map(|(name, text, _)| (*name, text.clone())).collect();
    let sockets: Vec<(&str, String)> = vec![
        ("socket", "2 1 0".to_owned()),
        ("connect", format!("$ {nine} 16")),
        ("socket", "2 1 0".to_owned()),
        ("bind", format!("$ {any} 16")),
        // The calls that it needs are still allowed.
        ("openat", format!("-100 s:{page} 0 0")),
    ];
    for thread in threads(front) {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
        for line in ["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"] {
            assert!(status.contains(line), "{line}: {status}");
        }
    }
    let Some(results) = inject(&sites, front.number(), &list) else {
        return;
    };
    for ((name, text, error), result) in rows.iter().zip(&results) {
        assert_eq!(*result, -i64::from(*error), "{name} {text}");
    }
    let results = inject(&sites, front.number(), &sockets).unwrap();
    if has_landlock() {
        assert_eq!(results[1], -i64::from(EACCES), "{results:?}");
    }
    assert_eq!(results[3], -i64::from(EPERM), "{results:?}");
    assert!(results[4] >= 0, "{results:?}");
    // The front has not noticed.
    assert_eq!(sites.run("echo 'fine';"), "fine");
    assert_eq!(sites.server.front(), front);
    sites.server.stop();
}

/// The mappings of a process that can be executed and that no file is behind: it has made them
/// itself. `None` where they cannot be read.
fn executable_memory(process: Process) -> Option<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.number())).ok()?;
    let is_own = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let may_execute = words.next().is_some_and(|rights| rights.contains('x'));
        may_execute && words.nth(3).is_none()
    };
    Some(maps.lines().filter(is_own).map(str::to_owned).collect())
}

#[test]
fn the_front_makes_no_machine_code_of_patterns_unless_it_is_told_to() {
    for jit in [false, true] {
        let folder = Folder::new();
        folder.file("public/a.txt", "hello");
        folder.file(
            "public/.htaccess",
            "RewriteEngine On\nRewriteCond %{QUERY_STRING} ^(a+)+b(c|d)*(?!e)\\1$\n\
             RewriteRule ^ - [F]\n",
        );
        let file = folder.file(
            "howdah.toml",
            format!(
                "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\npcre_jit = {jit}\n\
                 [[site]]\nhosts = [\"*\"]\nroot = \"public\"\nphp = false\n"
            ),
        );
        let server = Setup::config(&file).start();
        assert_eq!(server.get("/a.txt?aab").text(), "hello");
        assert_eq!(server.get("/a.txt?aabaa").status, 403, "the pattern is matched");
        // Only root may look, because the front cannot be inspected.
        if let Some(found) = executable_memory(server.front()) {
            assert_eq!(!found.is_empty(), jit, "pcre_jit = {jit}: {found:?}");
        }
        server.stop();
    }
}
