//! Common uses of WordPress, with any database.

use serde_json::{Value, json};

use crate::assets;
use crate::browser::{Browser, Page};
use crate::server::Server;

pub(crate) const TITLE: &str = "A blog on an elephant";
const USER: &str = "mahout";
const PASSWORD: &str = "a long pass phrase & more";

/// The administrator, logged in.
pub(crate) struct Admin<'s> {
    pub(crate) browser: Browser<'s>,
    /// The token that WordPress demands with every call of its API, besides the cookie.
    nonce: String,
}

/// The part of wp-config.php that no database needs: nothing goes out to other servers, and mail
/// goes nowhere.
pub(crate) const CONFIGURATION: &str = "
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY'] as $name) {
    define($name, \"a secret $name\");
    define(str_replace('KEY', 'SALT', $name), \"more secret $name\");
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
";

/// A new site: whoever comes is led to the installer, which asks for a title, a user and a
/// password.
pub(crate) fn install(server: &Server) {
    let visitor = Browser::new(server);
    let form = visitor.visit("/");
    form.is(200)
        .must(form.url.path() == "/wp-admin/install.php", || "not the installer".to_owned());
    assets::load_all(&visitor, &form);
    let values = [
        ("weblog_title", TITLE),
        ("user_name", USER),
        ("admin_password", PASSWORD),
        ("admin_password2", PASSWORD),
        ("pw_weak", "1"),
        ("admin_email", "mahout@example.org"),
    ];
    let done = visitor.send_form(&form, form.form_with("weblog_title"), &values);
    done.is(200).contains("Success!");
}

/// Through the log-in form, to the dashboard.
pub(crate) fn log_in(server: &Server) -> Admin<'_> {
    let browser = Browser::new(server);
    let form = browser.visit("/wp-admin/");
    form.is(200)
        .must(form.url.path() == "/wp-login.php", || "not the log-in form".to_owned());
    assets::load_all(&browser, &form);
    let wrong =
        browser.send_form(&form, form.form_with("log"), &[("log", USER), ("pwd", "guessed")]);
    wrong.is(200).contains("is incorrect");
    let dashboard =
        browser.send_form(&form, form.form_with("log"), &[("log", USER), ("pwd", PASSWORD)]);
    dashboard
        .is(200)
        .contains("wpadminbar")
        .must(dashboard.url.path() == "/wp-admin/", || "not the dashboard".to_owned());
    let nonce = browser.visit("/wp-admin/admin-ajax.php?action=rest-nonce");
    Admin { browser, nonce: nonce.is(200).text() }
}

impl<'s> Admin<'s> {
    /// Loads a page of the dashboard with everything that belongs to it, which is never little.
    pub(crate) fn open(&self, path: &str) -> Page<'s> {
        let page = self.browser.visit(path);
        page.is(200).contains("wpadminbar");
        let assets = assets::load_all(&self.browser, &page);
        page.must(assets >= 10, || format!("only {assets} assets"));
        page
    }

    /// A call of the REST API, by the way that works with every kind of permalinks.
    pub(crate) fn call(&self, method: &'static str, route: &str, body: &Value) -> Page<'s> {
        let ask = self.browser.ask(method, &format!("/?rest_route=/wp/v2/{route}"));
        let ask = ask.field("X-WP-Nonce", &self.nonce).field("Accept", "application/json");
        if body.is_null() {
            return self.browser.send(ask);
        }
        self.browser
            .send(ask.field("Content-Type", "application/json").body(body.to_string()))
    }

    /// Publishes a post; returns its id and its URL.
    pub(crate) fn publish(&self, title: &str, content: &str) -> (u64, String) {
        let post = json!({ "title": title, "content": content, "status": "publish" });
        let answer = self.call("POST", "posts", &post);
        let post = answer.is(201).json();
        (post["id"].as_u64().unwrap(), post["link"].as_str().unwrap().to_owned())
    }

    /// Uploads a file through the REST API, as the block editor does.
    pub(crate) fn upload(&self, name: &str, media_type: &str, file: &[u8]) -> Value {
        let ask = self
            .browser
            .ask("POST", "/?rest_route=/wp/v2/media")
            .field("X-WP-Nonce", &self.nonce);
        let disposition = format!("attachment; filename=\"{name}\"");
        let ask = ask.field("Content-Disposition", &disposition).field("Content-Type", media_type);
        self.browser.send(ask.body(file)).is(201).json()
    }

    /// Uploads a file through the media library's form.
    pub(crate) fn upload_by_form(&self, name: &str, media_type: &str, file: &[u8]) -> Value {
        let page = self.open("/wp-admin/media-new.php");
        let form = page.form_with("_wpnonce");
        let nonce = form.fields.iter().find(|(field, _)| field == "_wpnonce").unwrap();
        let values = [("action", "upload-attachment"), ("_wpnonce", &nonce.1), ("name", name)];
        let ask = self.browser.ask("POST", "/wp-admin/async-upload.php");
        let answer = self.browser.send(ask.upload(&values, "async-upload", name, media_type, file));
        let answer = answer.is(200).json();
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    /// Runs one of WordPress's tests of its own server (Tools → Site Health). Its result must be
    /// good.
    pub(crate) fn ask_site_health(&self, test: &str) {
        let ask = self
            .browser
            .ask("GET", &format!("/?rest_route=/wp-site-health/v1/tests/{test}"));
        let ask = ask.field("X-WP-Nonce", &self.nonce);
        let answer = match test {
            // It looks for what the dashboard's script sends with it.
            "authorization-header" => {
                self.browser.send(ask.field("Authorization", "Basic dXNlcjpwd2Q="))
            }
            _ => self.browser.send(ask),
        };
        let verdict = answer.is(200).json();
        answer.must(verdict["status"] == "good", || {
            format!("site health is not content: {}", verdict["description"])
        });
    }
}

/// A visitor without an account writes a comment under the post at `url`, and sees that it waits
/// for approval.
pub(crate) fn comment(server: &Server, url: &str, text: &str) {
    let visitor = Browser::new(server);
    let post = visitor.visit(url);
    let values = [("author", "A passer-by"), ("email", "passer@example.org"), ("comment", text)];
    let seen = visitor.send_form(&post, post.form_with("comment_post_ID"), &values);
    seen.is(200).contains(text).contains("awaiting moderation");
    Browser::new(server).visit(url).is(200).lacks(text);
}
