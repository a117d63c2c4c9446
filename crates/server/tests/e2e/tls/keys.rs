//! Private keys that only root may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use super::client::{Authority, Certified, Trust};
use super::file_with_certificate;
use crate::support::{Folder, is_root, wait_until};

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
