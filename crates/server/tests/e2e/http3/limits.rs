//! Attacks, and clients that take too long. Each meets the limit that is for it; other clients
//! notice nothing.

use std::net::UdpSocket;
use std::time::Duration;

use h3::error::{Code, StreamError};
use quinn::{ConnectionError, Endpoint, TransportConfig, VarInt};

use super::client::{Http3, handshake, reply, settings};
use super::frames::{DATA, HEADERS, POST, frame, section};
use super::{Served, Special, configured};
use crate::support::wait_until;
use crate::tls::client::{Authority, files};

/// A connection of QUIC on which a test writes what no library would.
struct Raw {
    client: Http3,
}

impl Raw {
    fn connect(served: &Served) -> Raw {
        Raw { client: served.connect() }
    }

    /// Writes to a stream again and again until the server ends the connection, and returns the
    /// code.
    fn flood(&self, is_request: bool, begin: &[u8], more: &[u8]) -> Option<VarInt> {
        let connection = self.client.connection.clone();
        self.client.run(async move {
            // The client still wants the response: dropped, this side would stop it.
            let mut _response = None;
            let mut stream = match is_request {
                true => {
                    let (send, receive) = connection.open_bi().await.unwrap();
                    _response = Some(receive);
                    send
                }
                false => connection.open_uni().await.unwrap(),
            };
            let mut sent = stream.write_all(begin).await;
            while sent.is_ok() {
                sent = stream.write_all(more).await;
            }
            code(connection.closed().await)
        })
    }
}

fn code(end: ConnectionError) -> Option<VarInt> {
    match end {
        ConnectionError::ApplicationClosed(close) => Some(close.error_code),
        _ => None,
    }
}

fn excessive() -> Option<VarInt> {
    VarInt::from_u64(Code::H3_EXCESSIVE_LOAD.value()).ok()
}

fn served(http3: &str) -> Served {
    let large = "x".repeat(300_000);
    let files = [("a.txt", "hello"), ("large.txt", large.as_str())];
    Served::with(&files, &Special { http3, ..Special::default() })
}

/// Checks that the server has named the key, and goes on.
fn is_named(served: &Served, key: &str) {
    let line = format!("HTTP/3 connection closed: the client exceeds `{key}` of [http3]");
    served.site.server.wait_for_log(&line);
    assert_eq!(served.site.limits_met("http3", key), 1);
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
}

#[test]
fn a_head_without_end() {
    let served = served("header_list = \"16K\"");
    // A HEADERS frame of 2^60 bytes.
    let begin = [&[1][..], &(0xd_u64 << 60).to_be_bytes()].concat();
    assert_eq!(Raw::connect(&served).flood(true, &begin, &[0; 1000]), excessive());
    is_named(&served, "header_list");
}

#[test]
fn empty_frames_of_content_without_end() {
    let served = served("header_list = \"16K\"");
    let head = frame(HEADERS, &section(POST, "/none"));
    let empty = frame(DATA, b"").repeat(1000);
    assert_eq!(Raw::connect(&served).flood(true, &head, &empty), excessive());
    served.site.server.wait_for_log(
        "the client sends frames without content, or trailers, of more than 4 times `header_list` \
         of [http3]",
    );
    assert_eq!(served.site.limits_met("http3", "header_list"), 1);
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
}

#[test]
fn a_name_without_a_certificate_gets_an_alert_that_says_so() {
    let authority = Authority::new();
    let served = served("");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = settings(authority.pem().as_bytes());
    let refused = runtime.block_on(async {
        let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
        handshake(&endpoint, &settings, served.site.server.address(), "unknown.example").await
    });
    let Err(ConnectionError::ConnectionClosed(close)) = refused else {
        panic!("{refused:?}");
    };
    // `unrecognized_name` (RFC 6066 §3, RFC 9001 §4.8).
    assert_eq!(u64::from(close.error_code), 0x100 + 112, "{close:?}");
    let line = "the QUIC handshake failed: there is no certificate for \"unknown.example\"";
    served.site.server.wait_for_log(line);
}

#[test]
fn a_head_that_is_too_large() {
    let served = served("header_list = \"8K\"");
    let client = served.connect();
    // The client's library obeys the server's setting, once it knows the setting.
    assert_eq!(client.get("/a.txt").text(), "hello");
    let long = "x".repeat(9000);
    let request = client.request("GET", "/a.txt", &[("x-long", &long)]);
    assert!(client.run(async { client.begin(request).await.is_err() }));
    assert_eq!(client.get("/a.txt").text(), "hello");
}

#[test]
fn a_small_head_that_decodes_to_a_large_one() {
    let served = served("header_list = \"8K\"");
    let raw = Raw::connect(&served);
    let connection = raw.client.connection.clone();
    // A section with a line of the static table, again and again:
    // `accept: application/dns-message`.
    let mut section = vec![0, 0];
    section.extend(std::iter::repeat_n(0xc0 | 30, 3000));
    let mut frame = vec![1, 0x40 | (section.len() >> 8) as u8, section.len() as u8];
    frame.extend_from_slice(&section);
    let answer = raw.client.run(async move {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&frame).await.unwrap();
        send.finish().unwrap();
        receive.read_to_end(10_000).await.unwrap()
    });
    // A HEADERS frame with `:status: 431`, which is no line of the static table.
    assert_eq!(answer[0], 1);
    assert!(answer.windows(3).any(|part| part == b"431") || answer.len() < 20, "{answer:?}");
    assert_eq!(raw.client.get("/a.txt").text(), "hello");
}

#[test]
fn a_flood_beside_requests() {
    let served = served("control_bytes = 4096");
    // A stream of an unknown kind may say what it likes, and nobody reads it; a control stream may
    // not, and there is one already. Settings are the first word of the encoder's stream.
    let begin = [0x21];
    let raw = Raw::connect(&served);
    let connection = raw.client.connection.clone();
    let end = raw.client.run(async move {
        loop {
            let Ok(mut stream) = connection.open_uni().await else {
                break code(connection.closed().await);
            };
            let _ = stream.write_all(&begin).await;
            let _ = stream.write_all(&[0; 512]).await;
            let _ = stream.finish();
        }
    });
    assert_eq!(end, excessive());
    is_named(&served, "control_bytes");
}

#[test]
fn streams_beside_requests_that_say_nothing() {
    let served = served("control_bytes = 4096");
    let raw = Raw::connect(&served);
    let connection = raw.client.connection.clone();
    let end = raw.client.run(async move {
        while let Ok(mut stream) = connection.open_uni().await {
            let _ = stream.finish();
        }
        code(connection.closed().await)
    });
    assert_eq!(end, excessive());
    is_named(&served, "control_bytes");
}

#[test]
fn requests_that_are_cancelled_at_once() {
    let served = served("resets = 100");
    let other = served.connect();
    assert_eq!(other.get("/a.txt").text(), "hello");
    let client = served.connect();
    let connection = client.connection.clone();
    let end = client.run(async {
        for _ in 0..5000 {
            let Ok(mut stream) = client.begin_get("/large.txt").await else {
                break;
            };
            stream.stop_sending(Code::H3_REQUEST_CANCELLED);
            tokio::task::yield_now().await;
        }
        code(connection.closed().await)
    });
    assert_eq!(end, excessive());
    is_named(&served, "resets");
    assert_eq!(other.get("/a.txt").text(), "hello");
}

#[test]
fn a_client_waits_with_more_requests_than_it_may_have() {
    let served = served("streams = 2");
    let client = served.connect();
    client.run(async {
        let mut pending = Vec::new();
        for _ in 0..2 {
            // Requests whose content never ends.
            let request = client.request("POST", "/a.txt", &[]);
            pending.push(client.begin(request).await.unwrap());
        }
        let mut third = Box::pin(client.begin_get("/a.txt"));
        let begins = tokio::time::timeout(Duration::from_millis(50), &mut third).await;
        assert!(begins.is_err(), "a third stream was opened");
        for mut stream in pending {
            stream.finish().await.unwrap();
            reply(stream).await.unwrap();
        }
        assert_eq!(reply(third.await.unwrap()).await.unwrap().text(), "hello");
    });
}

#[test]
fn a_head_that_does_not_come_in_time() {
    let limits = "head_timeout = \"1s\"";
    let served = Served::with(&[("a.txt", "hello")], &Special { limits, ..Special::default() });
    let client = served.connect();
    let connection = client.connection.clone();
    client.run(async move {
        // On a slow machine the connection itself may be over.
        if let Ok((mut send, mut receive)) = connection.open_bi().await {
            let _ = send.write_all(&[1, 0x40, 100, 0]).await;
            let answer = receive.read_to_end(100).await;
            assert!(answer.is_err(), "{answer:?}");
        }
    });
    let answered = (0..20).find_map(|_| served.connect().try_ask("GET", "/a.txt", &[], b"").ok());
    assert_eq!(answered.expect("an answer").text(), "hello");
}

#[test]
fn clients_prove_where_they_are() {
    let served = served("retry_from = 0");
    let mut client = served.connect();
    assert_eq!(client.get("/a.txt").text(), "hello");
    client.reconnect();
    assert_eq!(client.get("/a.txt").text(), "hello");
    // A client that comes back proves it with what it was given, and another one anew.
    client.forget_tokens();
    client.reconnect();
    assert_eq!(client.get("/a.txt").text(), "hello");
    // A first packet from nowhere gets the answer that asks for the proof, which is shorter.
    let silent = UdpSocket::bind("127.0.0.2:0").unwrap();
    silent.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let packet = first_packet(&served);
    silent.send_to(&packet, served.site.server.address()).unwrap();
    let mut answer = [0; 2000];
    let (length, _) = silent.recv_from(&mut answer).unwrap();
    assert!(length < 300, "{length}");
    // Long header, version 1, Retry.
    assert_eq!((answer[0] & 0xb0, &answer[1..5]), (0xb0, &[0, 0, 0, 1][..]));
    assert!(served.site.limits_met("http3", "retry_from") >= 3);
}

/// Returns the packet with which a client begins.
fn first_packet(served: &Served) -> Vec<u8> {
    first_packet_of(served.authority.pem().as_bytes())
}

/// Returns the packet with which a client begins that trusts the authority in this PEM.
pub fn first_packet_of(authority: &[u8]) -> Vec<u8> {
    let nobody = UdpSocket::bind("127.0.0.3:0").unwrap();
    nobody.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let address = nobody.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = settings(authority);
    runtime.block_on(async {
        let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
        let task = tokio::spawn(async move {
            let _ = handshake(&endpoint, &settings, address, "a.example").await;
        });
        let received = tokio::task::spawn_blocking(move || {
            let mut packet = [0; 2000];
            let (length, _) = nobody.recv_from(&mut packet).unwrap();
            packet[..length].to_vec()
        });
        let packet = received.await.unwrap();
        task.abort();
        packet
    })
}

/// The library begins a packet as long as anything is left of three times what came, and fills it.
#[test]
fn an_answer_to_an_unproven_client_is_hardly_larger_than_three_times_its_packet() {
    for count in [1, 20, 60] {
        let authority = Authority::new();
        let more: Vec<String> = (0..count).map(|number| format!("www{number}.example")).collect();
        let mut names = vec!["a.example"];
        names.extend(more.iter().map(String::as_str));
        let folder = files(&[("a", &authority.certify(&names))]);
        let config = format!(
            "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\n\
             hosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        );
        let site = configured(&[("a.txt", "hello")], &config);
        answers_little(&Served::of(site, authority, folder));
    }
}

fn answers_little(served: &Served) {
    let silent = UdpSocket::bind("127.0.0.2:0").unwrap();
    silent.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let packet = first_packet(served);
    silent.send_to(&packet, served.site.server.address()).unwrap();
    let (mut all, mut answer) = (0, [0; 2000]);
    let (length, _) = silent.recv_from(&mut answer).unwrap();
    all += length;
    // Later packets, as the server repeats itself.
    silent.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    while let Ok((length, _)) = silent.recv_from(&mut answer) {
        all += length;
    }
    // The last packet was begun before.
    assert!(all < 3 * packet.len() + 1200, "{all} bytes for {}", packet.len());
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
}

#[test]
fn handshakes_that_never_end() {
    let limits = "handshake_timeout = \"1s\"\nkeep_alive_timeout = \"1s\"";
    let http3 = "handshakes = 1";
    let special = Special { limits, http3, ..Special::default() };
    let served = Served::with(&[("a.txt", "hello")], &special);
    let packets: Vec<_> = (0..4).map(|_| first_packet(&served)).collect();
    let silent: Vec<UdpSocket> = (0..20).map(|_| UdpSocket::bind("127.0.0.2:0").unwrap()).collect();
    for (socket, packet) in silent.iter().zip(packets.iter().cycle()) {
        socket.send_to(packet, served.site.server.address()).unwrap();
    }
    served
        .site
        .server
        .wait_for_log("the QUIC handshake failed: it took longer than `handshake_timeout`");
    // Four clients, and two threads.
    assert!(served.site.limits_met("http3", "handshakes") > 0);
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
    wait_until("the connections are over", || served.site.connections() == 0);
}

/// Requests that one client may have open by default, beside one of each connection.
const MOST_OPEN: usize = 1024;

#[test]
fn requests_that_a_client_leaves_open_are_refused_where_its_share_of_memory_is_used_up() {
    let served = served("streams = 1000");
    let client = || {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(100_u32.into());
        Http3::with(served.site.server.address(), &served.authority, transport)
    };
    let clients: Vec<Http3> = (0..3).map(|_| client()).collect();
    let mut held = Vec::new();
    let mut refused = 0;
    for client in &clients {
        client.run(async {
            let mut begun = Vec::new();
            for _ in 0..400 {
                begun.push(client.begin_get("/large.txt").await);
            }
            for stream in begun {
                let answered = match stream {
                    Ok(mut stream) => stream.recv_response().await.map(|_| stream),
                    Err(refused) => Err(refused),
                };
                match answered {
                    Ok(stream) => held.push(stream),
                    Err(StreamError::RemoteTerminate { code, .. }) => {
                        assert_eq!(code, Code::H3_REQUEST_REJECTED);
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    assert_eq!(refused, 3 * 400 - MOST_OPEN - 3);
    assert_eq!(served.site.limits_met("http3", "client_memory"), refused as u64);
    served
        .site
        .server
        .wait_for_log("as many requests open as `client_memory` allows");
    assert_eq!(served.connect().get("/a.txt").text(), "hello", "one request on a connection");
    for client in &clients {
        client.connection.close(VarInt::from_u32(0), b"");
        client.run(async { tokio::time::sleep(Duration::from_millis(10)).await });
    }
    let last = client();
    wait_until("there is room again", || {
        let ask = async || {
            let mut stream = last.begin_get("/large.txt").await?;
            stream.recv_response().await?;
            Ok::<_, StreamError>(stream)
        };
        let (first, second) = last.run(async { tokio::join!(ask(), ask()) });
        first.is_ok() && second.is_ok()
    });
}
