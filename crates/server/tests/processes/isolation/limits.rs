//! Limits of resources.

use howdah_sys::credentials::Identity;
use howdah_sys::signal::SIGKILL;

use super::{Sites, can_run};
use crate::support::{Process, Setup, wait_until};

#[test]
fn limits_of_resources_hold_for_scripts_and_their_programs() {
    if !can_run() {
        return;
    }
    let sites = Sites::start(
        "user = \"nobody\"\nrlimits = { nproc = 500, nofile = 200, fsize = \"1M\", as = \"8G\" }",
    );
    let usual = sites.run_in("one", "echo shell_exec('ulimit -c; ulimit -f');");
    assert_eq!(usual, "0\nunlimited\n");
    let found = sites.run("echo shell_exec('ulimit -c; ulimit -f; ulimit -v; ulimit -H -v');");
    assert_eq!(found, "0\n2048\n8388608\n8388608\n");
    let limits = sites.run("echo file_get_contents('/proc/self/limits');");
    let limit = |name: &str| -> Vec<String> {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().take(2).map(str::to_owned).collect()
    };
    assert_eq!(limit("Max processes"), ["500", "500"]);
    // A script gets what was asked for, beside the pool's own.
    let open = sites.run(
        "for ($n = 0; $n < 1000 && $all[] = @fopen('/dev/null', 'r'); ++$n) {} \
                          echo $n;",
    );
    let open: u32 = open.parse().unwrap();
    assert!((200..300).contains(&open), "{open}");
    // A file that is too long is an error, and the worker goes on.
    let before = sites.run("echo getmypid();");
    let code = "$file = fopen('big', 'w'); $sum = 0; for ($n = 0; $n < 32; ++$n) { $sum += (int) \
                @fwrite($file, str_repeat('x', 65536)); } unlink('big'); echo $sum;";
    assert_eq!(sites.run(code), (1 << 20).to_string());
    assert_eq!(sites.run("echo getmypid();").len(), before.len());
    assert!(!sites.server.log().contains("was killed"), "{}", sites.server.log());
    sites.server.stop();
}

#[test]
fn a_worker_that_has_used_its_processor_time_is_replaced_after_its_request() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("rlimits = { cpu = \"1s\" }");
    let burn = "function used() { $u = getrusage(); return $u['ru_utime.tv_sec'] + \
                $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6; } \
                while (used() < 1.2) {} echo getmypid();";
    let worn: u32 = sites.run(burn).parse().unwrap();
    let worn = Process::new(worn);
    crate::support::wait_until("the worker has ended", || !worn.lives());
    assert_eq!(sites.run("echo 'fine';"), "fine");
    // A program of a script has no time left over.
    let told = sites.run("exec('while :; do :; done', $out, $status); echo $status;");
    assert_eq!(told, "24", "SIGXCPU");
    sites.server.stop();
}

/// Uses up the processes that the user may have. One is left for a zygote, and one for its first
/// worker.
const USE_UP: &str = "for ($n = 0; $n < 100 && ($child = @pcntl_fork()) > 0; $n++) $all[] = $child;
    if ($child === 0) { sleep(600); exit; }
    foreach (array_slice($all, -2) as $last) {
        posix_kill($last, 9);
        pcntl_waitpid($last, $status);
    }
    echo $n < 100 ? 'used up' : 'endless';";

/// Scripts have used up the processes that the site's user may have: the next zygote starts no
/// worker.
#[test]
fn a_site_without_processes_keeps_no_other_site_from_a_reload() {
    if !can_run() {
        return;
    }
    let limits = "user = \"games\"\npcntl = true\nstandby = false\nmode = \"static\"\n\
                  opcache_warmup = false\nrlimits = { nproc = 30 }";
    let sites = Sites::start_as("ini = { user_agent = \"former\" }", limits, None);
    let user = Identity::of_user("games", None).unwrap().unwrap().uid;
    // A child that still looks at opcache for its zygote would leave its place to the second
    // worker.
    wait_until("the user has a zygote and two workers", || Process::of_user(user).len() == 3);
    assert_eq!(sites.run(USE_UP), "used up");
    let file = sites.folder.path().join("howdah.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"former\"", "\"present\"")).unwrap();
    let (code, told, errors) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
    wait_until("the configuration is served", || {
        sites.run_in("one", "echo ini_get('user_agent');") == "present"
    });
    sites
        .server
        .wait_for_log("two: its workers have not started in 10 s; the other sites");
    let reason = "cannot fork a worker: Resource temporarily unavailable (os error 11): there are \
                  too many processes; see `pids` and `rlimits.nproc`";
    sites.server.wait_for_log(reason);
    // The processes of the former generation have ended with it.
    wait_until("the site has workers", || sites.run("echo 'fine';") == "fine");
    sites.server.stop();
}

/// A script may send a signal to its zygote at any moment, also while a new front waits for the
/// workers of another site.
#[test]
fn a_zygote_that_is_killed_during_a_reload_keeps_no_other_site_from_it() {
    if !can_run() {
        return;
    }
    let limits = "user = \"backup\"\npcntl = true\nstandby = false\nmode = \"static\"\n\
                  opcache_warmup = false\nrlimits = { nproc = 30 }";
    let sites = Sites::start_as(limits, "ini = { user_agent = \"former\" }", None);
    let user = Identity::of_user("backup", None).unwrap().unwrap().uid;
    wait_until("the user has a zygote and two workers", || Process::of_user(user).len() == 3);
    assert_eq!(sites.run_in("one", USE_UP), "used up");
    let file = sites.folder.path().join("howdah.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // The pool with a new setting is one without which a reload is refused.
    std::fs::write(&file, text.replace("\"former\"", "\"present\"")).unwrap();
    let former = sites.server.zygotes();
    let reload = std::thread::spawn(move || {
        Setup::with(&["reload", "--config", file.to_str().unwrap()]).run()
    });
    let of = |site: &str, zygotes: &[Process]| {
        let end = format!(" {site}");
        zygotes.iter().copied().find(|zygote| zygote.arguments().ends_with(&end))
    };
    let mut next = Vec::new();
    wait_until("the new front has the zygote", || {
        next = sites.server.zygotes();
        next.retain(|zygote| !former.contains(zygote));
        of("two", &next).is_some()
    });
    let killed = of("two", &next).unwrap();
    killed.signal(SIGKILL);
    sites
        .server
        .wait_for_log(&format!("its zygote {} was killed by SIGKILL; another", killed.number()));
    // With the former zygote end the processes that its scripts have started.
    of("one", &former).unwrap().signal(SIGKILL);
    let (code, told, errors) = reload.join().unwrap();
    assert_eq!(code, Some(0), "{told}{errors}");
    wait_until("the configuration is served", || {
        sites.run("echo ini_get('user_agent');") == "present"
    });
    sites.server.stop();
}
