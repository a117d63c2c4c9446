//! Tiny Tiny RSS on MariaDB.

use std::fs;

use serde_json::json;

use crate::browser::{Attachment, Browser};
use crate::server::Server;

use super::application::{Application, Explained};
use super::compare::Part;
use super::stage::{DATABASE, Stage};

const SETTINGS: &str = "/etc/tt-rss";

const SUBSCRIPTIONS: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <opml version=\"1.0\"><head><title>Feeds</title></head><body>\
    <outline text=\"Animals\"><outline type=\"rss\" \
    text=\"Elephants\" xmlUrl=\"https://example.org/elephants.xml\"/></outline></body></opml>\n";

pub(super) const TT_RSS: Application = Application {
    name: "tt-rss",
    needs: &["/usr/share/tt-rss/www/index.php", "/usr/share/tt-rss/schema/ttrss_schema_mysql.sql"],
    root: "/usr/share/tt-rss/www",
    site: "symlinks = \"follow\"\n",
    virtual_host: "",
    database: true,
    set_up,
    work,
    done: "Its tables loaded as its manual says; a refused and a good log-in, the page of the \
           reader, a list of feeds uploaded and exported again, and the same through its \
           programming interface.",
    starts: &[
        "/",
        "/prefs.php",
        "/public.php?op=globalUpdateFeeds",
        "/public.php?op=logout",
        "/backend.php?op=rpc&method=sanityCheck",
        "/backend.php?op=opml&method=export",
        "/opml.php",
        "/register.php",
        "/api/",
        "/config.php",
        "/themes/light.css",
        "/js/tt-rss.js",
        "/images/favicon.png",
        "/feed-icons/",
        "/classes/api.php",
        "/include/functions.php",
        "/update.php",
        "/templates/digest_template.txt",
        "/nothing",
    ],
    most: 120,
    leave: &["logout"],
    volatile: &[
        ("<dateCreated>", "<"),
        ("How much is ", "<"),
        ("\"cpu_load\":", ","),
        ("<div class=\"footer\">", "</div>"),
    ],
    explained: &[Explained {
        part: Part::Content,
        url: "op=pref-system",
        apache: "Apache 2.0 Handler",
        howdah: "Howdah",
        reason: "Its page about the system shows `phpinfo()`, which names the server.",
    }],
    // Parts of `index.php` that are asked for alone, and a feed that cannot be fetched.
    logged: &["/classes/", "/include/", "DOMDocument::loadXML()"],
};

fn set_up(stage: &mut Stage) {
    let settings = stage.own(SETTINGS);
    let database = format!(
        "<?php
$dbtype = 'mysql';
$dbserver = 'localhost';
$dbport = '';
$dbname = $dbuser = $dbpass = '{DATABASE}';
"
    );
    fs::write(settings.join("database.php"), database).unwrap();
    let file = settings.join("config.php");
    let text = fs::read_to_string(&file).unwrap();
    let address = format!("http://{}/", stage.address.ip());
    fs::write(&file, text.replace("%SELF_URL_PATH", &address)).unwrap();
    stage.own_for_php("/var/lib/tt-rss");
    stage.own_for_php("/var/cache/tt-rss");
    stage.load("/usr/share/tt-rss/schema/ttrss_schema_mysql.sql");
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let log_in = |password| {
        let form = browser.visit("/");
        let values = [("login", "admin"), ("password", password)];
        browser.send_form(&form, form.is(200).form_with("login"), &values)
    };
    log_in("guessed").contains("Incorrect username or password");
    log_in("password").is(200).contains("ttrss_main");

    let preferences = browser.visit("/backend.php?op=pref-feeds");
    let form = preferences.is(200).form_with("csrf_token");
    let token = form.fields.into_iter().find(|(name, _)| name == "csrf_token").unwrap().1;
    let file = Attachment {
        field: "opml_file",
        name: "feeds.opml",
        media_type: "text/x-opml",
        content: SUBSCRIPTIONS.as_bytes(),
    };
    let values = [("op", "dlg"), ("method", "importOpml"), ("csrf_token", token.as_str())];
    let ask = browser.ask("POST", "/backend.php");
    let answer =
        browser.send(ask.upload(&values, file.field, file.name, file.media_type, file.content));
    answer.is(200).contains("Elephants");
    let export = browser.visit("/backend.php?op=opml&method=export");
    export.is(200).contains("https://example.org/elephants.xml");

    // Programs log in with JSON, and need the setting that allows them.
    let call = json!({ "op": "login", "user": "admin", "password": "password" }).to_string();
    let ask = browser
        .ask("POST", "/api/")
        .field("Content-Type", "application/json")
        .body(call);
    browser.send(ask).is(200).contains("API_DISABLED");
    browser
}
