//! Private keys that only root may read.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, PermissionsExt};

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use super::client::{self, Authority, Certified, Trust};
use super::{LISTEN, file_with_certificate};
use crate::site::Site;
use crate::support::{Folder, Process, is_root, wait_until};

/// Writes a pair to files that only their owner may read.
fn write(folder: &Folder, pair: &Certified) {
    for (name, content) in [("a.pem", &pair.certificate), ("a.key", &pair.key)] {
        // Complete and with its permissions, as tools for certificates do it.
        let fresh = folder.file("fresh", content);
        fs::set_permissions(&fresh, Permissions::from_mode(0o600)).unwrap();
        fs::rename(&fresh, folder.path().join(name)).unwrap();
    }
}

#[test]
fn keys_that_root_alone_may_read_are_used_renewed_and_kept() {
    if !is_root() {
        return;
    }
    let authority = Authority::new();
    let pairs = [authority.certify(&["a.example"]), authority.certify(&["a.example"])];
    let folder = Folder::new();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    write(&folder, &pairs[0]);
    let site = file_with_certificate(&folder);
    assert_ne!(site.server.front().uid(), 0, "the front may not read the files");
    let shown = || {
        let address = site.server.addresses()[1];
        let mut wire = authority.connect(address, "a.example", Trust::Tls13);
        assert_eq!(wire.get("/a.txt").text(), "x");
        wire.tls().peer_certificates().unwrap()[0].to_vec()
    };
    assert_eq!(shown(), pairs[0].der());
    write(&folder, &pairs[1]);
    wait_until("the new certificate is shown", || shown() == pairs[1].der());
    for (signal, done) in [(SIGHUP, "reloaded; "), (SIGUSR2, "taken over; ")] {
        site.server.signal(signal);
        site.server.wait_for_log(done);
        assert_eq!(shown(), pairs[1].der());
    }
    assert_ne!(site.server.front().uid(), 0);
}

#[test]
fn no_process_but_the_supervisor_and_the_front_has_the_keys_in_its_memory() {
    if !is_root() {
        return;
    }
    let authority = Authority::new();
    let pair = authority.certify(&["a.example"]);
    let folder = client::files(&[("a", &pair)]);
    // Nobody listens there: the process that orders certificates tries again and again.
    let closed = TcpListener::bind("127.0.14.2:0").unwrap().local_addr().unwrap();
    let config = format!(
        "{LISTEN}[acme]\nterms_agreed = true\nstate_dir = \"acme\"\n\
         directory = \"https://{closed}/directory\"\n\
         [[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n\
         [[site]]\nhosts = [\"www.example.org\"]\nroot = \"public\"\nphp = false\n\
         tls = \"auto\"\n",
        folder.path().display()
    );
    let site = Site::configured(&[("a.txt", "x")], &config);
    site.server.wait_for_log("www.example.org gets no certificate: ");
    // The first line of the key has no secret, and this is not all of one.
    let line = pair.key.lines().nth(2).unwrap().as_bytes();
    let has_key = |process: &Process| memory(process).windows(line.len()).any(|it| it == line);
    assert!(has_key(&site.server.supervisor()), "the search finds what is there");
    assert!(has_key(&site.server.front()));
    let children = site.server.supervisor().children();
    let names: Vec<String> = children.iter().map(Process::name).collect();
    assert!(names.contains(&"howdah-acme".to_owned()), "{names:?}");
    for (child, name) in children.iter().zip(&names).filter(|(_, name)| *name != "howdah-front") {
        assert!(!has_key(child), "{name} has the key");
    }
}

/// Returns the memory of a process that it can write to.
fn memory(process: &Process) -> Vec<u8> {
    let place = format!("/proc/{}", process.number());
    let maps = fs::read_to_string(format!("{place}/maps")).unwrap();
    let file = File::open(format!("{place}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        // Large areas are reserved, and hardly used.
        let mut at = start;
        let mut room = vec![0; 1 << 20];
        while at < end {
            let length = room.len().min(usize::try_from(end - at).unwrap());
            // Some areas cannot be read, such as those of devices.
            let Ok(read @ 1..) = file.read_at(&mut room[..length], at) else {
                break;
            };
            all.extend_from_slice(&room[..read]);
            at += read as u64;
        }
    }
    all
}
