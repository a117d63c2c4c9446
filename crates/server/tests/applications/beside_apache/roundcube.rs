//! Roundcube with the mail boxes of a Dovecot.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use image::ImageFormat;

use crate::browser::{Attachment, Browser};
use crate::folder::give_to_php;
use crate::picture;
use crate::server::Server;
use crate::support::wait_until;

use super::application::Application;
use super::stage::{Daemon, Stage};

const DOVECOT: &str = "/usr/sbin/dovecot";
const SETTINGS: &str = "/etc/roundcube";
const PASSWORD: &str = "a-long-pass-phrase";

pub(super) const ROUNDCUBE: Application = Application {
    name: "roundcube-core",
    needs: &["/var/lib/roundcube/public_html/index.php", DOVECOT],
    root: "/var/lib/roundcube/public_html",
    site: "",
    virtual_host: "",
    database: false,
    set_up,
    work,
    done: "Its SQLite database, made at the first request; a refused and a good log-in to a \
           Dovecot, the settings, a message with an uploaded picture saved as a draft and found \
           again.",
    starts: &[
        "/",
        "/?_task=login",
        "/?_task=mail",
        "/?_task=mail&_mbox=Drafts&_action=list&_remote=1",
        "/?_task=settings",
        "/?_task=addressbook",
        "/skins/elastic/images/logo.svg",
        "/program/js/common.js",
        "/program/resources/blocked.gif",
        "/favicon.ico",
        "/plugins/",
        "/skins/elastic/meta.json",
        "/config/config.inc.php",
        "/.htaccess",
        "/nothing",
        "/nothing.html",
    ],
    most: 120,
    leave: &["logout", "_action=compose"],
    volatile: &[("\"request_token\":\"", "\""), ("_token\" value=\"", "\""), ("server_time", ",")],
    explained: &[],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    let settings = stage.own(SETTINGS);
    let database = stage.folder_for_php("database");
    let text = format!(
        "<?php\n$dbtype = 'sqlite3';\n$basepath = '{}';\n$dbname = 'roundcube';\n",
        database.display()
    );
    fs::write(settings.join("debian-db.php"), text).unwrap();
    let file = settings.join("config.inc.php");
    let text = fs::read_to_string(&file).unwrap();
    let own = format!(
        "\n$config['imap_host'] = ['{}:143'];\n$config['drafts_mbox'] = 'Drafts';\n\
         $config['create_default_folders'] = true;\n",
        stage.address.ip()
    );
    fs::write(&file, text + &own).unwrap();
    stage.own_for_php("/var/log/roundcube");
    stage.own_for_php("/var/lib/roundcube/temp");
    start_dovecot(stage);
}

/// Mail boxes for everybody who knows the password, at port 143 of the stage's address.
fn start_dovecot(stage: &mut Stage) {
    let folder = stage.path().join("dovecot");
    let mail = folder.join("mail");
    fs::create_dir_all(&mail).unwrap();
    give_to_php(&mail);
    let (ip, shown) = (stage.address.ip(), folder.display());
    let configuration = format!(
        r#"base_dir = {shown}/run
state_dir = {shown}/run
protocols = imap
listen = {ip}
ssl = no
disable_plaintext_auth = no
log_path = {shown}/log
mail_location = maildir:{shown}/mail/%u
first_valid_uid = 1
passdb {{
  driver = static
  args = password={PASSWORD}
}}
userdb {{
  driver = static
  args = uid=www-data gid=www-data home={shown}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    port = 143
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Drafts {{
    special_use = \Drafts
  }}
}}
"#
    );
    let file = folder.join("dovecot.conf");
    fs::write(&file, configuration).unwrap();
    let errors = fs::File::create(folder.join("stderr")).unwrap();
    let mut command = Command::new(DOVECOT);
    command
        .arg("-F")
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    stage.keep(Daemon::start(&mut command));
    wait_until("Dovecot listens", || TcpStream::connect((ip, 143)).is_ok());
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let log_in = |password| {
        let form = browser.visit("/");
        let values = [("_user", "mahout"), ("_pass", password)];
        browser.send_form(&form, form.is(200).form_with("_user"), &values)
    };
    log_in("guessed").contains("Login failed");
    log_in(PASSWORD).is(200).contains("rcmail").contains("logout");

    let letter = browser.visit("/?_task=mail&_action=compose");
    let form = letter.is(200).form_with("_to");
    let value = |name: &str| {
        let found = form.fields.iter().find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    let (id, token) = (value("_id"), value("_token"));
    let photo = picture::draw(300, 200, ImageFormat::Png);
    let file = Attachment {
        field: "_attachments[]",
        name: "howdah.png",
        media_type: "image/png",
        content: &photo,
    };
    let target =
        format!("/?_task=mail&_action=upload&_id={id}&_uploadid=upload1&_remote=1&_from=compose");
    let ask = browser.ask("POST", &target).field("X-Roundcube-Request", &token);
    let values = [("_token", token.as_str()), ("_id", id.as_str())];
    let done =
        browser.send(ask.upload(&values, file.field, file.name, file.media_type, file.content));
    done.is(200).contains("howdah.png");
    let values = [
        ("_to", "mahout@example.org"),
        ("_subject", "They never forget"),
        ("_message", "a page."),
        ("_draft", "1"),
        ("_framed", "1"),
    ];
    browser.send_form(&letter, form, &values).is(200).contains("saved to Drafts");
    let list = browser.visit("/?_task=mail&_mbox=Drafts&_action=list&_remote=1");
    list.is(200).contains("They never forget");
    browser
}
