//! Answers to requests: whole, conditional, in parts.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

mod support;

use howdah_files::StoreLimits;
use howdah_http::{Method, Status};
use howdah_site::{FileHandle, PathKind, SiteHost};
use support::{Counter, Folder, Seen, age};

#[test]
fn a_small_file_comes_from_memory_and_a_large_one_from_its_descriptor() {
    let folder = Folder::new();
    let limit = StoreLimits::default().small as usize;
    folder.file("small.txt", vec![b'a'; limit]);
    folder.file("large.txt", vec![b'b'; limit + 1]);
    let mut counter = Counter::new(&folder);
    for (name, length, from_memory) in [("small.txt", limit, true), ("large.txt", limit + 1, false)]
    {
        let seen = counter.get(name);
        assert_eq!((seen.status, seen.content.len(), seen.from_memory), (200, length, from_memory));
        assert_eq!(seen.field("content-length"), Some(&*length.to_string()));
        assert_eq!(seen.field("content-type"), Some("text/plain"));
        assert_eq!(seen.field("accept-ranges"), Some("bytes"));
        assert_eq!(seen.field("server"), None, "that is the protocol's");
        let head = counter.request(Method::Head, name, &[]);
        assert_eq!((head.status, head.content, head.fields), (200, vec![], seen.fields));
    }
}

#[test]
fn an_empty_file_is_an_empty_200() {
    let folder = Folder::new();
    folder.file("empty.css", "");
    let seen = Counter::new(&folder).get("empty.css");
    assert_eq!((seen.brief(), seen.field("content-length")), ((200, ""), Some("0")));
}

#[test]
fn the_dates_of_a_file() {
    let folder = Folder::new();
    let path = folder.file("a.txt", "x");
    let stamp = std::time::UNIX_EPOCH + std::time::Duration::new(784_111_777, 123_456_789);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(stamp)
        .unwrap();
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.get("a.txt").field("last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));

    let before = std::time::UNIX_EPOCH - std::time::Duration::from_secs(1000);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert_eq!(counter.get("a.txt").field("last-modified"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
}

#[test]
fn a_file_of_the_future_was_changed_now() {
    let folder = Folder::new();
    let path = folder.file("a.txt", "x");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(7200);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(later)
        .unwrap();
    let mut counter = Counter::new(&folder);
    let first = counter.get("a.txt").field("last-modified").unwrap().to_owned();
    counter.wait(5);
    let second = counter.get("a.txt").field("last-modified").unwrap().to_owned();
    let parse = |text: &str| howdah_http::date::parse(text.as_bytes()).unwrap();
    assert_eq!(parse(&second) - parse(&first), 5);
    // Such a date cannot tell two versions apart, so it is not taken for an answer.
    assert_eq!(
        counter.request(Method::Get, "a.txt", &[("If-Modified-Since", &second)]).status,
        200
    );
    counter.wait(10_000);
    assert_eq!(
        parse(counter.get("a.txt").field("last-modified").unwrap()) / 10,
        later_seconds(later) / 10
    );
}

fn later_seconds(time: std::time::SystemTime) -> u64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn conditional_requests() {
    let folder = Folder::new();
    folder.file("small.txt", "0123456789");
    folder.file("large.txt", vec![b'x'; 200_000]);
    let mut counter = Counter::new(&folder);
    for name in ["small.txt", "large.txt"] {
        let whole = counter.get(name);
        let etag = whole.field("etag").unwrap().to_owned();
        let date = whole.field("last-modified").unwrap().to_owned();
        assert!(etag.starts_with('"'), "{etag} is strong");
        let rows: [(&str, &str, u16); 11] = [
            ("If-None-Match", &etag, 304),
            ("If-None-Match", &format!("\"x\", W/{etag}"), 304),
            ("If-None-Match", "*", 304),
            ("If-None-Match", "\"x\"", 200),
            ("If-Modified-Since", &date, 304),
            ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", 200),
            ("If-Modified-Since", "Fri, 31 Dec 2100 23:59:59 GMT", 200),
            ("If-Match", &etag, 200),
            ("If-Match", "\"x\"", 412),
            ("If-Unmodified-Since", &date, 200),
            ("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT", 412),
        ];
        for (field, value, status) in rows {
            for method in [Method::Get, Method::Head] {
                let seen = counter.request(method.clone(), name, &[(field, value)]);
                assert_eq!(seen.status, status, "{method} {name} {field}: {value}");
                if status == 304 {
                    assert_eq!(seen.field("etag"), Some(&*etag));
                    assert_eq!(seen.field("last-modified"), Some(&*date));
                    assert_eq!(
                        (seen.field("content-type"), seen.field("content-length")),
                        (None, None)
                    );
                }
                let length = if status == 200 && method == Method::Get {
                    whole.content.len()
                } else {
                    0
                };
                assert_eq!(seen.content.len(), length);
            }
        }
    }
}

#[test]
fn ranges() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..200_000u32).map(|number| (number % 251) as u8).collect();
    folder.file("small.bin", &bytes[..1000]);
    folder.file("large.bin", &bytes);
    let mut counter = Counter::new(&folder);
    for (name, length) in [("small.bin", 1000), ("large.bin", 200_000)] {
        for (range, first, last) in [
            ("bytes=0-0", 0, 0),
            ("bytes=10-19", 10, 19),
            ("bytes=-5", length - 5, length - 1),
            ("bytes=990-", 990, length - 1),
            ("bytes=5-999999999", 5, length - 1),
        ] {
            let seen = counter.request(Method::Get, name, &[("Range", range)]);
            assert_eq!(seen.status, 206, "{range}");
            assert!(seen.content == bytes[first..=last], "{name} {range}");
            assert_eq!(seen.length, Some((last - first + 1) as u64));
            assert_eq!(
                seen.field("content-range"),
                Some(&*format!("bytes {first}-{last}/{length}"))
            );
            assert_eq!(seen.field("content-type"), Some("application/octet-stream"));
        }
        let seen = counter.request(Method::Get, name, &[("Range", &format!("bytes={length}-"))]);
        assert_eq!(
            (seen.status, seen.field("content-range")),
            (416, Some(&*format!("bytes */{length}")))
        );
        for range in ["bytes=9-5", "bytes=x", "lines=1-2"] {
            assert_eq!(
                counter.request(Method::Get, name, &[("Range", range)]).status,
                200,
                "{range}"
            );
        }
        let head = counter.request(Method::Head, name, &[("Range", "bytes=0-4")]);
        let range = format!("bytes 0-4/{length}");
        assert_eq!((head.status, head.field("content-range")), (206, Some(&*range)));
    }
}

#[test]
fn several_ranges_are_one_multipart() {
    let folder = Folder::new();
    folder.file("a.txt", "0123456789abcdefghijklmnopqrstuvwxyz");
    folder.file("large.txt", "0123456789".repeat(20_000));
    let mut counter = Counter::new(&folder);
    for name in ["a.txt", "large.txt"] {
        let seen = counter.request(Method::Get, name, &[("Range", "bytes=0-1, 5-6, 8-8")]);
        assert_eq!(seen.status, 206);
        assert_eq!(seen.length, Some(seen.content.len() as u64));
        let boundary = seen
            .field("content-type")
            .unwrap()
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let parts: Vec<&str> = seen.text().split(&format!("\r\n--{boundary}")).skip(1).collect();
        let contents: Vec<&str> =
            parts[..3].iter().map(|part| part.split_once("\r\n\r\n").unwrap().1).collect();
        assert_eq!(contents, ["01", "56", "8"]);
        assert_eq!(parts[3], "--\r\n");
        assert!(parts[0].contains("Content-Range: bytes 0-1/"), "{}", parts[0]);
        for part in &parts[..3] {
            assert!(part.contains("Content-Type: text/plain\r\n"), "{part}");
        }
    }
}

#[test]
fn if_range() {
    let folder = Folder::new();
    let path = folder.file("a.txt", "0123456789");
    let mut counter = Counter::new(&folder);
    let whole = counter.get("a.txt");
    let (etag, date) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
    for (validator, status) in [
        (etag, 206),
        ("\"x\"", 200),
        (&format!("W/{etag}"), 200),
        (date, 206),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
    ] {
        let fields = [("Range", "bytes=2-3"), ("If-Range", validator)];
        let seen = counter.request(Method::Get, "a.txt", &fields);
        assert_eq!(seen.status, status, "{validator}");
        assert_eq!(seen.text(), if status == 206 { "23" } else { "0123456789" });
    }
    // A date of this very second may hide a second edit.
    age(&path, 0);
    let date = counter.get("a.txt").field("last-modified").unwrap().to_owned();
    let fields = [("Range", "bytes=2-3"), ("If-Range", &*date)];
    let status = counter.request(Method::Get, "a.txt", &fields).status;
    let now = howdah_http::date::parse(date.as_bytes()).unwrap();
    assert!(status == 200 || now < later_seconds(std::time::SystemTime::now()), "{status}");
}

#[test]
fn paths_that_are_no_files() {
    let folder = Folder::new();
    folder.file("folder/a.txt", "x");
    let mut counter = Counter::new(&folder);
    assert_eq!(counter.kind("folder"), PathKind::Directory);
    assert_eq!(counter.get("folder").status, 403);
    for name in [
        "none",
        "none/none",
        "folder/none",
        "folder/a.txt/x",
        &"long".repeat(100),
        &"a/".repeat(200),
    ] {
        assert_eq!(counter.kind(name), PathKind::Missing, "{name}");
        assert_eq!(counter.get(name).status, 404, "{name}");
    }
    assert_eq!(counter.request(Method::Post, "folder/a.txt", &[]).status, 200);
    assert_eq!(counter.request(Method::Put, "folder/a.txt", &[]).status, 405);
}

#[test]
fn php_sources_are_never_sent() {
    let folder = Folder::new();
    let names = ["a.php", "a.PHP", "a.phtml", "a.phar", "a.phps", "a.php7", "a.pht"];
    names.iter().for_each(|name| drop(folder.file(name, "<?php secret();")));
    folder.file("a.php.bak", "<?php");
    let mut counter = Counter::new(&folder);
    for name in names {
        assert_eq!(counter.kind(name), PathKind::File, "{name}");
        assert_eq!(counter.get(name).brief(), (403, ""), "{name}");
    }
    // As with Debian's Apache.
    let seen = counter.get("a.php.bak");
    assert_eq!((seen.status, seen.field("content-type")), (200, Some("application/octet-stream")));
}

#[test]
fn in_the_manner_of_directives() {
    use howdah_files::{AnswerForm, NegotiatedForm};
    use howdah_htaccess::modules::core::EtagParts;
    let folder = Folder::new();
    folder.file("a.txt", "0123456789");
    let mut counter = Counter::new(&folder);
    let path = counter.path("a.txt");
    let mut answer = |method, tag, is_error_page, fields: &[(&str, &str)]| {
        let mut request = howdah_http::Request::new();
        request.method = method;
        for (name, value) in fields {
            request.fields.push(name.as_bytes(), value.as_bytes());
        }
        let manner = AnswerForm {
            variant: NegotiatedForm::Only,
            is_error_page,
            tag,
        };
        let file = counter.store.look(&path).file;
        Seen::of(counter.store.answer_in_manner(&request, &path, file, manner))
    };
    let own = answer(Method::Get, EtagParts::DEFAULT, false, &[]);
    let tag = own.field("etag").unwrap().to_owned();
    assert_eq!((own.brief(), own.field("content-length")), ((200, "0123456789"), Some("10")));
    let condition = [("If-None-Match", &*tag), ("Range", "bytes=1-2")];
    assert_eq!(answer(Method::Get, EtagParts::DEFAULT, false, &condition).status, 304);

    let none = answer(Method::Get, EtagParts::NONE, false, &[]);
    assert_eq!(
        (none.brief(), none.field("etag"), none.field("content-length")),
        ((200, "0123456789"), None, Some("10"))
    );
    assert_eq!(none.field("last-modified"), own.field("last-modified"));
    assert_eq!(answer(Method::Get, EtagParts::NONE, false, &condition).brief(), (206, "12"));

    let size = answer(Method::Get, EtagParts::SIZE, false, &[]);
    assert_eq!(size.field("etag"), Some("\"a\""));
    assert_eq!(
        answer(Method::Get, EtagParts::SIZE, false, &[("If-None-Match", "\"a\"")]).status,
        304
    );
    let mtime = answer(Method::Get, EtagParts::MTIME, false, &[]);
    assert_eq!(mtime.field("etag").unwrap().matches('-').count(), 0);

    // The page of an error is whole, whatever was asked for, and whatever the method was.
    assert_eq!(
        answer(Method::Get, EtagParts::DEFAULT, true, &condition).brief(),
        (200, "0123456789")
    );
    assert_eq!(answer(Method::Post, EtagParts::DEFAULT, true, &[]).brief(), (200, "0123456789"));
    assert_eq!(answer(Method::Head, EtagParts::DEFAULT, true, &[]).brief(), (200, "0123456789"));
}

#[test]
fn a_handle_is_good_for_its_own_file_only() {
    let folder = Folder::new();
    folder.file("a.txt", "a");
    folder.file("b.txt", "b");
    let mut counter = Counter::new(&folder);
    let (a, b) = (counter.path("a.txt"), counter.path("b.txt"));
    let look = counter.store.look(&a);
    assert_ne!(look.file, FileHandle::NONE);
    let text = |counter: &mut Counter, path| {
        Seen::of(counter.store.answer(&howdah_http::Request::new(), path, look.file)).content
    };
    let before = support::findings(&counter.store);
    assert_eq!(text(&mut counter, &a), b"a");
    assert_eq!(support::findings(&counter.store), before, "the disk is not asked again");
    assert_eq!(text(&mut counter, &b), b"b");
    folder.file("a.txt", "new");
    counter.store.drain_events();
    assert_eq!(text(&mut counter, &b), b"b");
    assert_eq!(text(&mut counter, &a), b"new");
    std::fs::remove_file(folder.at("a.txt")).unwrap();
    counter.store.drain_events();
    assert_eq!(
        counter
            .store
            .answer(&howdah_http::Request::new(), &a, look.file)
            .err()
            .map(|none| none.status()),
        Some(Status::NOT_FOUND)
    );
}
