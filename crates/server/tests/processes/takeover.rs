//! SIGUSR2: another program takes over.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use howdah_sys::signal::{SIGHUP, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2};

use crate::support::folder::{copy_program, write_program};
use crate::support::{Client, Folder, HOWDAH, Load, Process, Setup, has_php, wait_until};
use crate::{WHO, assert_who, config, is_who};

/// Both programs in `folder`, which everybody may run.
fn install(folder: &Folder) -> PathBuf {
    let bin = folder.folder("bin");
    for name in ["howdah", "howdah-php"] {
        let source = Path::new(HOWDAH).with_file_name(name);
        if source.exists() {
            replace(&bin.join(name), |fresh| copy_program(&source, fresh));
        }
    }
    bin.join("howdah")
}

/// Installs into `programs`, and configures the site in `folder` with the lines `php`. Returns the
/// program and the file of the configuration.
fn install_with(programs: &Folder, folder: &Folder, php: &str) -> (PathBuf, PathBuf) {
    (install(programs), config(folder, "", php))
}

/// Puts a fresh file in the place of another, as package managers do it.
fn replace(path: &Path, write: impl FnOnce(&Path)) {
    let fresh = path.with_extension("new");
    write(&fresh);
    fs::rename(fresh, path).unwrap();
}

fn executable(process: Process) -> String {
    fs::read_link(format!("/proc/{}/exe", process.number()))
        .unwrap()
        .display()
        .to_string()
}

#[test]
fn a_mistake_in_a_site_s_htaccess_keeps_no_new_program_out() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    folder.file("broken/.htaccess", "Nonsense on\n");
    // All files of the machine.
    std::os::unix::fs::symlink("/", folder.path().join("all")).unwrap();
    let (program, file) = install_with(&programs, &folder, "[site.php]\nworkers = 1");
    let server = Setup::config(&file).program(&program).start();
    let before = server.supervisor().children();
    install(&programs);
    server.signal(SIGUSR2);
    wait_until("the former generation has gone", || !before.iter().any(Process::lives));
    assert!(!server.log().contains("was not upgraded"), "{}", server.log());
    assert_who(&server.get("/"));
    server.stop();
}

#[test]
fn a_new_program_takes_over_and_no_request_is_lost() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) =
        install_with(&programs, &folder, "[site.php]\nworkers = 2\nstandby = false");
    let server = Setup::config(&file).program(&program).start();
    let load = Load::start(server.address(), 4, "/", is_who);
    for _ in 0..3 {
        load.go_on(50);
        let before = server.supervisor().children();
        install(&programs);
        assert!(executable(server.supervisor()).ends_with(" (deleted)"));
        server.signal(SIGUSR2);
        wait_until("the former processes have gone", || !before.iter().any(Process::lives));
        assert_eq!(executable(server.supervisor()), program.display().to_string());
        wait_until("a front and a zygote serve", || server.supervisor().children().len() == 2);
    }
    load.go_on(50);
    load.end_without_failure();
    wait_until("each takeover is logged", || {
        server.log().matches("taken over; serving").count() == 3
    });
    let descriptors = server.supervisor().settled_descriptors();

    // It does all that the first one did.
    let front = server.front();
    server.signal(SIGHUP);
    wait_until("a reload replaces the front", || !front.lives());
    let front = server.front();
    front.signal(SIGKILL);
    assert_who(&server.get("/"));
    let now = || server.supervisor().descriptors();
    wait_until(&format!("nothing was leaked: {descriptors:?} {:?}", now()), || {
        now().len() <= descriptors.len()
    });
    server.stop();
}

#[test]
fn a_program_that_does_not_like_the_configuration_does_not_take_over() {
    let (folder, programs) = (Folder::new(), Folder::new());
    folder.file("a.txt", "hello");
    let program = install(&programs);
    let server = Setup::config(&config(&folder, "", "php = false")).program(&program).start();
    let children = server.supervisor().children();
    replace(&program, |fresh| {
        write_program(fresh, "#!/bin/sh\necho no, $1 of $2 fails; exit 3\n");
    });
    server.signal(SIGUSR2);
    server.wait_for_log(
        "its check of the configuration ended with status 3; the present program continues",
    );
    server.wait_for_log("no, check of --config fails");

    replace(&program, |fresh| write_program(fresh, "this is no program"));
    server.signal(SIGUSR2);
    server.wait_for_log("the server was not upgraded: cannot run ");

    // Accepts the configuration, but fails when it is executed as the supervisor.
    let trap = format!("#!/bin/sh\nrm -f {}\nexit 0\n", program.display());
    replace(&program, |fresh| write_program(fresh, trap));
    server.signal(SIGUSR2);
    server.wait_for_log(": No such file or directory (os error 2); the present program continues");

    assert_eq!(server.get("/a.txt").text(), "hello");
    assert_eq!(server.supervisor().children(), children);
    // Nothing became inheritable by the attempt.
    server.signal(SIGHUP);
    wait_until("a reload works", || {
        server.supervisor().children() != children && server.supervisor().children().len() == 1
    });
    assert_eq!(server.get("/a.txt").text(), "hello");
    server.stop();
}

#[test]
fn the_former_generation_goes_on_if_the_new_one_does_not_start() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) = install_with(&programs, &folder, "[site.php]\nworkers = 1");
    let server = Setup::config(&file).program(&program).start();
    let children = server.supervisor().children();
    let load = Load::start(server.address(), 2, "/", is_who);
    load.go_on(20);
    install(&programs);
    replace(&programs.path().join("bin/howdah-php"), |fresh| {
        write_program(fresh, "#!/bin/sh\nexit 9\n");
    });
    server.signal(SIGUSR2);
    server.wait_for_log("what the former program serves goes on");
    assert_eq!(executable(server.supervisor()), program.display().to_string());
    wait_until("only the former processes are left", || server.supervisor().children() == children);
    load.go_on(20);

    install(&programs);
    server.signal(SIGHUP);
    wait_until("a reload with a whole installation ends them", || {
        !children.iter().any(Process::lives)
    });
    load.go_on(20);
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_pool_that_does_not_start_keeps_no_other_site_from_a_new_program() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) = install_with(&programs, &folder, "[site.php]\nworkers = 1");
    folder.file("broken/index.php", format!("<?php {WHO}"));
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("[log]\n", "[log]\nerror = \"error.log\"\n");
    let broken = "[[site]]\nname = \"broken\"\nhosts = [\"broken.example\"]\nroot = \"broken\"\n\
        [site.php]\nworkers = 1\nstate_dir = \"state/broken\"\nqueue_timeout = \"5m\"\n";
    fs::write(&file, format!("{text}{broken}")).unwrap();
    let server = Setup::config(&file).program(&program).start();
    let ask = || {
        let mut client = Client::connect(server.address());
        client.send("GET / HTTP/1.1\r\nHost: broken.example\r\n\r\n").unwrap();
        client.answer().unwrap()
    };
    let load = Load::start(server.address(), 2, "/", is_who);
    wait_until("the second site serves", || is_who(&ask()));
    let sessions = folder.path().join("state/broken/sessions");
    fs::remove_dir_all(&sessions).unwrap();
    fs::write(&sessions, "").unwrap();
    // A path that has changed may be the administrator's mistake: the former PHP serves no more.
    let broken = format!("{broken}max_requests = 1000\n");
    fs::write(&file, format!("{text}{broken}")).unwrap();

    install(&programs);
    let former = server.supervisor().children();
    server.signal(SIGUSR2);
    let told = "cannot create the folder";
    let what = "the other sites are served, and this pool is started again and again";
    let log = || fs::read_to_string(folder.path().join("error.log")).unwrap();
    wait_until("the log has the takeover", || log().contains("taken over; serving"));
    for (place, text) in [("log", log()), ("terminal", server.log())] {
        let is_told = |line: &str| line.contains(told) && line.contains(what);
        assert!(text.lines().any(is_told), "{place}: {text}");
    }
    wait_until("the former processes have gone", || !former.iter().any(Process::lives));
    assert_eq!(executable(server.supervisor()), program.display().to_string());
    assert!(crate::support::status(&file).contains("site broken: has no PHP: "));
    load.go_on(20);

    fs::remove_file(&sessions).unwrap();
    wait_until("the second site serves again", || is_who(&ask()));
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_site_whose_php_starts_no_more_keeps_it_with_a_new_program() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) = install_with(&programs, &folder, "[site.php]\nworkers = 1");
    folder.file("broken/index.php", format!("<?php {WHO}"));
    let text = fs::read_to_string(&file).unwrap();
    let broken = "[[site]]\nname = \"broken\"\nhosts = [\"broken.example\"]\nroot = \"broken\"\n\
        [site.php]\nworkers = 1\nstate_dir = \"state/broken\"\nqueue_timeout = \"5m\"\n";
    fs::write(&file, format!("{text}{broken}")).unwrap();
    let server = Setup::config(&file).program(&program).start();
    let ask = || {
        let mut client = Client::connect(server.address());
        client.send("GET / HTTP/1.1\r\nHost: broken.example\r\n\r\n").unwrap();
        client.answer().unwrap()
    };
    wait_until("the second site serves", || is_who(&ask()));
    let sessions = folder.path().join("state/broken/sessions");
    fs::remove_dir_all(&sessions).unwrap();
    fs::write(&sessions, "").unwrap();

    install(&programs);
    // The second one takes over from a program whose zygote is a twin itself.
    for round in 1..=2 {
        let former = server.supervisor().children();
        server.signal(SIGUSR2);
        let is_taken_over = || server.log().matches("taken over; serving").count() == round;
        wait_until("the program is a new one", is_taken_over);
        wait_until("the former processes have gone", || !former.iter().any(Process::lives));
        assert_eq!(executable(server.supervisor()), program.display().to_string());
        let told = crate::support::status(&file);
        assert!(told.contains("site broken: has the PHP of the former configuration: "), "{told}");
        assert!(is_who(&ask()));
        assert!(is_who(&server.get("/")));
    }
    server.stop();
}

/// Says that it runs, waits until it may go on, and destroys the words of all slots in which
/// requests run, by which the front finds out that the pool is broken.
const HOSTILE: &str = "<?php
    foreach (file('/proc/self/maps') as $line)
        if (preg_match('/^([0-9a-f]+)-[0-9a-f]+ rw.*howdah-pool/', $line, $found))
            $first = hexdec($found[1]);
    $memory = fopen('/proc/self/mem', 'r+');
    stream_set_read_buffer($memory, 0);
    stream_set_write_buffer($memory, 0);
    touch($_GET['mark']);
    while (!file_exists($_GET['go'])) { usleep(1000); clearstatcache(); }
    for ($word = $first; $word < $first + 8192; $word += 64) {
        fseek($memory, $word);
        $state = unpack('P', fread($memory, 8))[1];
        fseek($memory, $word);
        // The phase Taken, of a slot that was used a few times.
        if (($state & 15) === 2 && $state >> 32 > 0 && $state >> 32 < 1000)
            fwrite($memory, str_repeat(chr(255), 8));
    }
    // The front looks at the slot.
    for (;;) { echo 'x'; flush(); usleep(10000); }";
/// Says that it runs, and answers when it may.
const PATIENT: &str = "<?php touch($_GET['mark']);
    while (!file_exists($_GET['go'])) { usleep(1000); clearstatcache(); }
    echo 'whole';";

/// A pool without a zygote is not handed over. The front that drains counts it as before.
#[test]
fn a_broken_pool_costs_no_other_site_a_request_under_a_new_program() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) =
        install_with(&programs, &folder, "[site.php]\nworkers = 1\nstandby = false");
    let marks = Folder::writable();
    let mut text = fs::read_to_string(&file).unwrap();
    for (name, script) in [("hostile", HOSTILE), ("patient", PATIENT)] {
        folder.file(&format!("{name}/index.php"), script);
        text += &format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}\"\n\
             [site.php]\nworkers = 1\nstandby = false\nsandbox = \"off\"\n\
             state_dir = \"state/{name}\"\nqueue_timeout = \"5m\"\nrequest_timeout = \"5m\"\n"
        );
    }
    fs::write(&file, text).unwrap();
    let server = Setup::config(&file).program(&program).start();
    let mark = |name: &str| marks.path().join(name);
    let ask = |name: &str| {
        let mut client = Client::connect(server.address());
        let (runs, goes_on) = (mark(&format!("{name}-runs")), mark(&format!("{name}-goes-on")));
        let target = format!("/?mark={}&go={}", runs.display(), goes_on.display());
        let host = format!("Host: {name}.example");
        client.send(format!("GET {target} HTTP/1.1\r\n{host}\r\n\r\n")).unwrap();
        wait_until("the script runs", || runs.exists());
        client
    };
    let _hostile = ask("hostile");
    let mut patient = ask("patient");
    // The first site's zygote ends, and no other one starts.
    let sessions = folder.path().join("state/shop/sessions");
    fs::remove_dir_all(&sessions).unwrap();
    fs::write(&sessions, "").unwrap();
    let zygotes = server.zygotes();
    let of_shop = zygotes.iter().find(|zygote| zygote.arguments().ends_with(" shop"));
    of_shop.unwrap().signal(SIGKILL);
    server.wait_for_log("another one starts in 2 s, because it keeps dying");

    server.signal(SIGUSR2);
    server.wait_for_log("taken over; serving");
    fs::write(mark("hostile-goes-on"), "").unwrap();
    let told = "its pool was killed and will be replaced: its shared memory";
    server.wait_for_log(told);
    let log = server.log();
    assert!(log.contains(&format!("hostile: {told}")), "{log}");
    fs::write(mark("patient-goes-on"), "").unwrap();
    assert_eq!(patient.answer().unwrap().text(), "whole");
    server.stop();
}

#[test]
fn no_request_is_lost_in_a_storm_of_signals() {
    if !has_php() {
        return;
    }
    let (folder, programs) = (Folder::with_script(WHO), Folder::new());
    let (program, file) = install_with(&programs, &folder, "[site.php]\nworkers = 2");
    let server = Setup::config(&file).program(&program).start();
    let load = Load::start(server.address(), 4, "/", is_who);
    for round in 0..12 {
        for signal in [SIGHUP, SIGUSR2, SIGUSR1, SIGHUP] {
            server.signal(signal);
            std::thread::sleep(Duration::from_millis(round * 7));
        }
        load.go_on(10);
    }
    // The last takeover has finished when nothing changes any more.
    let mut seen = Vec::new();
    wait_until("it is quiet", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = server.supervisor().children();
        now.len() == 2 && std::mem::replace(&mut seen, now.clone()) == now
    });
    load.end_without_failure();
    server.stop();
}

#[test]
fn a_unix_socket_is_kept_and_removed_at_the_end() {
    use std::os::unix::fs::MetadataExt;
    let (folder, programs) = (Folder::new(), Folder::new());
    folder.file("a.txt", "a");
    let program = install(&programs);
    let file = config(&folder, "", "php = false");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("\"127.0.0.1:0\"", "\"127.0.0.1:0\", \"unix:a web.sock\"");
    folder.file("howdah.toml", text);
    let mut server = Setup::config(&file).program(&program).start();
    let socket = folder.path().join("a web.sock");
    let inode = fs::metadata(&socket).unwrap().ino();
    let get = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /a.txt HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get().ends_with("\r\n\r\na"));
    server.signal(SIGUSR2);
    server.wait_for_log("taken over; serving");
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode, "the same socket");
    assert!(get().ends_with("\r\n\r\na"));
    server.signal(SIGTERM);
    assert!(server.wait().success());
    assert!(!socket.exists(), "a stopped server leaves no socket");
}
