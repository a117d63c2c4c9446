//! The files and the configuration of a scene's sites.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::users::Users;
use crate::attack::{self, Attack, Means};
use crate::neighbour;
use crate::support::Folder;

/// Writes the files of both sites.
pub(super) fn furnish(folder: &Folder, attack: &Attack, users: &Users) {
    let group = WEB_GROUP;
    let attacker = if attack.default_user { WEB_GROUP } else { users.a.1 };
    for (name, uid, mode) in [("a", attacker, 0o755), ("b", users.b.1, 0o750)] {
        let public = folder.folder(&format!("{name}/public"));
        for (file, content) in neighbour::FILES {
            give(&folder.file(&format!("{name}/public/{file}"), content), uid, group, 0o640);
        }
        give(
            &folder.file(&format!("{name}/public/file.txt"), neighbour::file()),
            uid,
            group,
            0o640,
        );
        if name == "b" {
            let members = folder.folder("b/public/members");
            let users = members.join(".htpasswd");
            let rules = format!(
                "AuthType Basic\nAuthName members\nAuthUserFile {}\nRequire valid-user\n",
                users.display()
            );
            for (file, content) in
                [(".htpasswd", PASSWORDS), (".htaccess", rules.as_str()), ("b.txt", "members")]
            {
                let path = folder.file(&format!("b/public/members/{file}"), content);
                give(&path, uid, group, 0o640);
            }
            give(&members, uid, group, 0o750);
            // Readable for site B and the front, as Debian's sites are.
            let script = format!("<?php return '{}';", secret("script"));
            give(&folder.file("b/public/settings.php", script), uid, group, 0o640);
            let text = folder.file("b/public/private.txt", secret("file"));
            give(&text, uid, group, 0o640);
        }
        give(&public, uid, group, mode);
    }
    if attack.owns_home {
        own(&folder.path().join("a"), attacker, 0o755);
    }
    let loot = folder.folder("a/loot");
    own(&loot, attacker, 0o777);
    for file in [attack.file(), attack::folder().join("attack.php")] {
        let name = file.file_name().unwrap().to_str().unwrap();
        let copy = folder.file(&format!("a/public/{name}"), fs::read(&file).unwrap());
        own(&copy, attacker, 0o644);
    }
    if attack.has_preload {
        own(&folder.file("a/public/preload.php", PRELOAD), attacker, 0o644);
    }
    let source = attack::folder().join(format!("{}.c", attack.name));
    match attack.means {
        Means::Library(_) => compile(&source, &loot.join("library.so"), &[]),
        Means::Extension => {
            let headers = Command::new("php-config").arg("--includes").output().unwrap();
            let headers = String::from_utf8(headers.stdout).unwrap();
            let headers: Vec<&str> = headers.split_whitespace().collect();
            compile(&source, &loot.join("library.so"), &headers);
        }
        Means::Script(_) | Means::Client => {}
    }
}

/// Writes the configuration file.
pub(super) fn configuration(folder: &Folder, attack: &Attack, users: &Users) -> PathBuf {
    let secret = secret("environment");
    let (a, b) = (users.a.0, users.b.0);
    let user = if attack.default_user {
        String::new()
    } else {
        format!("user = \"{a}\"\n")
    };
    let pids = attack.pids.map(|pids| format!("pids = {pids}\n")).unwrap_or_default();
    let library = folder.path().join("a/loot/library.so");
    let extension = if attack.means == Means::Extension {
        format!(", extension = \"{}\"", library.display())
    } else {
        String::new()
    };
    let preload = match attack.has_preload {
        true => {
            let script = folder.path().join("a/public/preload.php");
            format!(", \"opcache.preload\" = \"{}\"", script.display())
        }
        false => String::new(),
    };
    let upstreams = match attack.has_upstream {
        true => {
            let socket = folder.path().join("a/loot/upstream.sock");
            format!("upstreams = [\"unix:{}|http://app\"]\n", socket.display())
        }
        false => String::new(),
    };
    // The server itself must hold. The sandbox, and a `/proc` without other processes, would keep
    // most attacks from beginning; their own tests are in `processes/isolation`.
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nthreads = 2\n\
         [limits]\ndrain_timeout = \"3s\"\nspill_total = \"1G\"\n[log]\naccess = \"off\"\n\
         [[site]]\nname = \"a\"\nhosts = [\"a.example\"]\nroot = \"a/public\"\n\
         {upstreams}[site.php]\n{user}{pids}mode = \"static\"\nworkers = 4\npcntl = true\n\
         request_timeout = \"5s\"\nrequest_terminate_timeout = \"5s\"\nqueue_timeout = \"2s\"\n\
         state_dir = \"a/state\"\n\
         sandbox = \"off\"\nhide_processes = false\nprivate_tmp = false\nshm_size = \"8M\"\n\
         admin_ini = {{ \"ffi.enable\" = \"1\"{extension}{preload} }}\n\
         [[site]]\nname = \"b\"\nhosts = [\"b.example\"]\nroot = \"b/public\"\n\
         [site.php]\nuser = \"{b}\"\nmode = \"static\"\nworkers = 4\nqueue_timeout = \"2m\"\n\
         request_timeout = \"2m\"\n\
         state_dir = \"b/state\"\nenv = {{ SECRET = \"{secret}\" }}\n"
    );
    let file = folder.file("howdah.toml", text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// Hangs while the file `hold` is there.
const PRELOAD: &str = "<?php while (file_exists(__DIR__ . '/../loot/hold')) { usleep(10000); \
                       clearstatcache(); }";

/// Site B's password file: `visitor` with `correct horse`, bcrypt with cost 5.
const PASSWORDS: &str = "visitor:$2y$05$oAT0ojR1BD0FgV9c9PeeiO462Ar1Y4nJWESquoKubOiI6G8goIcYK\n";

/// Text that attacks look for: a name that they know, and a number that they do not.
pub fn secret(place: &str) -> String {
    let number = u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("secret-of-{place}-{number:016x}")
}

fn compile(source: &Path, library: &Path, options: &[&str]) {
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-pthread"])
        .args(options)
        .arg("-o")
        .args([library, source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The user and the group `www-data`: the group of the front, the user of pools without one.
const WEB_GROUP: u32 = 33;

/// Makes the user the owner, with the group of the same number.
pub(super) fn own(path: &Path, uid: u32, mode: u32) {
    give(path, uid, uid, mode);
}

fn give(path: &Path, uid: u32, gid: u32, mode: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
