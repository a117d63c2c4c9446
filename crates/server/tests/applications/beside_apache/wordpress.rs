//! WordPress as Debian lays it out, with its uploads and themes in `/var/lib`: first one site, then
//! a network of sites.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use image::ImageFormat;

use crate::browser::{Browser, Page};
use crate::guide::commands;
use crate::html;
use crate::picture;
use crate::server::Server;
use crate::support::wait_until;
use crate::wordpress::{Admin, comment, install, log_in};

use super::application::Application;
use super::stage::{DATABASE, Stage};

const SETTINGS: &str = "/etc/wordpress";
const CONTENT: &str = "/var/lib/wordpress/wp-content";

pub(super) const WORDPRESS: Application = Application {
    name: "wordpress",
    needs: &[
        "/usr/share/wordpress/wp-login.php",
        "/usr/share/wordpress/wp-content/themes/twentytwentythree",
    ],
    root: "@folder@/site",
    site: "symlinks = \"follow\"\n",
    virtual_host: "DocumentRoot /usr/share/wordpress\n\
                   Alias /wp-content /var/lib/wordpress/wp-content\n",
    database: true,
    set_up,
    work,
    done: "The installer; log-in, pictures by both ways of uploading, a post, a visitor's \
           comment; then the network setup with folders, its lines put into `/etc/wordpress`, a \
           second site, and a picture uploaded to that site. Apache has the `Alias` of the \
           package's own example, Howdah the folder of links of \
           [moving-a-site.md](moving-a-site.md#wordpress).",
    starts: &[
        "/",
        "/second/",
        "/wp-login.php",
        "/wp-admin/",
        "/second/wp-admin/",
        "/wp-admin/network/",
        "/wp-admin/network/sites.php",
        "/wp-admin/upload.php?mode=list",
        "/wp-admin/options-general.php",
        "/wp-admin/site-health.php",
        "/?feed=rss2",
        "/?rest_route=/",
        "/second/?rest_route=/wp/v2/media",
        "/robots.txt",
        "/wp-sitemap.xml",
        "/xmlrpc.php",
        "/wp-config.php",
        "/wp-content/uploads/",
        "/wp-content/themes/",
        "/wp-content/index.php",
        "/wp-includes/",
        "/wp-includes/version.php",
        "/wp-admin",
        "/.htaccess",
        "/nothing",
        "/second/nothing",
    ],
    most: 150,
    leave: &["logout", "action=", "_wpnonce", "customize.php", "wp-signup", "update-core"],
    volatile: &[
        ("<lastBuildDate>", "<"),
        ("data-pw=\"", "\""),
        ("Automatic update overdue by ", "."),
        ("<div class=\"hh\">", "<"),
        ("<div class=\"mn\">", "<"),
        ("name=\"mn\" value=\"", "\""),
        ("name=\"hidden_mn\" value=\"", "\""),
        ("name=\"cur_mn\" value=\"", "\""),
        ("name=\"hh\" value=\"", "\""),
        ("name=\"hidden_hh\" value=\"", "\""),
        ("name=\"cur_hh\" value=\"", "\""),
        ("name=\"ss\" value=\"", "\""),
        ("<div class=\"ss\">", "<"),
    ],
    explained: &[],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    let settings = stage.own(SETTINGS);
    fs::write(settings.join("config-default.php"), configuration("")).unwrap();
    stage.own(CONTENT);
    let site = stage.path().join("site");
    let commands = commands("WordPress").replace("/srv/blog", site.to_str().unwrap());
    let status = Command::new("sh").args(["-e", "-c", &commands]).status().unwrap();
    assert!(status.success(), "{commands} ended with {status}");
}

/// `/etc/wordpress/config-default.php`, with further lines.
fn configuration(further: &str) -> String {
    format!(
        "<?php
define('DB_NAME', '{DATABASE}');
define('DB_USER', '{DATABASE}');
define('DB_PASSWORD', '{DATABASE}');
define('DB_HOST', 'localhost');
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY'] as $name) {{
    define($name, \"a secret $name\");
    define(str_replace('KEY', 'SALT', $name), \"more secret $name\");
}}
{further}"
    )
}

fn work<'s>(stage: &Stage, server: &'s Server) -> Browser<'s> {
    install(server);
    let admin = log_in(server);
    let photo = picture::draw(1200, 900, ImageFormat::Jpeg);
    let uploaded = admin.upload("elephant.jpg", "image/jpeg", &photo);
    fetch(&admin.browser, uploaded["source_url"].as_str().unwrap(), &photo);
    // The list of uploads is sorted by the second.
    thread::sleep(Duration::from_millis(1100));
    admin.upload_by_form("howdah.png", "image/png", &picture::draw(600, 400, ImageFormat::Png));
    let content = format!(
        "<p>It carries it.</p><img src=\"{}\" alt=\"\"/>",
        uploaded["source_url"].as_str().unwrap()
    );
    let (_, post) = admin.publish("The first ride", &content);
    comment(server, &post, "I have seen it too.");
    make_a_network(stage, &admin);
    let admin = log_in(server);
    add_a_site(&admin);
    upload_to_it(&admin, &photo);
    admin.browser
}

fn fetch(browser: &Browser, url: &str, file: &[u8]) {
    let page = browser.visit(url);
    page.is(200).must(page.body == file, || "not the uploaded bytes".to_owned());
}

/// Tools → Network Setup, whose lines an administrator puts into two files.
fn make_a_network(stage: &Stage, admin: &Admin) {
    let page = admin.browser.visit("/wp-admin/network.php");
    let values = [("sitename", "Blogs on an elephant"), ("subdomain_install", "0")];
    let lines = admin.browser.send_form(&page, page.form_with("sitename"), &values);
    lines.is(200);
    let settings = stage.copy_of(SETTINGS);
    let constants = text_of(&lines, "network-wpconfig-rules");
    fs::write(settings.join("config-default.php"), configuration(&constants)).unwrap();
    let rules = text_of(&lines, "network-htaccess-rules");
    lines.must(rules.contains("RewriteRule"), || "no rules".to_owned());
    fs::write(settings.join("htaccess"), rules).unwrap();
    // opcache looks at a file again after two seconds.
    wait_until("WordPress has read its new settings", || {
        let page = Browser::new(admin.browser.server).visit("/wp-signup.php");
        page.url.path() == "/wp-signup.php"
    });
}

/// The text of the text area `id`.
fn text_of(page: &Page, id: &str) -> String {
    let text = page.text();
    let found = html::tags(&text).into_iter().find(|tag| tag.attribute("id") == Some(id));
    found.map_or_else(|| page.fail(&format!("there is no {id}")), |tag| tag.text())
}

fn add_a_site(admin: &Admin) {
    let page = admin.browser.visit("/wp-admin/network/site-new.php");
    let values = [
        ("blog[domain]", "second"),
        ("blog[title]", "The second howdah"),
        ("blog[email]", "mahout@example.org"),
        ("submit", "Add Site"),
    ];
    admin
        .browser
        .send_form(&page, page.form_with("blog[domain]"), &values)
        .is(200)
        .contains("Site added");
    admin.browser.visit("/second/").is(200).contains("The second howdah");
    admin.browser.visit("/second/wp-admin/").is(200).contains("wpadminbar");
}

/// Uploads of other sites than the first lie in a folder of their own, behind a rewritten address.
fn upload_to_it(admin: &Admin, photo: &[u8]) {
    let nonce = admin.browser.visit("/second/wp-admin/admin-ajax.php?action=rest-nonce");
    let ask = admin
        .browser
        .ask("POST", "/second/?rest_route=/wp/v2/media")
        .field("X-WP-Nonce", &nonce.is(200).text())
        .field("Content-Disposition", "attachment; filename=\"second.jpg\"")
        .field("Content-Type", "image/jpeg")
        .body(photo);
    let uploaded = admin.browser.send(ask).is(201).json();
    let url = uploaded["source_url"].as_str().unwrap();
    assert!(url.contains("/second/wp-content/uploads/sites/2/"), "{url}");
    fetch(&admin.browser, url, photo);
}
