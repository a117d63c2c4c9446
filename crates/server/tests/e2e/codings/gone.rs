//! Clients that leave while their content is compressed.

use std::time::{Duration, Instant};

use h3::error::Code;
use socket2::SockRef;

use super::{Http2, Served, Site, Special};
use crate::site::Options;

const BROTLI: (&str, &str) = ("accept-encoding", "br");
const COMPRESS: &str = "compress = [\"br\"]";
/// Room for all compressors of one client.
const MEMORY: &str = "client_memory = \"256M\"";
const OPTIONS: Options<'_> = Options {
    top: "threads = 1",
    limits: MEMORY,
    log: "",
    site: COMPRESS,
    php: "",
};

/// Requests that take turns at being compressed.
const TOGETHER: usize = 8;
/// The time after which clients leave: the requests have come, and not all are answered.
const LEAVE: Duration = Duration::from_millis(20);

/// Makes files that were never compressed, and lets `ask` ask for them and leave. Returns whether
/// the server has noticed it before it had the responses. An attempt that the machine was too fast
/// or too slow for is repeated.
fn is_noticed(site: &Site, version: &str, ask: impl Fn(&[String])) -> bool {
    let noticed = format!(" {version}\" 499 ");
    (0..20).any(|round| {
        let file = |number: usize| {
            let name = format!("{round}-{number}.txt");
            let line = |line: usize| format!("{round} {number} {}\n", line * line);
            site.file(&name, (0..55_000).map(line).collect::<String>());
            format!("/{name}")
        };
        let targets: Vec<String> = (0..TOGETHER).map(file).collect();
        ask(&targets);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end && !site.access_log().contains(&noticed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        site.access_log().contains(&noticed)
    })
}

#[test]
fn content_is_compressed_no_further_for_a_client_that_resets_its_connection() {
    let site = Site::with(&[], &OPTIONS);
    let is_noticed = is_noticed(&site, "HTTP/1.1", |targets| {
        let mut wires: Vec<_> = targets.iter().map(|_| site.connect()).collect();
        for (wire, target) in wires.iter_mut().zip(targets) {
            wire.request("GET", target, &[BROTLI], b"");
            SockRef::from(wire.stream()).set_linger(Some(Duration::ZERO)).unwrap();
        }
        std::thread::sleep(LEAVE);
    });
    assert!(is_noticed);
}

#[test]
fn content_is_compressed_no_further_for_a_client_that_resets_its_stream_of_http2() {
    let site = Site::with(&[], &OPTIONS);
    let client = Http2::connect(&site);
    let is_noticed = is_noticed(&site, "HTTP/2.0", |targets| {
        client.run(async {
            let mut streams = Vec::new();
            for target in targets {
                streams.push(client.begin(client.request("GET", target, &[BROTLI]), true).await);
            }
            tokio::time::sleep(LEAVE).await;
            drop(streams);
            // The connection sends the resets.
            tokio::time::sleep(LEAVE).await;
        });
    });
    assert!(is_noticed);
}

#[test]
fn content_is_compressed_no_further_for_a_client_that_stops_a_stream_of_http3() {
    let special = Special {
        site: COMPRESS,
        limits: MEMORY,
        ..Special::default()
    };
    let served = Served::with(&[], &special);
    let client = served.connect();
    let is_noticed = is_noticed(&served.site, "HTTP/3.0", |targets| {
        client.run(async {
            let mut streams = Vec::new();
            for target in targets {
                let request = client.request("GET", target, &[BROTLI]);
                let mut stream = client.begin(request).await.unwrap();
                stream.finish().await.unwrap();
                streams.push(stream);
            }
            tokio::time::sleep(LEAVE).await;
            for stream in &mut streams {
                stream.stop_sending(Code::H3_REQUEST_CANCELLED);
            }
            tokio::time::sleep(LEAVE).await;
        });
    });
    assert!(is_noticed);
}
