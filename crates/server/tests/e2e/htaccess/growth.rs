//! Growth that a few lines of directives may cause: content in filters, and variables.

use std::io::Write;
use std::time::Duration;

use crate::site::{HELD, Site};
use crate::support::has_php;
use crate::wire::{Reply, Wire};

/// Kilobytes that the front may have taken at any time, in a debug build too.
const MOST: u64 = 72 << 10;

/// The front keeps resolutions, and encodes variables for each call of a script.
#[test]
fn variables_of_many_requests_take_little_memory() {
    if !has_php() {
        return;
    }
    let long = "x".repeat(8_000);
    let set = |number: u32| -> String {
        (0..number).map(|number| format!("SetEnv B{number} {long}\n")).collect()
    };
    let script = "<?php echo strlen($_SERVER['B19']);";
    let site = Site::new(&[
        ("most/.htaccess", &set(20)),
        ("most/p.php", script),
        ("beyond/.htaccess", &set(370)),
        ("beyond/p.php", script),
    ]);
    for (folder, expected) in [("most", 200), ("beyond", 500)] {
        for number in 0..300 {
            for _ in 0..3 {
                let reply = site.get(&format!("/{folder}/p.php?{number}"));
                assert_eq!(reply.status, expected, "{folder} {number}");
                assert!(expected != 200 || reply.text() == "8000", "{}", reply.text());
            }
        }
        assert!(
            site.server.front().peak_memory() < MOST,
            "{folder}: {} kB",
            site.server.front().peak_memory()
        );
    }
    site.server
        .wait_for_log("SetEnv: the variables and notes of this request become longer");
}

/// Requests that wait for a worker have what directives have set for them.
#[test]
fn requests_that_wait_with_large_variables_take_little_memory() {
    if !has_php() {
        return;
    }
    const WAITING: usize = 500;
    let long = "x".repeat(8_000);
    let set: String = (0..20).map(|number| format!("SetEnv B{number} {long}\n")).collect();
    let site = Site::with_php(
        &[
            HELD,
            ("small.php", "<?php echo 'small';"),
            ("large/.htaccess", &set),
            ("large/p.php", "<?php echo 'large';"),
        ],
        "workers = 1\nqueue = 1000",
    );
    let _held = site.hold_worker();
    let ask = |target: &str| {
        let mut wire = site.connect();
        wire.request("GET", target, &[], b"");
        wire
    };
    // One after the other: in a debug build a crew evaluates the directives, and few wait for that.
    let ask_for_large = |number| {
        let wire = ask(&format!("/large/p.php?{number}"));
        wire.is_silent_for(Duration::from_millis(5));
        wire
    };
    let mut large: Vec<Wire> = (0..WAITING).map(ask_for_large).collect();
    site.server.wait_for_log(
        "503: the variables, notes and added fields of the site's requests take as much memory as \
         those of a site may",
    );
    let mut small: Vec<Wire> = (0..20).map(|_| ask("/small.php")).collect();
    site.allow("end");
    let is_small = |wire: &mut Wire| wire.reply("GET").text() == "small";
    assert!(small.iter_mut().all(is_small), "{}", site.server.log());
    let replies: Vec<Reply> = large.iter_mut().map(|wire| wire.reply("GET")).collect();
    let (refused, served): (Vec<&Reply>, Vec<&Reply>) =
        replies.iter().partition(|reply| reply.status == 503);
    assert!(refused.iter().all(|reply| reply.field("retry-after").is_some()));
    assert!(served.iter().all(|reply| reply.text() == "large"), "{}", site.server.log());
    // Each has 160 KB of variables, and the site 32 MiB.
    assert!((100..=210).contains(&served.len()), "{} were served", served.len());
    assert!(
        site.server.front().peak_memory() < MOST + (40 << 10),
        "{} kB",
        site.server.front().peak_memory()
    );
    assert_eq!(site.get("/large/p.php?again").text(), "large", "there is room again");
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_that_substitutions_multiply_takes_little_memory() {
    let line = format!("{}\n", "a".repeat(60));
    let directives = format!(
        "SetOutputFilter SUBSTITUTE\nSubstituteMaxLineLength 2000m\nSubstitute s/a/{}/n\n",
        "b".repeat(1000)
    );
    let site = Site::new(&[(".htaccess", &directives), ("a.txt", &line.repeat(2000))]);
    let reply = site.get("/a.txt");
    assert_eq!((reply.status, reply.body.len()), (200, 2000 * 60_001));
    assert!(reply.body.iter().all(|byte| matches!(byte, b'b' | b'\n')));
    assert!(site.server.front().peak_memory() < MOST, "{} kB", site.server.front().peak_memory());
}

#[test]
fn a_response_passes_a_bounded_number_of_filters() {
    let directives = format!("SetOutputFilter {}\nSubstitute s/a/aa/n\n", "SUBSTITUTE;".repeat(40));
    let site = Site::new(&[(".htaccess", &directives), ("a.txt", "a")]);
    assert_eq!(site.get("/a.txt").text(), "a".repeat(1 << 16));
    site.server.wait_for_log("more than 16 output filters: the others are not used");
}

#[test]
fn packed_content_is_unpacked_with_little_memory() {
    let content: Vec<u8> = (0..100_000_u32)
        .flat_map(|number| format!("{number:8}{}", "x".repeat(300)).into_bytes())
        .collect();
    let packed = gzip(&content);
    assert!(packed.len() < 1 << 20, "the whole of it would be filtered before the head");
    let directives = "AddEncoding x-gzip .gz\nSetOutputFilter INFLATE\n";
    let site = Site::new(&[(".htaccess", directives)]);
    site.file("a.txt.gz", &packed);
    let reply = site.get("/a.txt.gz");
    assert_eq!((reply.status, reply.field("content-encoding")), (200, None));
    assert!(reply.body == content, "{} bytes", reply.body.len());
    assert!(site.server.front().peak_memory() < MOST, "{} kB", site.server.front().peak_memory());
}

/// The default of Apache's DeflateInflateRatioLimit and DeflateInflateRatioBurst.
#[test]
fn content_that_unpacks_to_more_than_200_times_its_length_is_given_up() {
    let directives = "AddEncoding x-gzip .gz\nSetOutputFilter INFLATE\n";
    let site = Site::new(&[(".htaccess", directives)]);
    site.file("bomb.txt.gz", gzip(&vec![0; 32 << 20]));
    let reply = site.get("/bomb.txt.gz");
    assert_eq!(reply.status, 500);
    site.server
        .wait_for_log("the compressed content unpacks to more than DeflateInflateRatioLimit");
    assert!(site.server.front().peak_memory() < MOST, "{} kB", site.server.front().peak_memory());
}
