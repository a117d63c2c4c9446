//! A front controller on Symfony's HttpKernel, as Debian packages it. Laravel's requests and
//! responses are Symfony's too.

use std::fs;

use image::ImageFormat;
use serde_json::json;

use crate::browser::Browser;
use crate::folder::give_to_php;
use crate::guide::configuration;
use crate::packages::installed;
use crate::picture;
use crate::server::Server;
use crate::support::Folder;

const KERNEL: &str = "/usr/share/php/Symfony/Component/HttpKernel/autoload.php";
const ROUTING: &str = "/usr/share/php/Symfony/Component/Routing/autoload.php";

#[test]
fn symfony() {
    if !installed(&[KERNEL, ROUTING]) {
        return;
    }
    let folder = Folder::new();
    let public = folder.folder("application/public");
    fs::write(public.join("index.php"), include_str!("symfony.php")).unwrap();
    fs::write(public.join("style.css"), "body { color: gray }\n").unwrap();
    fs::write(folder.path().join("application/.env"), "APP_SECRET=tusk\n").unwrap();
    give_to_php(&folder.folder("application/var"));
    let server = Server::start(
        &folder,
        &configuration("Laravel and Symfony", "@folder@/application/public"),
    );

    urls(&server);
    methods(&server);
    sessions(&server);
    files(&server);
    server.stop();
}

fn urls(server: &Server) {
    let browser = Browser::new(server);
    let seen = browser.visit("/hello/J%C3%BCrgen?of=1&of=2").is(200).json();
    let expected = json!({
        "name": "Jürgen",
        "base": "",
        "path": "/hello/J%C3%BCrgen",
        "query": "of=2",
        "url": server.url("/hello/Babar"),
        "environment": "prod",
    });
    assert_eq!(seen, expected);
    // With the script's name it is part of the URLs that the application makes.
    let seen = browser.visit("/index.php/hello/Babar").is(200).json();
    assert_eq!(seen["base"], "/index.php");
    assert_eq!(seen["url"], server.url("/index.php/hello/Babar"));
    let home = browser.visit("/");
    home.is(200).must(home.text() == "home", || "not the front page".to_owned());
    let redirect = browser.send(browser.ask("GET", "/old"));
    redirect
        .is(302)
        .must(redirect.field("location") == server.url("/hello/Celeste"), || {
            "led astray".to_owned()
        });
    browser.visit("/hello").is(404).contains("No route found");
    browser.visit("/hello/a.b/").is(404);
    let style = browser.visit("/style.css");
    style
        .is(200)
        .must(style.media_type() == "text/css", || "not a style sheet".to_owned());
    browser.visit("/../.env").lacks("tusk");
    browser.visit("/.env").lacks("tusk");
}

fn methods(server: &Server) {
    let browser = Browser::new(server);
    for method in ["POST", "PUT", "PATCH"] {
        let body = json!({ "tusks": 2 }).to_string();
        let ask = browser
            .ask(method, "/things/7")
            .field("Content-Type", "application/json")
            .body(body);
        let seen = browser.send(ask).is(200).json();
        assert_eq!(seen, json!({ "method": method, "id": "7", "sent": { "tusks": 2 } }));
    }
    let seen = browser.send(browser.ask("DELETE", "/things/7")).is(200).json();
    assert_eq!(seen["method"], "DELETE");
    let refused = browser.visit("/things/7");
    refused.is(405).must(refused.field("allow") == "POST, PUT, PATCH, DELETE", || {
        "Allow is missing".to_owned()
    });
    let asked = browser.ask("GET", "/who").field("Authorization", "Basic YmFiYXI6Y2VsZXN0ZQ==");
    assert_eq!(browser.send(asked).is(200).text(), "babar:celeste");
    let asked = browser.ask("GET", "/who").field("Authorization", "Bearer a-token");
    assert_eq!(browser.send(asked).is(200).text(), "Bearer a-token");
}

fn sessions(server: &Server) {
    let browser = Browser::new(server);
    for expected in ["1", "2", "3"] {
        assert_eq!(browser.visit("/count").is(200).text(), expected);
    }
    assert_eq!(Browser::new(server).visit("/count").is(200).text(), "1");
}

fn files(server: &Server) {
    let browser = Browser::new(server);
    let file = picture::draw(640, 480, ImageFormat::Png);
    let ask = browser.ask("POST", "/upload").upload(
        &[("caption", "Céleste")],
        "picture",
        "céleste.png",
        "image/png",
        &file,
    );
    let seen = browser.send(ask).is(200).json();
    assert_eq!(
        seen,
        json!({
            "caption": "Céleste", "name": "céleste.png", "size": file.len(), "type": "image/png"
        })
    );
    let whole = browser.visit("/download");
    whole
        .is(200)
        .must(whole.body == file, || "not the file that was uploaded".to_owned());
    let part = browser.send(browser.ask("GET", "/download").field("Range", "bytes=-5"));
    part.is(206)
        .must(part.body == file[file.len() - 5..], || "not the end of the file".to_owned());
    let again = browser
        .ask("GET", "/download")
        .field("If-Modified-Since", whole.field("last-modified"));
    browser.send(again).is(304);
    let streamed = browser.visit("/stream");
    streamed
        .is(200)
        .must(streamed.text() == "0\n1\n2\n3\n4\n", || "not the whole stream".to_owned());
}
