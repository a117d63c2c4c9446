//! Bodies that are large, or are files.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde_json::json;

use crate::site::{HELD, Options, Site};
use crate::support::{has_php, wait_until};

const FILES: (&str, &str) = (
    "files.php",
    "<?php header('Content-Type: application/json');
     $of = function ($f) use (&$of) { if (is_array($f['tmp_name'])) { $all = []; foreach \
     ($f['tmp_name'] as $i => $_)
             $all[] = $of(array_map(fn($v) => is_array($v) ? $v[$i] : $v, $f)); return $all; }
         return [$f['name'], $f['type'], $f['error'], $f['size'], $f['tmp_name'] && \
         is_uploaded_file($f['tmp_name']) ? md5_file($f['tmp_name']) : null]; };
     echo json_encode(['post' => $_POST, 'files' => array_map($of, $_FILES)]);",
);

/// A multipart body: name, file name, type, content.
fn multipart(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        body.extend_from_slice(
            format!("--the-boundary\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        if let Some(file) = file {
            body.extend_from_slice(
                format!("; filename=\"{file}\"\r\nContent-Type: image/x-test").as_bytes(),
            );
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--the-boundary--\r\n");
    body
}

const MULTIPART: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=the-boundary");

/// Each of them alone fits where a worker looks for it.
#[test]
fn forms_of_every_length_beside_large_cookies() {
    if !has_php() {
        return;
    }
    let script =
        "<?php echo strlen(implode($_COOKIE)), ' ', md5(file_get_contents('php://input'));";
    let site = Site::new(&[("sum.php", script)]);
    let cookies = ["a", "b", "c", "d"].map(|name| format!("{name}={}", "x".repeat(15_000)));
    let mut fields = vec![("Content-Type", "text/plain")];
    fields.extend(cookies.iter().map(|cookie| ("Cookie", cookie.as_str())));
    let mut wire = site.connect();
    for length in [1, 10_000, 30_000, 50_000, 65_536, 65_537, 100_000] {
        let body: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
        let reply = wire.ask("POST", "/sum.php", &fields, &body);
        let sum = site.ask("POST", "/sum.php", &[("Cookie", "a=b"), fields[0]], &body);
        assert_eq!((reply.status, sum.status), (200, 200), "{length}");
        assert_eq!(reply.text().strip_prefix("60000 "), sum.text().strip_prefix("1 "));
        assert_eq!(reply.text().len(), 38, "{reply:?}");
    }
}

#[test]
fn several_files_and_fields_in_one_form() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[FILES]);
    let large = vec![b'L'; 300_000];
    let body = multipart(&[
        ("title", None, "Fütterung".as_bytes()),
        ("one", Some("a.jpg"), b"first\r\n--the-bound but not quite"),
        ("many[]", Some("b b.png"), &large),
        ("many[]", Some("ü.txt"), b""),
        ("tags[x]", None, b"1"),
        ("none", Some(""), b""),
    ]);
    for chunked in [false, true] {
        let mut wire = site.connect();
        if chunked {
            wire.send(
                "POST /files.php HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
                 Content-Type: multipart/form-data; boundary=the-boundary\r\n\r\n",
            );
            for part in body.chunks(70_001) {
                wire.send(format!("{:X}\r\n", part.len()));
                wire.send(part);
                wire.send("\r\n");
            }
            wire.send("0\r\n\r\n");
        } else {
            wire.request("POST", "/files.php", &[MULTIPART], &body);
        }
        let said = wire.reply("POST").json();
        assert_eq!(said["post"], json!({"title": "Fütterung", "tags": {"x": "1"}}));
        let files = &said["files"];
        let one = &files["one"];
        assert_eq!(
            (&one[0], &one[1], &one[2], &one[3]),
            (&json!("a.jpg"), &json!("image/x-test"), &json!(0), &json!(32))
        );
        assert_eq!(one[4].as_str().map(str::len), Some(32), "PHP has the file");
        assert_eq!(files["many"][0][3], 300_000);
        assert_eq!((&files["many"][1][0], &files["many"][1][3]), (&json!("ü.txt"), &json!(0)));
        assert_eq!(files["none"][2], 4, "UPLOAD_ERR_NO_FILE");
    }
}

#[test]
fn phps_own_limits_hold() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[FILES],
        "ini = { upload_max_filesize = \"1K\", max_file_uploads = 2, post_max_size = \"1M\" }",
    );
    let large = vec![b'x'; 5000];
    let body =
        multipart(&[("a", Some("a"), &large), ("b", Some("b"), b"1"), ("c", Some("c"), b"2")]);
    let said = site.ask("POST", "/files.php", &[MULTIPART], &body).json();
    assert_eq!(said["files"]["a"][2], 1, "UPLOAD_ERR_INI_SIZE");
    assert_eq!(said["files"]["b"][2], 0);
    // More than post_max_size: PHP drops it all, and says so in the log.
    let body = multipart(&[("a", Some("a"), &vec![b'x'; 2_000_000])]);
    let said = site.ask("POST", "/files.php", &[MULTIPART], &body).json();
    assert_eq!((&said["post"], &said["files"]), (&json!([]), &json!([])));
}

/// A gigabyte through a form: neither the front nor the worker ever holds it. A quarter of that
/// where the disk has no room for the front's file and PHP's.
#[test]
fn a_gigabyte_is_uploaded() {
    if !has_php() {
        return;
    }
    let temporary = CString::new(std::env::temp_dir().as_os_str().as_bytes()).unwrap();
    let has_room = howdah_sys::space::free(&temporary).unwrap() > 4 << 30;
    let size: u64 = if has_room { 1 << 30 } else { 1 << 28 };
    let site = Site::with(
        &[(
            "index.php",
            "<?php $f = $_FILES['film']; $h = fopen($f['tmp_name'], 'r'); fseek($h, -10, SEEK_END);
             echo json_encode([$f['error'], $f['size'], filesize($f['tmp_name']), fread($h, 10), \
             memory_get_peak_usage()]);",
        )],
        &Options {
            limits: "spill_total = \"4G\"\n",
            site: "spill_total = \"2G\"",
            php: "ini = { upload_max_filesize = \"2G\", post_max_size = \"2G\" }",
            ..Options::default()
        },
    );
    let head =
        "--B\r\nContent-Disposition: form-data; name=\"film\"; filename=\"film.mp4\"\r\n\r\n";
    let tail = "\r\n--B--\r\n";
    let mut wire = site.connect();
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=B\r\n\
            Content-Length: {}\r\n\r\n{head}",
        head.len() as u64 + size + tail.len() as u64
    ));
    let part = vec![b'e'; 1 << 20];
    for _ in 0..size >> 20 {
        wire.send(&part);
    }
    wire.send(tail);
    wire.stream().set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let said = wire.reply("POST").json();
    assert_eq!((&said[0], &said[1], &said[2]), (&json!(0), &json!(size), &json!(size)), "{said}");
    assert_eq!(said[3], "eeeeeeeeee");
    assert!(said[4].as_u64().unwrap() < 32 << 20, "PHP held {} bytes", said[4]);
    let peak = site.server.front().peak_memory();
    assert!(peak < 64 << 10, "the front held {peak} kB");
}

#[test]
fn a_large_body_is_read_as_a_stream() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[(
        "index.php",
        "<?php $h = fopen('php://input', 'r'); $n = 0; $c = hash_init('crc32b');
         while (($s = fread($h, 65536)) !== '' && $s !== false) { $n += strlen($s); \
         hash_update($c, $s); }
         rewind($h); echo json_encode([$n, hash_final($c), fread($h, 4), memory_get_peak_usage() \
         < (16 << 20)]);",
    )]);
    let body: Vec<u8> = (0..40_000_000_u32).map(|n| (n / 7) as u8).collect();
    let said = site
        .ask("PUT", "/", &[("Content-Type", "application/octet-stream")], &body)
        .json();
    assert_eq!(
        (&said[0], &said[2], &said[3]),
        (&json!(40_000_000), &json!("\0\0\0\0"), &json!(true)),
        "{said}"
    );
}

#[test]
fn a_script_need_not_read_its_input() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(&[("index.php", "<?php echo 'not interested';")], "workers = 1");
    let mut wire = site.connect();
    for size in [10, 100_000, 3_000_000] {
        let reply = wire.ask("PUT", "/", &[], &vec![b'x'; size]);
        assert_eq!((reply.status, reply.text()), (200, "not interested"));
    }
}

#[test]
fn a_slow_upload_holds_no_worker() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("index.php", "<?php echo strlen(file_get_contents('php://input'));")],
        "workers = 1",
    );
    let mut slow: Vec<_> = (0..5).map(|_| site.connect()).collect();
    for wire in &mut slow {
        wire.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n");
        wire.send(vec![b'x'; 150_000]);
    }
    assert_eq!(site.get("/").text(), "0");
    for wire in &mut slow {
        wire.send(vec![b'x'; 50_000]);
        assert_eq!(wire.reply("POST").text(), "200000");
    }
}

const UPLOADED: &str =
    "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\ncontent\r\n--b--\r\n";
const UPLOAD_FIELDS: [(&str, &str); 1] = [("Content-Type", "multipart/form-data; boundary=b")];

/// The uploaded files that lie in the pool's folder.
fn uploaded_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => files.extend(uploaded_files(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

/// PHP deletes uploaded files at the end of a request, which a killed worker does not reach.
#[test]
fn an_upload_of_a_killed_worker_disappears() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "dies.php",
                "<?php touch($_FILES['f']['tmp_name'] . 'x'); posix_kill(getmypid(), 9); sleep(9);",
            ),
            ("place.php", "<?php echo $_FILES['f']['tmp_name'], ' ', ini_get('upload_tmp_dir');"),
        ],
        "workers = 2",
    );
    let uploads = site.path().join("state/uploads");
    let place = site.ask("POST", "/place.php", &UPLOAD_FIELDS, UPLOADED.as_bytes());
    let (file, folder) = place.text().split_once(' ').unwrap();
    assert!(file.starts_with(folder) && folder.starts_with(uploads.to_str().unwrap()), "{file}");
    for _ in 0..5 {
        let reply = site.ask("POST", "/dies.php", &UPLOAD_FIELDS, UPLOADED.as_bytes());
        assert_eq!(reply.status, 502);
    }
    wait_until("the files are deleted", || uploaded_files(&uploads).is_empty());
    // With the zygote, its workers die as well; the next one cleans up.
    let site = site;
    site.file("held.php", HELD.1);
    let mut wire = site.connect();
    wire.request("POST", &site.awaiting("/held.php"), &UPLOAD_FIELDS, UPLOADED.as_bytes());
    wait_until("the script has begun", || site.scratch().join("begun").exists());
    assert_eq!(uploaded_files(&uploads).len(), 1);
    site.server.kill_zygote();
    wait_until("the file is deleted", || uploaded_files(&uploads).is_empty());
    assert_eq!(site.ask("POST", "/place.php", &UPLOAD_FIELDS, UPLOADED.as_bytes()).status, 200);
}

/// The zygote of a new generation leaves the files alone that a request of the old one uses.
#[test]
fn a_reload_does_not_delete_the_uploads_of_running_requests() {
    if !has_php() {
        return;
    }
    let held = "<?php touch($_GET['in'] . '/begun'); while (!file_exists($_GET['in'] . '/end')) \
        usleep(1000);
        echo file_get_contents($_FILES['f']['tmp_name']);";
    let options = Options {
        limits: "drain_timeout = \"5m\"\n",
        php: "workers = 1",
        ..Options::default()
    };
    let site = Site::with(&[("held.php", held)], &options);
    let uploads = site.path().join("state/uploads");
    let mut wire = site.connect();
    wire.request("POST", &site.awaiting("/held.php"), &UPLOAD_FIELDS, UPLOADED.as_bytes());
    wait_until("the script has begun", || site.scratch().join("begun").exists());
    let before = site.server.zygote();
    let name = format!("zygote-{}-", before.number());
    let has_folder = || {
        let mut folders = std::fs::read_dir(&uploads).unwrap().flatten();
        folders.any(|folder| folder.file_name().as_encoded_bytes().starts_with(name.as_bytes()))
    };
    assert!(has_folder());
    site.server.signal(howdah_sys::signal::SIGHUP);
    wait_until("the new generation serves", || site.server.zygotes().len() == 2);
    site.server.wait_for_log("reload");
    site.allow("end");
    assert_eq!(wire.reply("POST").text(), "content");
    drop(wire);
    wait_until("the old generation has ended", || !before.lives());
    assert!(!has_folder(), "the old zygote has deleted its folder");
}
