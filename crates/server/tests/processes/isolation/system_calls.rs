//! System calls that serve attacks, signals, and set-user-ID programs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{CALLS, ENOSYS, EPERM, Sites, can_run, has_landlock};
use crate::support::folder::copy_program;
use crate::support::{Process, wait_until};

/// Number of a system call on this machine.
fn number(name: &str) -> i64 {
    howdah_sys::seccomp::calls::number(name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn attacks_through_system_calls_are_refused() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    // Each call would do no harm here, should it succeed.
    let rows: &[(&str, &str, i32)] = &[
        ("ptrace", "16, posix_getppid(), 0, 0", EPERM),
        ("process_vm_readv", "posix_getppid(), 0, 0, 0, 0, 0", EPERM),
        ("process_vm_writev", "posix_getppid(), 0, 0, 0, 0, 0", EPERM),
        ("pidfd_getfd", "0, 0, 0", EPERM),
        ("kcmp", "getmypid(), posix_getppid(), 0, 0, 0", EPERM),
        ("unshare", "0x10000000", EPERM),
        ("unshare", "0x00020000", EPERM),
        ("unshare", "0x80", EPERM),
        ("setns", "0, 0", EPERM),
        ("clone", "0x10000000 | 17, 0, 0, 0, 0", EPERM),
        ("clone3", "0, 0", ENOSYS),
        ("mount", "0, 0, 0, 0, 0", EPERM),
        ("fsopen", "0, 0", EPERM),
        ("open_tree", "-100, 0, 0", EPERM),
        ("chroot", "0", EPERM),
        ("bpf", "0, 0, 0", EPERM),
        ("perf_event_open", "0, 0, -1, -1, 0", EPERM),
        ("userfaultfd", "1", EPERM),
        ("io_uring_setup", "1, 0", EPERM),
        ("keyctl", "0, -3, 0, 0, 0", EPERM),
        ("add_key", "0, 0, 0, 0, -3", EPERM),
        ("init_module", "0, 0, 0", EPERM),
        ("kexec_load", "0, 0, 0, 0", EPERM),
        ("syslog", "10, 0, 0", EPERM),
        ("ioctl", "0, 0x5412, 0", EPERM),
        ("ioctl", "0, 0x7FFFFFFF00005412, 0", EPERM),
        ("socket", "38, 5, 0", 97),         // AF_ALG
        ("socket", "40, 1, 0", 97),         // AF_VSOCK
        ("socket", "17, 3, 0", 97),         // AF_PACKET
        ("socket", "2, 1, 262", 93),        // IPPROTO_MPTCP
        ("socket", "10, 0x80801, 256", 93), // IPPROTO_SMC
        // The zygote, a group, a user; addresses that are none.
        ("prlimit64", "posix_getppid(), 7, 1, 0", EPERM),
        ("prlimit64", "posix_getppid(), 7, 0x100000000, 0", EPERM),
        ("setpriority", "0, posix_getppid(), 0", EPERM),
        ("setpriority", "1, 0, 0", EPERM),
        ("setpriority", "2, 0, 0", EPERM),
        ("ioprio_set", "1, posix_getppid(), 0", EPERM),
        ("ioprio_set", "3, 0, 0", EPERM),
        ("sched_setaffinity", "posix_getppid(), 8, 1", EPERM),
        ("sched_setscheduler", "posix_getppid(), 0, 1", EPERM),
        ("sched_setparam", "posix_getppid(), 1", EPERM),
        ("sched_setattr", "posix_getppid(), 1, 0", EPERM),
        ("migrate_pages", "posix_getppid(), 0, 0, 0", EPERM),
        ("move_pages", "posix_getppid(), 0, 0, 0, 0, 0", EPERM),
    ];
    for (name, arguments, expected) in rows {
        let found = sites.call(&format!("echo call({}, {arguments});", number(name)));
        assert_eq!(found, (-expected).to_string(), "{name}({arguments})");
    }
    // x32's numbers are no way around.
    if cfg!(target_arch = "x86_64") {
        let found = sites.call("echo call(0x40000000 + 101, 16, posix_getppid(), 0, 0);");
        assert_eq!(found, (-ENOSYS).to_string());
    }
    // Nor are programs.
    let told = sites.run("echo shell_exec('unshare --user true 2>&1');");
    assert!(told.contains("Operation not permitted"), "{told}");
    sites.server.stop();
}

#[test]
fn ordinary_work_goes_on() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("pcntl = true");
    let rows = [
        ("echo shell_exec('echo a | cat');", "a\n"),
        ("echo exec('sh -c \"sleep 0.01 & wait; echo done\"');", "done"),
        (
            "$p = proc_open('cat', [['pipe', 'r'], ['pipe', 'w']], $pipes); fwrite($pipes[0], \
             'x'); fclose($pipes[0]); echo stream_get_contents($pipes[1]), proc_close($p);",
            "x0",
        ),
        ("echo @fsockopen('127.0.0.1', 1, $e) ? 'yes' : $e;", "111"),
        ("echo gethostbyname('localhost');", "127.0.0.1"),
        ("$s = socket_create(AF_INET6, SOCK_DGRAM, 0); echo $s ? 'yes' : 'no';", "yes"),
        ("$s = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); echo count($s);", "2"),
        ("$s = stream_socket_server('tcp://127.0.0.1:0'); echo $s ? 'yes' : 'no';", "yes"),
        ("echo strlen(bin2hex(random_bytes(4)));", "8"),
        ("echo count(sys_getloadavg());", "3"),
        ("echo is_resource(fopen('/dev/fd/2', 'r')) ? 'yes' : 'no';", "no"),
        ("echo is_resource(opendir('/proc/self/fd')) ? 'yes' : 'no';", "yes"),
        ("$t = tmpfile(); fwrite($t, 'abc'); rewind($t); echo fread($t, 9);", "abc"),
        ("$t = tempnam('/tmp', 'x'); echo rename($t, '/var/tmp/y') ? 'yes' : 'no';", "yes"),
        // Landlock and `/proc` permit what a debugger of the same program needs of itself.
        ("echo strlen(file_get_contents('/proc/self/maps')) > 100 ? 'yes' : 'no';", "yes"),
        ("echo shell_exec('head -c1 /proc/self/environ') ? 'yes' : 'no';", "yes"),
        // A process sets its own limits and priorities.
        ("echo shell_exec('nice -n 5 echo a');", "a\n"),
        ("echo shell_exec('ionice -c 3 echo a');", "a\n"),
        ("echo shell_exec('taskset 1 echo a');", "a\n"),
        ("echo shell_exec('ulimit -n 64; ulimit -n');", "64\n"),
        ("echo proc_nice(0) ? 'yes' : 'no';", "yes"),
        ("echo pcntl_setpriority(0, 0) ? 'yes' : 'no';", "yes"),
        ("$s = socket_create(AF_INET, SOCK_STREAM, SOL_TCP); echo $s ? 'yes' : 'no';", "yes"),
        ("echo shell_exec('git --version') ? 'yes' : 'no';", "yes"),
    ];
    for (code, expected) in rows {
        assert_eq!(sites.run(code), expected, "{code}");
    }
    sites.server.stop();
}

#[test]
fn nobody_of_the_same_user_looks_into_zygote_and_workers() {
    if !can_run() {
        return;
    }
    // Without a sandbox, site one is a program of the tenant's own, such as a cron job.
    let sites = Sites::start_as(
        "sandbox = \"off\"\nhide_processes = false",
        "hide_processes = false",
        None,
    );
    let zygotes = sites.server.zygotes();
    let two: Vec<Process> = zygotes
        .iter()
        .filter(|zygote| zygote.arguments().ends_with(" two"))
        .flat_map(|zygote| [vec![*zygote], zygote.children()].concat())
        .collect();
    assert_eq!(two.len(), 3, "{two:?}");
    let (ptrace, open, get) = (number("ptrace"), number("pidfd_open"), number("pidfd_getfd"));
    for process in &two {
        let pid = process.number();
        let code = format!(
            "{CALLS} if (getmypid() == {pid}) {{ exit('found -1 -1 closed closed'); }} $fd = \
             call({open}, {pid}, 0); echo $fd >= 0 ? 'found' : 'none', ' ', call({get}, $fd, 3, \
             0), ' ', call({ptrace}, 16, {pid}, 0, 0), ' ', is_resource(@fopen('/proc/{pid}/mem', \
             'r')) ? 'open' : 'closed', ' ', @scandir('/proc/{pid}/fd') ? 'open' : 'closed';"
        );
        assert_eq!(
            sites.run_in("one", &code),
            "found -1 -1 closed closed",
            "{}",
            process.arguments()
        );
        // Within the pool the system calls are refused too.
        assert_eq!(sites.run(&code), "found -1 -1 closed closed", "{}", process.arguments());
    }
    // A process without the protection shows that the attack works.
    let plain = sites.run_in("one", "echo posix_getppid();");
    let code = format!(
        "{CALLS} $fd = call({open}, {plain}, 0); echo call({get}, $fd, 2, 0) >= 0 ? 'taken' : \
         'refused';"
    );
    assert_eq!(sites.run_in("one", &code), "taken");
    sites.server.stop();
}

#[test]
fn signals_stay_in_the_pool() {
    if !can_run() || !has_landlock() {
        return;
    }
    let sites = Sites::start("");
    let zygotes = sites.server.zygotes();
    let one = zygotes.iter().find(|zygote| zygote.arguments().ends_with(" one")).unwrap();
    let send = |pid: u32| format!("echo posix_kill({pid}, 0) ? 'sent' : posix_get_last_error();");
    for process in [*one, one.children()[0], sites.server.front(), sites.server.supervisor()] {
        assert_eq!(sites.run(&send(process.number())), "1", "{}", process.name());
    }
    assert_eq!(sites.run("echo posix_kill(posix_getppid(), 0) ? 'sent' : 'not';"), "sent");
    sites.server.stop();

    let sites = Sites::start("sandbox = \"strict\"");
    assert_eq!(sites.run("echo posix_kill(posix_getppid(), 0) ? 'sent' : 'not';"), "not");
    let own = "$p = proc_open('sleep 9', [], $x); $s = proc_get_status($p); \
               echo posix_kill($s['pid'], 9) ? 'sent' : 'not';";
    assert_eq!(sites.run(own), "sent");
    // The zygote's own signals arrive.
    let zygotes = sites.server.zygotes();
    let workers: Vec<Process> = zygotes.iter().flat_map(Process::children).collect();
    sites.server.signal(howdah_sys::signal::SIGHUP);
    sites.server.wait_for_log("reloaded");
    wait_until("the former workers have ended", || !workers.iter().any(Process::lives));
    sites.server.stop();
}

#[test]
fn set_user_id_programs_give_no_rights_unless_asked_for() {
    if !can_run() {
        return;
    }
    for (settings, expected) in [
        ("user = \"nobody\"", "65534 1 2"),
        ("user = \"nobody\"\nno_new_privs = false", "0 0 2"),
        ("user = \"nobody\"\nno_new_privs = false\nsandbox = \"off\"", "0 0 0"),
    ] {
        let sites = Sites::start(settings);
        let program = sites.folder.path().join("two/id");
        copy_program(Path::new("/usr/bin/id"), &program);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let code = format!(
            "preg_match_all('/^(?:NoNewPrivs|Seccomp):\\s*(\\d)/m', \
             file_get_contents('/proc/self/status'), $found); echo trim(shell_exec('{} -u')), ' ', \
             implode(' ', $found[1]);",
            program.display()
        );
        assert_eq!(sites.run(&code), expected, "{settings}");
        sites.server.stop();
    }
}

#[test]
fn functions_can_be_turned_off() {
    if !can_run() {
        return;
    }
    let sites = Sites::start(
        "disable_functions = [\"exec\", \"system\"]\nadmin_ini = {}"
            .lines()
            .next()
            .unwrap(),
    );
    let found = sites.run(
        "echo function_exists('exec') ? 'exec' : '', function_exists('system') ? 'system' : '', \
                           function_exists('strlen') ? 'strlen' : '';",
    );
    assert_eq!(found, "strlen");
    assert_eq!(sites.run_in("one", "echo function_exists('exec') ? 'there' : 'off';"), "there");
    sites.server.stop();
}
