//! Debian's WordPress on MariaDB: from the installer to a post with a picture and a comment.

use std::fs;
use std::path::Path;
use std::thread;

use image::ImageFormat;
use serde_json::{Value, json};

use crate::assets;
use crate::browser::Browser;
use crate::folder::{copy, give_to_php};
use crate::mariadb::MariaDb;
use crate::packages::installed;
use crate::picture;
use crate::server::Server;
use crate::support::{Folder, wait_until};
use crate::wordpress::{Admin, CONFIGURATION, TITLE, comment, install, log_in};

const SOURCE: &str = "/usr/share/wordpress";
const THEME: &str = "/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css";

/// Without a front controller: WordPress' links carry a query, or go through index.php.
const PLAIN: &str = r#"
[[site]]
hosts = ["127.0.0.1"]
root = "@folder@/site"

[site.php]
workers = 4
request_timeout = "5m"
queue_timeout = "5m"
state_dir = "@folder@/state/blog"
ini = { upload_max_filesize = "64M", post_max_size = "64M" }
admin_ini = { sendmail_path = "/bin/true" }

# Debian's package as it was installed, with its links into other packages.
[[site]]
hosts = ["localhost"]
root = "/usr/share/wordpress"
php = false
"#;

/// The dashboard's, besides the front one and those that a test has something to do on.
const PAGES: [&str; 9] = [
    "upload.php?mode=list",
    "upload.php?mode=grid",
    "edit-comments.php",
    "themes.php",
    "plugins.php",
    "profile.php",
    "options-general.php",
    "site-editor.php",
    "site-health.php",
];

#[test]
fn wordpress_on_mariadb() {
    let programs = MariaDb::PROGRAMS;
    if !installed(&[SOURCE, THEME, programs[0], programs[1], programs[2]]) {
        return;
    }
    let folder = Folder::new();
    let database = thread::scope(|threads| {
        let database = threads.spawn(|| MariaDb::start(&folder, "wordpress"));
        unpack(&folder);
        database.join().unwrap()
    });
    write_configuration(&folder, &database.socket);
    let server = Server::start(&folder, PLAIN);

    install(&server);
    let admin = log_in(&server);
    admin.open("/wp-admin/");
    let picture = upload_pictures(&admin);
    let (id, url) = write_a_post(&admin, &picture);
    read_it(&server, &url, &picture);
    discuss_it(&server, &admin, &url);
    for page in PAGES {
        admin.open(&format!("/wp-admin/{page}"));
    }
    admin.open(&format!("/wp-admin/post.php?post={id}&action=edit"));
    admin.ask_site_health("loopback-requests");
    admin.ask_site_health("authorization-header");
    secrets_stay_secret(&server);
    links_of_the_package_are_followed(&server);
    permalinks_by_path_info(&server, &admin, id);
    pretty_permalinks(&server, &admin, &folder, id);
    pretty_permalinks_by_configuration(&server, &admin, &folder, id);
    server.stop();
}

fn unpack(folder: &Folder) {
    let site = folder.path().join("site");
    copy(Path::new(SOURCE), &site);
    give_to_php(&site.join("wp-content"));
    // WordPress must be able to write its `.htaccess` itself.
    let htaccess = site.join(".htaccess");
    fs::write(&htaccess, "").unwrap();
    give_to_php(&htaccess);
}

fn write_configuration(folder: &Folder, socket: &Path) {
    let configuration = format!(
        "<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', 'wordpress');
define('DB_HOST', 'localhost:{}');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
{CONFIGURATION}",
        socket.display()
    );
    fs::write(folder.path().join("site/wp-config.php"), configuration).unwrap();
}

/// Both ways of uploading. Every size of a picture that WordPress produces is fetched and decoded.
fn upload_pictures(admin: &Admin) -> Value {
    let file = picture::draw(2000, 1500, ImageFormat::Jpeg);
    let picture = admin.upload("elephant.jpg", "image/jpeg", &file);
    let original = admin.browser.visit(picture["source_url"].as_str().unwrap());
    original
        .is(200)
        .must(original.body == file, || "not the bytes that were uploaded".to_owned());
    let sizes = picture["media_details"]["sizes"].as_object().unwrap();
    for expected in ["thumbnail", "medium", "medium_large", "large", "1536x1536", "full"] {
        assert!(sizes.contains_key(expected), "{expected} is not among the sizes: {sizes:?}");
    }
    for size in sizes.values() {
        check_picture(admin, &size["source_url"], size, "image/jpeg");
    }

    let file = picture::draw(900, 700, ImageFormat::Png);
    let attachment = admin.upload_by_form("howdah.png", "image/png", &file);
    let sizes = attachment["sizes"].as_object().unwrap();
    assert!(sizes.len() >= 3, "{attachment}");
    for size in sizes.values() {
        check_picture(admin, &size["url"], size, "image/png");
    }
    picture
}

fn check_picture(admin: &Admin, url: &Value, size: &Value, media_type: &str) {
    let page = admin.browser.visit(url.as_str().unwrap());
    page.is(200)
        .must(page.media_type() == media_type, || format!("not {media_type}"));
    let expected =
        (size["width"].as_u64().unwrap() as u32, size["height"].as_u64().unwrap() as u32);
    let found = picture::size(&page.body);
    page.must(found == Ok(expected), || format!("{found:?} instead of {expected:?}"));
}

fn write_a_post(admin: &Admin, picture: &Value) -> (u64, String) {
    let source = picture["media_details"]["sizes"]["large"]["source_url"].as_str().unwrap();
    let id = &picture["id"];
    let content = format!(
        "<!-- wp:paragraph --><p>It carries what it is given — über alle Berge.</p><!-- \
         /wp:paragraph -->\n\
         <!-- wp:image {{\"id\":{id},\"sizeSlug\":\"large\"}} --><figure class=\"wp-block-image \
         size-large\">\
         <img src=\"{source}\" alt=\"An elephant\" class=\"wp-image-{id}\"/></figure><!-- \
         /wp:image -->"
    );
    let (post, url) = admin.publish("The first ride", &content);
    let featured = admin.call("POST", &format!("posts/{post}"), &json!({ "featured_media": id }));
    featured.is(200);
    (post, url)
}

fn read_it(server: &Server, url: &str, picture: &Value) {
    let visitor = Browser::new(server);
    let front = visitor.visit("/");
    front.is(200).contains(TITLE).contains("The first ride");
    assert!(assets::load_all(&visitor, &front) >= 5);
    let post = visitor.visit(url);
    post.is(200)
        .contains("The first ride")
        .contains("It carries what it is given — über alle Berge.");
    post.contains(picture["media_details"]["sizes"]["large"]["source_url"].as_str().unwrap());
    assert!(assets::load_all(&visitor, &post) >= 5);
    let feed = visitor.visit("/?feed=rss2");
    feed.is(200).contains("<title>The first ride</title>");
    feed.must(feed.media_type() == "application/rss+xml", || "not a feed".to_owned());
    let head = visitor.send(visitor.ask("HEAD", "/"));
    head.is(200).must(head.body.is_empty() && head.media_type() == "text/html", || {
        "not a head alone".to_owned()
    });
    visitor.visit("/?p=4711").is(404).contains(TITLE);
}

fn discuss_it(server: &Server, admin: &Admin, url: &str) {
    let text = "I have seen it too, near the river.";
    comment(server, url, text);
    let held = admin.call("GET", "comments&status=hold", &Value::Null);
    let id = held.is(200).json()[0]["id"].as_u64().unwrap();
    admin
        .call("POST", &format!("comments/{id}"), &json!({ "status": "approved" }))
        .is(200);
    let seen = Browser::new(server).visit(url);
    seen.is(200).contains(text).contains("A passer-by").lacks("awaiting moderation");
}

/// WordPress's files below the root are run or refused; their source is not sent.
fn secrets_stay_secret(server: &Server) {
    let visitor = Browser::new(server);
    visitor.visit("/wp-config.php").is(200).lacks("DB_PASSWORD").lacks("a secret");
    visitor.visit("/.htaccess").is(403);
    visitor.visit("/wp-content/uploads/").is(403);
}

fn links_of_the_package_are_followed(server: &Server) {
    let visitor = Browser::new(server);
    let port = server.address().port();
    let page = visitor.visit(&format!("http://localhost:{port}/wp-includes/js/underscore.min.js"));
    page.is(200)
        .must(page.media_type() == "text/javascript", || "not a script".to_owned());
}

/// The permalinks that WordPress offers where it does not expect URL rewriting. They need no
/// configuration of Howdah.
fn permalinks_by_path_info(server: &Server, admin: &Admin, id: u64) {
    let url = choose_permalinks(admin, "/index.php/%postname%/", id);
    assert_eq!(url, server.url("/index.php/the-first-ride/"));
    let visitor = Browser::new(server);
    visitor.visit("/index.php/the-first-ride").is(200).contains("über alle Berge");
    visitor.visit("/index.php/the-second-ride/").is(404).contains(TITLE);
    visitor
        .visit("/index.php/wp-json/wp/v2/posts")
        .is(200)
        .contains("The first ride");
}

/// WordPress writes the same directives as for Apache. They take effect at the next request.
fn pretty_permalinks(server: &Server, admin: &Admin, folder: &Folder, id: u64) {
    let url = choose_permalinks(admin, "/%year%/%postname%/", id);
    let written = fs::read_to_string(folder.path().join("site/.htaccess")).unwrap();
    assert!(
        written.contains("# BEGIN WordPress") && written.contains("RewriteRule . /index.php [L]"),
        "{written}"
    );
    let visitor = Browser::new(server);
    pretty_addresses(&visitor, admin, &url);
    admin.ask_site_health("authorization-header");
    visitor.visit("/.htaccess").is(403);
}

/// The same without `.htaccess`: one line more in the configuration, and a reload.
fn pretty_permalinks_by_configuration(server: &Server, admin: &Admin, folder: &Folder, id: u64) {
    let url = choose_permalinks(admin, "/%year%/%postname%/", id);
    let visitor = Browser::new(server);
    fs::write(folder.path().join("site/.htaccess"), "").unwrap();
    visitor.visit(&url).is(404);
    let root = "root = \"@folder@/site\"\n";
    server.reload(
        &PLAIN
            .replace(root, &format!("{root}htaccess = false\ntry = [\"$uri\", \"/index.php\"]\n")),
    );
    wait_until("the new configuration is in force", || {
        let answer = visitor.visit(&url);
        let expected = matches!(answer.status, 200 | 404);
        answer.must(expected, || "neither the old answer nor the new one".to_owned());
        answer.status == 200
    });
    pretty_addresses(&visitor, admin, &url);
}

fn pretty_addresses(visitor: &Browser<'_>, admin: &Admin, url: &str) {
    let post = visitor.visit(url);
    post.is(200).contains("über alle Berge").contains("I have seen it too");
    post.must(post.url.as_str() == url, || format!("redirected from {url}"));
    assets::load_all(visitor, &post);
    visitor.visit("/no/such/page/").is(404).contains(TITLE);
    visitor
        .visit("/wp-json/wp/v2/posts?search=ride")
        .is(200)
        .contains("The first ride");
    visitor.visit("/category/uncategorized/").is(200).contains("The first ride");
    visitor.visit("/feed/").is(200).contains("<title>The first ride</title>");
    visitor.visit("/robots.txt").is(200).contains("Disallow: /wp-admin/");
    let folder = visitor.send(visitor.ask("GET", "/wp-admin"));
    folder
        .is(301)
        .must(folder.field("location").ends_with("/wp-admin/"), || "led astray".to_owned());
    admin.open("/wp-admin/");
}

/// Chooses a structure of permalinks on the settings' page; returns what the post's URL has become.
fn choose_permalinks(admin: &Admin, structure: &str, post: u64) -> String {
    let settings = admin.open("/wp-admin/options-permalink.php");
    let values = [("selection", "custom"), ("permalink_structure", structure)];
    let saved =
        admin
            .browser
            .send_form(&settings, settings.form_with("permalink_structure"), &values);
    saved.is(200).contains("setting-error-settings_updated");
    let post = admin.call("GET", &format!("posts/{post}"), &Value::Null);
    post.is(200).json()["link"].as_str().unwrap().to_owned()
}
