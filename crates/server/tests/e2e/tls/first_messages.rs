//! First messages of many clients that come at the same time.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_sys::poll;
use howdah_sys::signal::SIGSTOP;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::LISTEN;
use super::client::{Authority, Trust, files};
use super::hostile::first_record;
use crate::site::{Site, far_limits};
use crate::support::{PATIENCE, wait_until};

const CLIENTS: usize = 64;
/// The number of the signal on Linux.
const SIGCONT: i32 = 18;
/// Time for which a front may be stopped before the supervisor replaces it, and some more.
const STOPPED: Duration = Duration::from_secs(3);
const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// All of them have connected before, so that no limit of new connections helps.
#[test]
fn a_request_does_not_wait_for_the_handshakes_of_many_clients() {
    let place = (0..20)
        .find_map(|_| place_of_a_request())
        .expect("a machine that is fast enough");
    assert!(place <= CLIENTS / 4, "{place} of {CLIENTS} handshakes came before the request");
}

#[test]
fn certificates_of_handshakes_that_do_not_end_count_in_the_clients_memory() {
    let authority = Authority::new();
    let pair = authority.certify(&["a.example"]);
    let folder = files(&[("a", &pair)]);
    folder.file("long.pem", pair.certificate.repeat(20));
    let config = format!(
        "{LISTEN}[limits]\nhandshake_timeout = \"5m\"\nclient_memory = \"1M\"\n{1}\
         [[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/long.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display(),
        far_limits(""),
    );
    let site = Site::configured(&[("a.txt", "content")], &config);
    let address = site.server.addresses()[1];
    let client = authority.client(Trust::Tls13);
    let hello = first_record(&client);
    // The first byte of the answer: 22 is a message of a handshake, 21 an alert.
    let (mut open, mut first_bytes) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&hello).unwrap();
        let mut first = [0];
        socket.read_exact(&mut first).unwrap();
        first_bytes.push(first[0]);
        open.push(socket);
    }
    assert_eq!((first_bytes[0], first_bytes[199]), (22, 21), "{first_bytes:?}");
    drop(open);
    wait_until("the memory is free again", || client.is_accepted(address, "a.example"));
}

/// Returns how many of [`CLIENTS`] get the server's first message before a visitor gets a response,
/// where the visitor has asked after all of them. `None`: the machine was too slow.
fn place_of_a_request() -> Option<usize> {
    let authority = Authority::new();
    let folder = files(&[("a", &authority.certify(&["a.example"]))]);
    let config = format!(
        "{LISTEN}threads = 1\ncontrol = \"control\"\n[limits]\nhandshake_timeout = \"5m\"\n{1}\
         [[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false }}\n",
        folder.path().display(),
        far_limits(""),
    );
    let site = Site::configured(&[("a.txt", "content")], &config);
    let hello = first_record(&authority.client(Trust::Tls13));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    LocalSet::new()
        .block_on(&runtime, order_of_answers(&site, &hello))
        .map(|order| {
            let place = order.iter().position(|number| *number == CLIENTS);
            place.expect("the visitor has an answer")
        })
}

/// Returns the numbers of the clients in the order in which they get answers. The last one is the
/// visitor, who asks for a file.
async fn order_of_answers(site: &Site, hello: &[u8]) -> Option<Vec<usize>> {
    let [plain, encrypted] = *site.server.addresses() else {
        panic!("two listeners");
    };
    let mut streams = Vec::new();
    for number in 0..CLIENTS {
        streams.push(Rc::new(connect(encrypted, number).await));
    }
    let visitor = Rc::new(connect(plain, CLIENTS).await);
    visitor.try_write(REQUEST).unwrap();
    let mut room = [0; 4096];
    visitor.readable().await.unwrap();
    assert!(visitor.try_read(&mut room).unwrap() > 0);
    // Only then the library waits for more.
    assert!(visitor.try_read(&mut room).is_err(), "the response was short");
    streams.push(visitor);
    wait_until("the clients are connected", || site.connections() == CLIENTS + 1);

    let order = Rc::new(RefCell::new(Vec::new()));
    let heard = streams.iter().cloned().enumerate().map(|(number, stream)| {
        let order = Rc::clone(&order);
        spawn_local(async move {
            stream.readable().await.unwrap();
            order.borrow_mut().push(number);
        })
    });
    let heard: Vec<_> = heard.collect();
    let front = site.server.front();
    let since = Instant::now();
    front.signal(SIGSTOP);
    let is_stopped = || front.status("State").is_some_and(|state| state.starts_with('T'));
    wait_until("the front is stopped", is_stopped);
    for (number, stream) in streams.iter().enumerate() {
        let message = if number == CLIENTS { REQUEST } else { hello };
        assert_eq!(stream.try_write(message).unwrap(), message.len());
    }
    // The tasks begin to wait, and what the system has said about the sockets so far is read.
    for _ in 0..2 * streams.len() {
        yield_now().await;
    }
    assert_eq!(*order.borrow(), [0_usize; 0]);
    front.signal(SIGCONT);
    if since.elapsed() > STOPPED {
        return None;
    }
    // The system lists the sockets in the order in which something comes.
    for stream in &streams {
        let has_answer = || poll::readable(&[stream.as_fd()], Some(Duration::ZERO)).unwrap()[0];
        wait_until("everybody has an answer", has_answer);
    }
    for task in heard {
        task.await.unwrap();
    }
    Some(order.take())
}

/// Connects from an address of this client's own.
async fn connect(address: SocketAddr, number: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let last = u8::try_from(number + 20).unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}
