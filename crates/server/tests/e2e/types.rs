//! Media types from the system's `mime.types`.

use std::collections::BTreeMap;
use std::fs;

use crate::site::Site;
use crate::support::wait_until;

const CONFIG: &str = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nmime_types = \"types\"\n\
                      [log]\naccess = \"off\"\n[[site]]\nroot = \"public\"\nphp = false\n";

fn content_type(site: &Site, path: &str) -> String {
    let reply = site.get(path);
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.field("content-type").unwrap().to_owned()
}

#[test]
fn files_have_the_types_of_the_system_s_file_as_with_apache() {
    let Ok(file) = fs::read("/etc/mime.types") else {
        howdah_skip::skip!("there is no /etc/mime.types (Debian's package media-types)");
        return;
    };
    let file = String::from_utf8_lossy(&file);
    let mut types = BTreeMap::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(media_type) = words.next() else {
            continue;
        };
        // Apache takes what is behind the last dot for the extension.
        let words = words.filter(|extension| !extension.contains('.'));
        types.extend(words.map(|extension| (extension.to_lowercase(), media_type)));
    }
    assert!(types.len() > 1000, "{}", types.len());
    let site = Site::configured(&[], &CONFIG.replace("mime_types = \"types\"\n", ""));
    let mut wire = site.connect();
    let mut wrong = Vec::new();
    for (extension, media_type) in &types {
        site.file(&format!("types/name.{extension}"), "content");
        let reply = wire.get(&format!("/types/name.{}", extension.replace('%', "%25")));
        if (reply.status, reply.field("content-type")) != (200, Some(media_type)) {
            wrong.push((extension, media_type, reply.field("content-type").map(str::to_owned)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_file_of_types_is_read_again_at_a_reload_and_add_type_has_precedence() {
    let site = Site::configured(
        &[
            ("a.thing", "x"),
            ("a.css", "x"),
            ("a.unheard-of", "x"),
            ("dir/a.thing", "x"),
            ("dir/a.css", "x"),
            ("dir/.htaccess", "AddType text/x-own .thing\n"),
        ],
        CONFIG,
    );
    // A missing file is no error.
    assert_eq!(content_type(&site, "/a.thing"), "application/octet-stream");
    assert_eq!(content_type(&site, "/a.css"), "text/css");
    fs::write(site.path().join("types"), "text/x-thing thing\ntext/x-style css\n").unwrap();
    site.reconfigure(CONFIG);
    wait_until("the file is read", || content_type(&site, "/a.thing") == "text/x-thing");
    // The former generation may take a last connection.
    site.server.front();
    assert_eq!(content_type(&site, "/a.css"), "text/x-style");
    assert_eq!(content_type(&site, "/a.unheard-of"), "application/octet-stream");
    assert_eq!(content_type(&site, "/dir/a.thing"), "text/x-own");
    assert_eq!(content_type(&site, "/dir/a.css"), "text/x-style");
}
