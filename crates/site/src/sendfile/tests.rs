use howdah_config::Config;

use super::*;
use crate::path::Scratch;
use crate::sites::Sites;

const CONFIG: &str = "
[[site]]
root = \"/srv/site/public\"
sendfile = true
sendfile_roots = [\"/srv/files/\", \"/srv/site/public/private\", \"/srv/link\"]
accel = { \"/protected/\" = \"/srv/files/\", \"/protected/deep/\" = \"/deep\" }
";

fn site(text: &str) -> Sites {
    Sites::compile(&Config::parse(text, "/x.toml").unwrap())
}

/// The file that `/srv/site/public/app/get.php` asks for.
fn asked(sites: &Sites, field: SendfileField, value: &str) -> Result<DocumentPath, SendfileError> {
    let site = sites.find(b"localhost").unwrap();
    let mut path = site.root(b"localhost", Scratch::default().take()).unwrap();
    path.push_suffix(b"app/get.php");
    let script = Script {
        path,
        path_info: Vec::new(),
        redirect_url: None,
    };
    let real = |path: &Path| (path == Path::new("/srv/link")).then(|| "/mnt/real".into());
    site.sendfile_path(b"localhost", &script, (field, value.as_bytes()), real)
}

fn shown(found: Result<DocumentPath, SendfileError>) -> Result<String, SendfileError> {
    found.map(|path| {
        let listed = if path.is_listed() { " listed" } else { "" };
        format!("{}|{}{listed}", path.root().display(), String::from_utf8_lossy(path.relative()))
    })
}

#[test]
fn paths() {
    use SendfileError::{Malformed, Outside, Refused};
    let sites = site(CONFIG);
    let rows = [
        ("/srv/site/public/a.pdf", Ok("/srv/site/public|a.pdf")),
        ("a.pdf", Ok("/srv/site/public|app/a.pdf")),
        ("../x/./a%20b.pdf", Ok("/srv/site/public|x/a b.pdf")),
        ("100%.pdf", Ok("/srv/site/public|app/100%.pdf")),
        ("/srv/files/a.php", Ok("/srv/files|a.php listed")),
        ("/srv/files//d/.env", Ok("/srv/files|d/.env listed")),
        ("/srv/site/public/private/x.php", Ok("/srv/site/public/private|x.php listed")),
        ("../../../files/a", Ok("/srv/files|a listed")),
        ("/mnt/real/a", Ok("/srv/link|a listed")),
        ("/srv/files", Err(Outside)),
        ("/srv/filesystem/a", Err(Outside)),
        ("/srv/files/../a", Err(Outside)),
        ("/srv/files/%2e%2e/a", Err(Outside)),
        ("/etc/passwd", Err(Outside)),
        ("/srv/site/public/a.php", Err(Refused)),
        ("/srv/site/public/a.PHP5", Err(Refused)),
        ("/srv/site/public/.env", Err(Refused)),
        ("/srv/site/public/.git/config", Err(Refused)),
        ("/srv/site/public/.hidden/a", Err(Refused)),
        ("/srv/files/a%00b", Err(Malformed)),
        ("/../etc/passwd", Err(Malformed)),
    ];
    for (value, expected) in rows {
        let found = shown(asked(&sites, SendfileField::Path, value));
        assert_eq!(found, expected.map(str::to_owned), "{value}");
    }
}

#[test]
fn paths_of_scripts_in_a_root_folder_of_their_own() {
    use SendfileError::{Malformed, Outside};
    let sites = site(&format!("{CONFIG}[site.php]\nchroot = \"/srv/site\"\n"));
    for (value, expected) in [
        ("/public/a.pdf", Ok("/srv/site/public|a.pdf")),
        ("a.pdf", Ok("/srv/site/public|app/a.pdf")),
        ("/public/../public/a.pdf", Ok("/srv/site/public|a.pdf")),
        ("/srv/site/public/a.pdf", Err(Outside)),
        ("/../files/a", Err(Malformed)),
        ("/public/../../files/a", Err(Malformed)),
    ] {
        let found = shown(asked(&sites, SendfileField::Path, value));
        assert_eq!(found, expected.map(str::to_owned), "{value}");
    }
}

#[test]
fn urls() {
    use SendfileError::{Malformed, Outside, Refused};
    let sites = site(CONFIG);
    let rows = [
        ("/protected/a%20b.pdf?x=1", Ok("/srv/files|a b.pdf listed")),
        ("/protected/deep/x", Ok("/deep|x listed")),
        ("/a.pdf", Ok("/srv/site/public|a.pdf")),
        ("/protected/../a.pdf", Ok("/srv/site/public|a.pdf")),
        ("/a.php", Err(Refused)),
        ("/protected/../../etc/passwd", Err(Malformed)),
        ("/protected/..%2f..%2fetc/passwd", Err(Malformed)),
        ("@named", Err(Malformed)),
        ("a.pdf", Err(Malformed)),
    ];
    for (value, expected) in rows {
        let found = shown(asked(&sites, SendfileField::Url, value));
        assert_eq!(found, expected.map(str::to_owned), "{value}");
    }
    let listed_alone = site(&CONFIG.replace("sendfile = true", ""));
    let outside = shown(asked(&listed_alone, SendfileField::Url, "/a.pdf"));
    assert_eq!(outside, Err(Outside));
    let outside = asked(&listed_alone, SendfileField::Path, "/srv/site/public/a.pdf");
    assert_eq!(shown(outside), Err(Outside));
}

#[test]
fn fields_are_obeyed_only_where_the_site_says_so() {
    let mut fields = Fields::new();
    fields.push(b"x-sendfile", b"/a");
    fields.push(b"X-Accel-Redirect", b"/b");
    let on = |lines: &str| {
        let sites = site(&format!("[[site]]\nroot = \"/srv\"\n{lines}"));
        let site = sites.find(b"x").unwrap();
        site.sendfile(&fields).map(|(field, _)| field)
    };
    assert_eq!(on(""), None);
    assert_eq!(on("sendfile = true"), Some(SendfileField::Path));
    assert_eq!(on("sendfile_roots = \"/x\""), Some(SendfileField::Path));
    assert_eq!(on("accel = { \"/x/\" = \"/y\" }"), Some(SendfileField::Url));
}
