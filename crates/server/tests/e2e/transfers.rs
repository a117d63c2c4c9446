//! Files that are sent in many parts, and files that change while they are sent.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::site::Site;
use crate::wire::Wire;

/// More bytes than the sockets of both ends hold.
const LARGE: usize = 32 << 20;

/// Asks for a large file of `a`, and reads its first bytes.
fn begun(name: &str) -> (Site, Wire) {
    let site = Site::new(&[]);
    site.file(name, vec![b'a'; LARGE]);
    let mut wire = site.connect();
    wire.request("GET", &format!("/{name}"), &[], b"");
    let (status, _, fields) = wire.head();
    assert_eq!(status, 200, "{fields:?}");
    assert_eq!(wire.exactly(1000), vec![b'a'; 1000]);
    (site, wire)
}

#[test]
fn a_file_that_is_replaced_while_it_is_sent_arrives_as_it_was() {
    let (site, mut wire) = begun("a.bin");
    fs::rename(site.file("new", vec![b'b'; LARGE]), site.root().join("a.bin")).unwrap();
    assert!(wire.exactly(LARGE - 1000).iter().all(|byte| *byte == b'a'));
    assert_eq!(wire.ask("GET", "/a.bin", &[("Range", "bytes=0-3")], b"").text(), "bbbb");
}

#[test]
fn a_file_that_is_overwritten_while_it_is_sent_does_not_arrive_whole() {
    let (site, mut wire) = begun("a.bin");
    let mut file = File::options().write(true).open(site.root().join("a.bin")).unwrap();
    file.write_all(&vec![b'b'; LARGE]).unwrap();
    assert!(wire.rest().len() < LARGE - 1000, "a mixture of two states");
    site.server.wait_for_log("the file was changed while it was sent");
    let now = site.connect().ask("GET", "/a.bin", &[("Range", "bytes=0-3")], b"");
    assert_eq!(now.text(), "bbbb");
}

/// Gives a file other times, as `touch` does.
fn touch(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let time = SystemTime::now() + Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
}

/// A download of `a.bin` of which half has arrived, since its file has got other times. The servers
/// of other tests may have as many queues of inotify as their user may; then a server cannot know
/// that nobody writes to the file, and breaks the download off.
fn touched() -> (Site, Wire) {
    for _ in 0..20 {
        let (site, mut wire) = begun("a.bin");
        let path = site.root().join("a.bin");
        touch(&path, 10);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        fs::hard_link(&path, site.root().join("b.bin")).unwrap();
        if let Ok(half) = wire.exactly_or_end(LARGE / 2) {
            assert!(half.iter().all(|byte| *byte == b'a'));
            return (site, wire);
        }
        site.server.wait_for_log("the file was changed while it was sent");
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("no download goes on when its file gets another time");
}

#[test]
fn a_file_that_is_only_touched_while_it_is_sent_arrives_whole() {
    let (site, mut wire) = touched();
    touch(&site.root().join("a.bin"), 20);
    assert!(wire.exactly(LARGE / 2 - 1000).iter().all(|byte| *byte == b'a'));
    assert_eq!(wire.ask("GET", "/a.bin", &[("Range", "bytes=0-3")], b"").text(), "aaaa");
}

#[test]
fn a_file_that_is_touched_and_then_overwritten_does_not_arrive_whole() {
    let (site, mut wire) = touched();
    let file = File::options().write(true).open(site.root().join("a.bin"));
    file.unwrap().write_all(b"b").unwrap();
    assert!(wire.rest().len() < LARGE / 2 - 1000, "a mixture of two states");
    site.server.wait_for_log("the file was changed while it was sent");
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_the_connection() {
    let (site, mut wire) = begun("a.bin");
    let file = File::options().write(true).open(site.root().join("a.bin")).unwrap();
    file.set_len(2000).unwrap();
    assert!(wire.rest().len() < LARGE - 1000);
}

#[test]
fn a_file_that_grows_while_it_is_sent_arrives_as_long_as_promised() {
    let (site, mut wire) = begun("a.log");
    let mut file = File::options().append(true).open(site.root().join("a.log")).unwrap();
    file.write_all(b"more").unwrap();
    assert!(wire.exactly(LARGE - 1000).iter().all(|byte| *byte == b'a'));
    assert_eq!(wire.ask("GET", "/a.log", &[("Range", "bytes=-4")], b"").text(), "more");
}

#[test]
fn many_ranges_come_in_one_response() {
    let text: String = (0..10_000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
    let site = Site::new(&[]);
    site.file("small.txt", &text);
    site.file("large.txt", text.repeat(10));
    let mut wire = site.connect();
    for name in ["/small.txt", "/large.txt"] {
        for (count, status) in [(33, 206), (200, 206), (201, 200)] {
            let ranges: Vec<String> =
                (0..count).map(|index| format!("{0}-{0}", index * 26)).collect();
            let range = format!("bytes={}", ranges.join(","));
            let reply = wire.ask("GET", name, &[("Range", &range)], b"");
            assert_eq!(reply.status, status, "{count} ranges of {name}");
            if status == 206 {
                let parts = reply.text().matches("\r\n\r\na\r\n--").count();
                assert_eq!(parts, count, "{count} ranges of {name}");
            }
        }
        // HEAD tells what GET would get, as with Apache and nginx.
        let length = wire.get(name).body.len();
        let head = wire.ask("HEAD", name, &[("Range", "bytes=0-9")], b"");
        let range = format!("bytes 0-9/{length}");
        assert_eq!((head.status, head.field("content-range")), (206, Some(range.as_str())));
        assert_eq!(head.field("content-length"), Some("10"));
        let head = wire.ask("HEAD", name, &[("Range", "bytes=9999999-")], b"");
        assert_eq!(head.status, 416);
    }
}
