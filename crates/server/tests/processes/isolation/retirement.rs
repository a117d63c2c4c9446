//! A pool's processes that hold on to everything when their generation ends.

use super::{Sites, can_run};
use crate::support::{Client, Process, Setup, wait_until};

/// Functions of the catalogue of attacks.
const ATTACK: &str = include_str!("../../../../../tests/attacks/attack.php");

/// `?linger=N` notes which zygote its worker has, waits for the socket of `?keep=N`, sends it all
/// descriptors of the worker, where they stay in flight, and leaves processes behind that are
/// stopped, ignore all signals, or wait for a child that does. `?keep=N` leaves a process behind
/// that takes part in no request, has all signals ignored, and listens at a socket. It does nothing
/// where the former generation has taken a last connection: in a worker of that same zygote.
const HOLD: &str = r#"
function leave(callable $then): void
{
    if (c()->fork() === 0) {
        c()->setsid();
        foreach (range(1, 64) as $number) {
            c()->signal($number, 1);
        }
        $then();
        while (true) {
            c()->sleep(1000);
        }
    }
}
if (isset($_GET['keep'])) {
    $number = $_GET['keep'];
    if (file_get_contents(__DIR__ . "/lingers-$number") === (string) posix_getppid()) {
        exit('not yet');
    }
    leave(function () use ($number) {
        $GLOBALS['server'] = stream_socket_server('unix://' . __DIR__ . "/keeper-$number");
        touch(__DIR__ . "/kept-$number");
    });
    echo 'kept';
}
if (isset($_GET['linger'])) {
    $number = $_GET['linger'];
    while (ob_get_level()) ob_end_flush();
    file_put_contents(__DIR__ . "/lingers-$number", posix_getppid());
    echo 'begun';
    flush();
    while (!file_exists(__DIR__ . "/kept-$number")) {
        clearstatcache();
        usleep(1000);
    }
    $own = array_keys(descriptors());
    $before = descriptors('socket:');
    $client = stream_socket_client('unix://' . __DIR__ . "/keeper-$number");
    $socket = array_key_first(array_diff_key(descriptors('socket:'), $before));
    // Some may be gone, such as the one of the folder that was listed.
    $sent = count(array_filter($own, fn ($one) => send($socket, 'x', [$one]) > 0));
    leave(fn () => c()->kill(getmypid(), 19));
    leave(fn () => c()->vfork() === 0 ? c()->sleep(1000) : 0);
    leave(fn () => leave(fn () => c()->prctl(36, 1, 0, 0, 0)));
    echo $sent > 5 ? ' and held' : " but $sent descriptors were sent";
}
"#;

#[test]
fn processes_that_hold_on_to_everything_end_with_their_generation() {
    if !can_run() {
        return;
    }
    let sites = Sites::start("");
    sites.folder.file("two/public/hold.php", format!("{ATTACK}\n{HOLD}"));
    let file = sites.folder.path().join("howdah.toml");
    let ask = |target: String| {
        let mut client = Client::connect(sites.server.address());
        client
            .send(format!("GET /hold.php?{target} HTTP/1.1\r\nHost: two.example\r\n\r\n"))
            .unwrap();
        client
    };
    let mut descriptors = Vec::new();
    for round in 0..4 {
        let former = sites.server.all_processes();
        let mut lingering = ask(format!("linger={round}"));
        lingering.wait_for(b"begun");
        let (status, _, told) = Setup::with(&["reload", "--config", file.to_str().unwrap()]).run();
        assert_eq!(status, Some(0), "{told}");
        wait_until("the new generation answers", || {
            let answer = ask(format!("keep={round}")).answer().unwrap().text().to_owned();
            assert!(["kept", "not yet"].contains(&answer.as_str()), "{answer}");
            answer == "kept"
        });
        assert_eq!(lingering.answer().unwrap().text(), "begun and held");
        drop(lingering);
        let supervisor = sites.server.supervisor();
        let of_former = |process: &&Process| **process != supervisor && process.lives();
        wait_until("the former generation has ended", || {
            !former.iter().any(|process| of_former(&process))
        });
        // Those that it has left are killed with it.
        wait_until("one process that was left is there", || {
            let of_pools = |process: &Process| {
                process.arguments().starts_with("howdah-php")
                    && process
                        .status("SigIgn")
                        .is_some_and(|ignored| ignored.trim_start_matches('0').len() > 12)
            };
            sites.server.all_processes().into_iter().filter(of_pools).count() == 1
        });
        wait_until("a second zygote of each pool stands by", || {
            sites.server.supervisor().standbys().len() == 2
        });
        descriptors.push(supervisor.settled_descriptors().len());
        assert_eq!(sites.run_in("one", "echo 'fine';"), "fine");
    }
    assert!(descriptors[3] <= descriptors[1], "the supervisor loses descriptors: {descriptors:?}");
    sites.server.stop();
}
