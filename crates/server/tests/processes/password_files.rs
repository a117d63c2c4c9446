//! Files of passwords that `.htaccess` files name, and whose they are.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::{Client, Folder, Setup, has_php, is_root};

/// `daemon`, `games` and `www-data` on every Debian.
const DAEMON: u32 = 1;
const GAMES: u32 = 5;
const WWW_DATA: u32 = 33;

/// The password of `ann` is `secret`.
const USERS: &str = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
const LOGIN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";

#[test]
fn a_site_asks_for_no_passwords_of_another() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::new();
    let mut text = "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"off\"\n".to_owned();
    for (name, user) in [("one", "daemon"), ("two", "games")] {
        folder.file(&format!("{name}/public/a.txt"), "content");
        text.push_str(&format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{name}/public\"\n\
             [site.php]\nworkers = 1\nuser = \"{user}\"\nstate_dir = \"state/{name}\"\n\
             readable = [\"two/named\"]\n"
        ));
    }
    // The front has the group www-data.
    let files = [
        ("one/users", 0o640, DAEMON, WWW_DATA, 200, 500),
        ("two/users", 0o640, GAMES, WWW_DATA, 500, 200),
        ("two/open", 0o644, GAMES, GAMES, 500, 200),
        ("two/of-root", 0o640, 0, WWW_DATA, 500, 200),
        ("two/named", 0o644, GAMES, GAMES, 200, 200),
        ("elsewhere/open", 0o644, GAMES, GAMES, 200, 200),
        ("two/shut/users", 0o644, GAMES, WWW_DATA, 500, 200),
        ("machine/users", 0o640, 0, WWW_DATA, 200, 200),
        ("machine/group", 0o640, 6, WWW_DATA, 500, 500),
        ("machine/link", 0o644, 0, 0, 500, 200),
    ];
    for (name, mode, owner, group, ..) in files {
        let path = folder.path().join(name);
        if name.ends_with("link") {
            std::os::unix::fs::symlink(folder.path().join("two/users"), &path).unwrap();
            continue;
        }
        folder.file(name, USERS);
        chown(&path, Some(owner), Some(group)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let shut = folder.path().join("two/shut");
    chown(&shut, Some(GAMES), Some(WWW_DATA)).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o750)).unwrap();
    for site in ["one", "two"] {
        for (number, (file, ..)) in files.iter().enumerate() {
            let path = folder.path().join(file);
            let rules = format!(
                "AuthType Basic\nAuthName x\nAuthUserFile {}\nRequire valid-user\n",
                path.display()
            );
            folder.file(&format!("{site}/public/{number}/.htaccess"), &rules);
            folder.file(&format!("{site}/public/{number}/a.txt"), "content");
        }
    }
    let own = folder.path().join("one/users");
    let foreign = folder.path().join("two/groups");
    folder.file("two/groups", "staff: ann\n");
    chown(&foreign, Some(GAMES), Some(WWW_DATA)).unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o640)).unwrap();
    let rules = format!(
        "AuthType Basic\nAuthName x\nAuthUserFile {}\nAuthGroupFile {}\nRequire group staff\n",
        own.display(),
        foreign.display()
    );
    folder.file("one/public/groups/.htaccess", rules);
    folder.file("one/public/groups/a.txt", "content");
    let server = Setup::config(&folder.file("howdah.toml", text)).start();
    let get = |site: &str, target: &str| {
        let mut client = Client::connect(server.address());
        client
            .send(format!("GET {target} HTTP/1.1\r\nHost: {site}.example\r\n{LOGIN}\r\n"))
            .unwrap();
        client.answer().unwrap().status
    };
    for (number, (file, .., one, two)) in files.iter().enumerate() {
        let target = format!("/{number}/a.txt");
        let found = (get("one", &target), get("two", &target));
        assert_eq!(found, (*one, *two), "{file}: {}", server.log());
    }
    assert_ne!(get("one", "/groups/a.txt"), 200);
    server.wait_for_log("two/users is not read: it is in a folder of another site");
    server.wait_for_log("machine/group is not read: it belongs neither to root nor to a user of");
    server.wait_for_log("two/of-root is not read: it is in a folder of another site; move it");
    server.wait_for_log("two/groups is not read");
    server.stop();
}
