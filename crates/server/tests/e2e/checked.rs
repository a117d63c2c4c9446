//! `howdah check` of settings that a server refuses, or that do nothing.

use crate::support::{Folder, Setup, has_php};

/// Returns the exit status and the errors of `howdah check` for these lines at the top and of the
/// site.
fn check(folder: &Folder, top: &str, site: &str) -> (Option<i32>, String) {
    folder.folder("public");
    let text =
        format!("{top}\n[[site]]\nname = \"shop\"\nroot = \"public\"\nphp = false\n{site}\n");
    let file = folder.file("howdah.toml", text);
    let (status, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    (status, told)
}

#[test]
fn a_socket_for_an_unknown_user_is_an_error() {
    let folder = Folder::new();
    for (key, what) in [("group", "there is no group nope"), ("owner", "there is no user nope")] {
        let top = format!("listen = [{{ address = \"unix:s\", {key} = \"nope\" }}]");
        let (status, told) = check(&folder, &top, "");
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains(what), "{told}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_is_a_warning() {
    let folder = Folder::new();
    folder.file("file", "x");
    let listening = |address: &str| format!("listen = [\"127.0.0.1:0\", \"unix:{address}\"]");
    for (address, what) in [
        ("file", "the file is not a socket"),
        ("none/s", "create its folder"),
        ("file/s", "cannot listen on unix:"),
    ] {
        let (status, told) = check(&folder, &listening(address), "");
        assert_eq!(status, Some(0), "{told}");
        assert!(told.contains("warning: cannot listen on") && told.contains(what), "{told}");
    }
    let (status, told) = check(&folder, &listening("new"), "");
    assert_eq!((status, told.contains("cannot listen")), (Some(0), false), "{told}");
}

#[test]
fn settings_that_do_nothing_or_too_much_are_warnings() {
    let folder = Folder::new();
    folder.file("file", "x");
    folder.folder("there");
    let top = "mime_types = \"there\"\ntrusted_proxies = [\"0.0.0.0/0\", \"10.0.0.0/8\"]";
    let site = "sendfile_roots = [\"none\", \"there\"]\naccel = { \"/a/\" = \"file\" }";
    let (status, told) = check(&folder, top, site);
    assert_eq!(status, Some(0), "{told}");
    let path = folder.path().display();
    for what in [
        format!("the media types in {path}/there cannot be read"),
        "`trusted_proxies` has 0.0.0.0/0: every client can say".to_owned(),
        format!("site shop: `sendfile_roots` has {path}/none: "),
        format!("site shop: `accel` has {path}/file: it is no folder"),
    ] {
        assert!(told.contains(&what), "{what} in {told}");
    }
    assert!(!told.contains("10.0.0.0") && !told.contains("`sendfile_roots` has {path}/there"));
    let (_, told) = check(&folder, "", "sendfile_roots = [\"there\"]");
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn an_upstream_in_whose_place_another_site_may_answer_is_told() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    for name in ["shop", "blog"] {
        folder.folder(name);
    }
    for (upstream, sandbox, is_told) in [
        ("http://127.0.0.1:3000", "standard", true),
        ("wss://localhost:3000", "off", true),
        ("http://127.0.0.1:3000", "strict", false),
        ("http://127.0.0.1:80", "standard", false),
        ("http://192.0.2.7:3000", "standard", false),
        ("unix:/run/app.sock|http://app", "standard", false),
    ] {
        let text = format!(
            "[[site]]\nname = \"shop\"\nhosts = [\"a.example\"]\nroot = \"shop\"\nphp = false\n\
             upstreams = [\"{upstream}\"]\n[[site]]\nname = \"blog\"\nhosts = [\"b.example\"]\n\
             root = \"blog\"\n[site.php]\nsandbox = \"{sandbox}\"\nstate_dir = \"state\"\n"
        );
        let file = folder.file("howdah.toml", text);
        let (status, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
        assert_eq!(status, Some(0), "{told}");
        let what = "scripts of other sites such as blog may listen there";
        assert_eq!(told.contains(what), is_told, "{upstream} {sandbox}: {told}");
    }
}
