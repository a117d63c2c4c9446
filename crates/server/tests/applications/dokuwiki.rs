//! Debian's DokuWiki: from the installer to a page with a picture, with its private folders below
//! the document root.

use std::fs;
use std::path::Path;

use image::ImageFormat;

use crate::assets;
use crate::browser::{Browser, Page};
use crate::folder::{copy, give_to_php};
use crate::guide::configuration;
use crate::packages::installed;
use crate::picture;
use crate::server::Server;
use crate::support::{Folder, wait_until};

const SOURCE: &str = "/usr/share/dokuwiki";
const SETTINGS: &str = "/etc/dokuwiki";

/// Debian's package as it was installed: it has links into other folders.
const PACKAGE: &str = r#"
[[site]]
hosts = ["localhost"]
root = "/usr/share/dokuwiki"
php = false
"#;

const TEXT: &str = "====== On elephants ======\n\nThey never forget a **page**. \
    {{safari:elephant.jpg?300|An elephant}}\n";

#[test]
fn dokuwiki() {
    if !installed(&[SOURCE, SETTINGS]) {
        return;
    }
    let folder = Folder::new();
    unpack(&folder);
    let server = Server::start(&folder, &(configuration("DokuWiki", "@folder@/wiki") + PACKAGE));

    install(&server);
    let author = log_in(&server);
    let file = upload_pictures(&author);
    write_a_page(&author);
    read_it(&server, "/doku.php?id=safari:elephants");
    fetch_the_picture(&server, "/lib/exe/fetch.php?media=safari:elephant.jpg", &file);
    find_it(&server);
    private_folders_are_refused(&server);
    pages_by_path_info(&server, &folder, &file);
    links_of_the_package_are_followed(&server);
    server.stop();
}

/// Lays DokuWiki out as its own archive does. Debian's package has the settings and the pages
/// elsewhere.
pub(crate) fn unpack(folder: &Folder) {
    let wiki = folder.path().join("wiki");
    copy(Path::new(SOURCE), &wiki);
    fs::remove_file(wiki.join("inc/preload.php")).unwrap();
    let settings = folder.folder("wiki/conf");
    for entry in fs::read_dir(SETTINGS).unwrap() {
        let entry = entry.unwrap();
        // Debian's own settings are left out; not every user may read them.
        if !matches!(
            entry.file_name().to_str().unwrap(),
            "local.php" | "acl.auth.php" | "users.auth.php"
        ) {
            copy(&entry.path(), &settings.join(entry.file_name()));
        }
    }
    let defaults = fs::read_to_string(settings.join("dokuwiki.php")).unwrap();
    fs::write(settings.join("dokuwiki.php"), defaults.replace("/var/lib/dokuwiki/data", "./data"))
        .unwrap();
    for name in DATA {
        folder.folder(&format!("wiki/data/{name}"));
    }
    give_to_php(&settings);
    give_to_php(&wiki.join("data"));
}

const DATA: [&str; 11] = [
    "attic",
    "cache",
    "index",
    "locks",
    "log",
    "media",
    "media_attic",
    "media_meta",
    "meta",
    "pages",
    "tmp",
];

pub(crate) fn install(server: &Server) {
    let visitor = Browser::new(server);
    let form = visitor.visit("/install.php");
    form.is(200);
    let values = [
        ("d[title]", "A wiki on an elephant"),
        ("d[superuser]", "mahout"),
        ("d[fullname]", "The Mahout"),
        ("d[email]", "mahout@example.org"),
        ("d[password]", "a long pass phrase"),
        ("d[confirm]", "a long pass phrase"),
        // Everybody may read, users may write.
        ("d[policy]", "1"),
        ("submit", ""),
    ];
    let done = visitor.send_form(&form, form.form_with("d[title]"), &values);
    done.is(200).contains("The configuration was finished successfully.");
}

pub(crate) fn log_in(server: &Server) -> Browser<'_> {
    let browser = Browser::new(server);
    let form = browser.visit("/doku.php?id=start&do=login");
    form.is(200).contains("A wiki on an elephant");
    assert!(assets::load_all(&browser, &form) >= 10);
    let wrong = browser.send_form(&form, form.form_with("u"), &[("u", "mahout"), ("p", "guessed")]);
    wrong.contains("Sorry, username or password was wrong.");
    let values = [("u", "mahout"), ("p", "a long pass phrase")];
    let page = browser.send_form(&form, form.form_with("u"), &values);
    page.is(200).contains("The Mahout").contains("do=logout");
    let admin = browser.visit("/doku.php?id=start&do=admin&page=config");
    admin.is(200).contains("Configuration Manager");
    assets::load_all(&browser, &admin);
    browser
}

/// A picture as the request's content and one in a form, as DokuWiki's upload does it in newer and
/// in older browsers.
pub(crate) fn upload_pictures(author: &Browser) -> Vec<u8> {
    let manager = author.visit("/lib/exe/mediamanager.php?ns=safari");
    manager.is(200);
    assets::load_all(author, &manager);
    let token = manager.between("name=\"sectok\" value=\"", "\"");
    let picture = picture::draw(800, 600, ImageFormat::Jpeg);
    let target =
        format!("/lib/exe/ajax.php?call=mediaupload&ns=safari&qqfile=elephant.jpg&sectok={token}");
    let ask = author
        .ask("POST", &target)
        .field("Content-Type", "application/octet-stream")
        .body(picture.clone());
    is_uploaded(&author.send(ask), "safari:elephant.jpg");

    let other = picture::draw(300, 200, ImageFormat::Png);
    let values = [("sectok", token.as_str()), ("ns", "safari"), ("mediaid", "howdah.png")];
    let ask = author.ask("POST", "/lib/exe/ajax.php?call=mediaupload");
    let ask = ask.upload(&values, "qqfile", "howdah.png", "image/png", &other);
    is_uploaded(&author.send(ask), "safari:howdah.png");
    fetch_the_picture(author.server, "/lib/exe/fetch.php?media=safari:howdah.png", &other);
    picture
}

fn is_uploaded(answer: &Page, id: &str) {
    let told = answer.is(200).json();
    answer.must(told["success"] == true && told["id"] == id, || "not uploaded".to_owned());
}

pub(crate) fn write_a_page(author: &Browser) {
    let editor = author.visit("/doku.php?id=safari:elephants&do=edit");
    editor.is(200);
    assets::load_all(author, &editor);
    let values = [("wikitext", TEXT), ("summary", "first sighting"), ("do[save]", "1")];
    let saved = author.send_form(&editor, editor.form_with("wikitext"), &values);
    saved.is(200).contains("They never forget a <strong>page</strong>.");
}

pub(crate) fn read_it(server: &Server, url: &str) {
    let visitor = Browser::new(server);
    let page = visitor.visit(url);
    page.is(200)
        .contains("They never forget a <strong>page</strong>.")
        .contains("On elephants</h1>");
    let small = visitor.visit(&page.picture("An elephant"));
    small
        .is(200)
        .must(picture::size(&small.body) == Ok((300, 225)), || "not the scaled picture".to_owned());
    assert!(assets::load_all(&visitor, &page) >= 10);
}

pub(crate) fn fetch_the_picture(server: &Server, url: &str, file: &[u8]) {
    let visitor = Browser::new(server);
    let fetched = visitor.visit(url);
    fetched
        .is(200)
        .must(fetched.body == file, || "not the bytes that were uploaded".to_owned());
    fetched.must(fetched.media_type().starts_with("image/"), || {
        "not a picture's content type".to_owned()
    });
    let again = visitor.ask("GET", url).field("If-None-Match", fetched.field("etag"));
    visitor.send(again).is(304);
    let part = visitor.send(visitor.ask("GET", url).field("Range", "bytes=10-19"));
    part.is(206)
        .must(part.body == file[10..20], || "not the part that was asked for".to_owned());
}

/// Pages are indexed by a script behind an invisible picture, after it has sent that picture and
/// its reader has left.
fn find_it(server: &Server) {
    let visitor = Browser::new(server);
    wait_until("the page is found", || {
        let found = visitor.visit("/doku.php?do=search&id=start&q=forget");
        found.is(200).text().contains("safari:elephants")
    });
}

fn private_folders_are_refused(server: &Server) {
    let visitor = Browser::new(server);
    for path in [
        "/data/pages/safari/elephants.txt",
        "/data/media/safari/elephant.jpg",
        "/data/",
        "/data",
        "/conf/users.auth.php",
        "/conf/local.php",
        "/conf/mime.conf",
        "/%63onf/mime.conf",
        "/inc/init.php",
        "/inc/lang/en/lang.php",
        "/bin/indexer.php",
        "/vendor/autoload.php",
        "/VERSION",
        "/.htaccess",
    ] {
        let answer = visitor.visit(path);
        answer.is(403).lacks("elephant").lacks("bcrypt");
    }
}

/// DokuWiki's "internal" rewriting: the page's name follows the script's. A name there is none of a
/// file.
fn pages_by_path_info(server: &Server, folder: &Folder, file: &[u8]) {
    let settings = folder.path().join("wiki/conf/local.protected.php");
    fs::write(&settings, "<?php\n$conf['userewrite'] = 2;\n").unwrap();
    give_to_php(&settings);
    read_it(server, "/doku.php/safari:elephants");
    fetch_the_picture(server, "/lib/exe/fetch.php/safari:elephant.jpg", file);
    let visitor = Browser::new(server);
    visitor.visit("/doku.php/data:pages").contains("This topic does not exist yet");
    visitor.visit("/doku.php/conf").contains("This topic does not exist yet");
}

fn links_of_the_package_are_followed(server: &Server) {
    let visitor = Browser::new(server);
    let port = server.address().port();
    let logo = visitor.visit(&format!("http://localhost:{port}/lib/tpl/dokuwiki/images/logo.png"));
    logo.is(200)
        .must(picture::size(&logo.body).is_ok(), || "not a picture".to_owned());
}
