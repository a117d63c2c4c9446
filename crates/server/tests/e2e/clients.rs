//! Clients that take more than their share: of connections, of requests, of time.

use std::time::{Duration, Instant};

use crate::site::{Options, Site, TAKES_PROXY, far_limits};
use crate::support::{Folder, Setup, has_php, wait_until};
use crate::wire::Wire;

fn site(top: &str, limits: &str, of_site: &str) -> Site {
    let config = format!(
        "listen = [\"127.0.0.1:0\", {TAKES_PROXY}]\ncontrol = \"control\"\n{top}\n\
         [limits]\n{}{limits}\n\
         [log]\naccess = \"access.log\"\n[[site]]\nname = \"shop\"\nroot = \"public\"\n\
         php = false\n\
         {of_site}\n",
        far_limits(limits)
    );
    Site::configured(&[("a.txt", "content")], &config)
}

#[test]
fn a_client_that_asks_too_often_is_told_when_to_come_back_and_another_is_served() {
    let site = site("threads = 2", "client_requests = \"1/h\"\nclient_burst = 3", "");
    let mut wire = site.connect();
    for _ in 0..3 {
        assert_eq!(wire.get("/a.txt").status, 200);
    }
    let reply = wire.get("/a.txt");
    assert_eq!(reply.status, 429);
    let seconds: u64 = reply.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&seconds), "{seconds}");
    // The same client on another connection, and another client.
    assert_eq!(site.get("/a.txt").status, 429);
    let mut other = site.connect_as([192, 0, 2, 9]);
    assert_eq!(other.get("/a.txt").status, 200);
    // The connection goes on.
    assert_eq!(wire.get("/a.txt").status, 429);
    site.server.wait_for_log("] shop: 429: ");
    wait_until("the access log has every request", || site.access_log().lines().count() == 7);
    assert_eq!(site.access_log().matches(" 429 ").count(), 3);
}

#[test]
fn a_site_may_have_a_rate_of_its_own() {
    let site = site("", "", "client_requests = \"1/h\"\nclient_burst = 2");
    let mut wire = site.connect();
    let statuses = [(); 3].map(|()| wire.get("/a.txt").status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_client_with_too_many_connections_gets_no_further_one_until_it_closes_one() {
    let site = site("threads = 2", "client_connections = 5", "");
    let mut wires: Vec<Wire> = (0..5).map(|_| site.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.get("/a.txt").text(), "content");
        // Busy from here on: one that waits for a request would make room.
        wire.send("GET /a.txt HTTP/1.1\r\nHost: ");
    }
    let mut refused = site.connect();
    refused.expect_close();
    site.server
        .wait_for_log("the client has as many connections as `client_connections` allows");
    let mut other = site.connect_as([192, 0, 2, 9]);
    assert_eq!(other.get("/a.txt").text(), "content");
    drop(wires.pop());
    wait_until("there is room again", || {
        let mut wire = site.connect();
        wire.try_send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        wire.rest_or_reply() == b"content"
    });
    for wire in &mut wires {
        wire.send("x\r\n\r\n");
        assert_eq!(wire.reply("GET").text(), "content");
    }
}

#[test]
fn a_client_with_idle_connections_alone_gets_a_further_one_in_place_of_the_oldest() {
    let site = site("threads = 1", "client_connections = 5\nkeep_alive_timeout = \"1h\"", "");
    let mut wires: Vec<Wire> = (0..5).map(|_| site.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.get("/a.txt").text(), "content");
    }
    let mut other = site.connect_as([192, 0, 2, 9]);
    assert_eq!(other.get("/a.txt").text(), "content");
    wait_until("there is room at once, but for connections that were busy a moment ago", || {
        let mut wire = site.connect();
        wire.try_send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        wire.rest_or_reply() == b"content"
    });
    let ended = || {
        let silence = Duration::from_millis(1);
        wires.iter().filter(|wire| !wire.is_silent_for(silence)).count()
    };
    wait_until("one of the client's has ended", || ended() > 0);
    assert_eq!(ended(), 1);
    assert_eq!(other.get("/a.txt").text(), "content", "another client's idle connection stays");
}

#[test]
fn all_loopback_addresses_share_the_requests_of_one_client() {
    let site = site("threads = 2", "client_requests = \"1/h\"\nclient_burst = 3", "");
    let ask = |last| {
        let mut wire = Wire::connect_from([127, 0, last, 9], site.server.address());
        wire.get("/a.txt").status
    };
    assert_eq!([2, 3, 4, 5, 6].map(ask), [200, 200, 200, 429, 429]);
    assert_eq!(site.get("/a.txt").status, 429);
    assert_eq!(site.connect_as([192, 0, 2, 9]).get("/a.txt").status, 200);
}

#[test]
fn a_trusted_proxy_on_this_machine_is_no_client() {
    let limits = "client_connections = 2\nclient_requests = \"1/h\"\nclient_burst = 1";
    let site = site("trusted_proxies = [\"127.0.0.0/8\"]", limits, "");
    let ask = |wire: &mut Wire, client: &str| {
        wire.ask("GET", "/a.txt", &[("X-Forwarded-For", client)], b"").status
    };
    let mut wires: Vec<Wire> = (1..7)
        .map(|last| Wire::connect_from([127, 0, 0, last], site.server.address()))
        .collect();
    for (number, wire) in wires.iter_mut().enumerate() {
        assert_eq!(ask(wire, &format!("192.0.2.{number}")), 200);
    }
    assert_eq!(ask(&mut wires[5], "192.0.2.0"), 429, "the proxy's clients are limited");
}

#[test]
fn busy_connections_of_many_loopback_addresses_leave_room_for_others() {
    let site = site("threads = 2", "connections = 20", "");
    // None of them is idle.
    let _drips: Vec<Wire> = (0..30)
        .map(|last| {
            let mut wire = Wire::connect_from([127, 0, 1, last], site.server.address());
            wire.try_send("GET /a.txt HTTP/1.1\r\nHost: ");
            wire
        })
        .collect();
    site.server
        .wait_for_log("the client has as many connections as `client_connections` allows");
    assert_eq!(site.connect_as([192, 0, 2, 9]).get("/a.txt").text(), "content");
    assert_eq!(site.connect_as([192, 0, 2, 10]).get("/a.txt").text(), "content");
}

#[test]
fn the_log_says_that_new_connections_wait_at_the_limit() {
    let site = site("threads = 2", "connections = 4\nclient_connections = 4", "");
    // Of as many clients: one alone could be closed at its own limit instead.
    let _busy: Vec<Wire> = (0..5)
        .map(|last| {
            let mut wire = site.connect_as([192, 0, 2, last]);
            wire.send("GET /a.txt HTTP/1.1\r\nHost: ");
            wire
        })
        .collect();
    site.server
        .wait_for_log("4 are open, as many as `connections` of `[limits]` allows");
}

#[test]
fn an_idle_crowd_makes_room_for_new_visitors_at_once() {
    let limits = "connections = 40\nclient_connections = 40\nkeep_alive_timeout = \"1h\"";
    let site = site("threads = 2", limits, "");
    let mut crowd: Vec<Wire> = (0..40).map(|_| site.connect()).collect();
    for wire in &mut crowd {
        assert_eq!(wire.get("/a.txt").text(), "content");
    }
    // None of the crowd goes by itself within the hour.
    for _ in 0..100 {
        assert_eq!(site.get("/a.txt").text(), "content");
    }
    crowd[0].expect_close(); // The longest idle went first.
}

#[test]
fn busy_connections_are_not_closed_for_new_ones() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[crate::site::HELD, ("index.php", "<?php echo 'x';")],
        &Options {
            limits: "connections = 4\nclient_connections = 4",
            ..Options::default()
        },
    );
    let mut busy = site.hold_worker();
    let _idle: Vec<Wire> = (0..3)
        .map(|_| {
            let mut wire = site.connect();
            assert_eq!(wire.get("/").text(), "x");
            wire
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(site.get("/").text(), "x");
    }
    site.allow("end");
    assert_eq!(busy.reply("GET").text(), "done");
}

#[test]
fn a_body_that_drips_is_given_up() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[("index.php", "<?php echo strlen(file_get_contents('php://input'));")],
        &Options {
            limits: "body_rate = \"1M\"",
            ..Options::default()
        },
    );
    let began = Instant::now();
    let mut wire = site.connect();
    wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    // Without the rate, each byte would renew body_timeout.
    wait_until("it is given up", || {
        wire.try_send("x");
        std::thread::sleep(Duration::from_millis(500));
        !site.log_lines("more slowly than `body_rate`").is_empty()
    });
    // Every body has 20 seconds.
    assert!(began.elapsed() >= Duration::from_secs(19), "{:?}", began.elapsed());
    assert_eq!(wire.reply("POST").status, 408);
}

#[test]
fn a_reader_that_drips_is_given_up() {
    let site = site("", "send_rate = \"100M\"\nsend_timeout = \"1s\"", "");
    site.file("big.bin", vec![b'x'; 64 << 20]);
    let mut wire = site.connect();
    wire.request("GET", "/big.bin", &[], b"");
    // Much is taken within each second, but far less than the rate.
    let mut taken = 0;
    while site.access_log().is_empty() {
        wire.read_some(1 << 20);
        taken += wire.take_input().len();
        assert!(taken < 60 << 20, "a reader that drips gets all of it");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(site.access_log().contains(" 200 "), "{}", site.access_log());
}

#[test]
fn a_crowd_does_not_stop_the_event_loops_for_a_larger_table_of_descriptors() {
    let site = site("threads = 2", "connections = 500", "");
    // The kernel doubles the table when it is full, and stops all threads that open something.
    let size: u64 = site.server.front().status("FDSize").unwrap().parse().unwrap();
    assert!(size >= 1000, "the front has a table for {size} descriptors");
}

#[test]
fn a_low_limit_of_open_files_is_said_and_kept() {
    let folder = Folder::new();
    folder.file("public/a.txt", "content");
    let config = folder.file(
        "howdah.toml",
        "listen = [\"127.0.0.1:0\"]\nthreads = 2\n[log]\naccess = \"off\"\n\
         [limits]\nkeep_alive_timeout = \"1h\"\nclient_connections = 300\n[[site]]\n\
         root = \"public\"\nphp = false\n",
    );
    // As an ordinary user: root may raise the limit.
    let limited = folder.program("limited", "#!/bin/sh\nulimit -n 300\nexec \"$HOWDAH\" \"$@\"\n");
    let file = config.to_str().unwrap();
    let mut setup = Setup::with(&["serve", "--config", file])
        .environment("HOWDAH", crate::support::HOWDAH)
        .program(&limited);
    if crate::support::Process::own().uid() == 0 {
        setup = setup.user(65_534);
    }
    let server = setup.start();
    server.wait_for_log("connections at once, not 16384");
    let ask = |wire: &mut Wire| wire.try_send("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut crowd: Vec<Wire> = (0..300).map(|_| Wire::connect(server.address())).collect();
    crowd.iter_mut().for_each(|wire| _ = ask(wire));
    // Idle ones are closed for those that wait.
    let answered = crowd.iter_mut().filter_map(|wire| {
        let reply = wire.rest_or_reply();
        (reply == b"content").then_some(())
    });
    let answered = answered.count();
    assert!(answered >= 50, "{answered}");
    assert_eq!(Wire::connect(server.address()).get("/a.txt").text(), "content");
    assert!(!server.log().contains("cannot accept"), "{}", server.log());
}
