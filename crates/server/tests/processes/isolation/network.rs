//! Connections that a site may make.

use std::net::TcpListener;

use super::{Sites, can_run, has_landlock};

/// Connects, and answers `yes` or the `errno`, which is 0 if there was no socket.
fn connect(to: &str) -> String {
    format!("echo @stream_socket_client('{to}', $errno) ? 'yes' : $errno;")
}

const NO_SOCKET: &str = "0";

const EACCES: &str = "13";

#[test]
fn a_site_connects_only_where_it_may() {
    if !can_run() || !has_landlock() {
        return;
    }
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (allowed, other) = (listen(), listen());
    let to = |listener: &TcpListener| format!("tcp://{}", listener.local_addr().unwrap());
    let sites = Sites::start(&format!("connect = [\"{}\"]", allowed.local_addr().unwrap()));
    assert_eq!(sites.run(&connect(&to(&allowed))), "yes");
    assert_eq!(sites.run(&connect(&to(&other))), EACCES);
    assert_eq!(sites.run_in("one", &connect(&to(&other))), "yes");
    sites
        .server
        .wait_for_log("of every address, because the kernel compares ports alone");
    // Other ways out: programs, UDP, MPTCP, raw and local sockets, and sending that connects.
    let port = other.local_addr().unwrap().port();
    let refused = [
        format!(
            "exec('bash -c \": >/dev/tcp/127.0.0.1/{port}\" 2>/dev/null', $o, $status); echo \
             $status ? 'no' : 'yes';"
        ),
        "echo @socket_create(AF_INET, SOCK_DGRAM, 0) ? 'yes' : 'no';".to_owned(),
        "echo @socket_create(AF_INET, SOCK_STREAM, 262) ? 'yes' : 'no';".to_owned(),
        "echo @socket_create(AF_INET, SOCK_STREAM, 132) ? 'yes' : 'no';".to_owned(),
        "echo @socket_create(AF_UNIX, SOCK_STREAM, 0) ? 'yes' : 'no';".to_owned(),
        format!(
            "$s = socket_create(AF_INET, SOCK_STREAM, 0); echo @socket_sendto($s, 'x', 1, \
             0x20000000, '127.0.0.1', {port}) === false ? 'no' : 'yes';"
        ),
    ];
    for code in refused {
        assert_eq!(sites.run(&code), "no", "{code}");
    }
    sites.server.stop();
}

#[test]
fn an_empty_list_is_no_connection_at_all() {
    if !can_run() || !has_landlock() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sites = Sites::start("connect = []");
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    assert_eq!(sites.run(&connect(&to)), NO_SOCKET);
    assert_eq!(sites.run(&connect("udp://127.0.0.1:53")), NO_SOCKET);
    sites.server.stop();

    let sites = Sites::start("connect = [\"udp\", \"unix:/run/x.sock\"]");
    assert_eq!(sites.run(&connect(&to)), NO_SOCKET);
    assert_eq!(sites.run(&connect("udp://127.0.0.1:53")), "yes");
    assert_eq!(sites.run(&connect("unix:///run/howdah-no-such-socket")), "2");
    sites.server.stop();
}

#[test]
fn abstract_sockets_of_other_sites_are_out_of_reach() {
    if !can_run() || !has_landlock() {
        return;
    }
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("howdah-isolation-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let sites = Sites::start_as("sandbox = \"off\"", "", None);
    let code = connect(&format!("unix://\\0{name}")).replace('\'', "\"");
    assert_eq!(sites.run_in("one", &code), "yes");
    assert_eq!(sites.run(&code), "1");
    sites.server.stop();
}
