//! Cacti up to its first page after the log-in.

use std::fs;

use crate::browser::Browser;
use crate::server::Server;

use super::application::{Application, Explained};
use super::compare::Part;
use super::stage::{DATABASE, Stage};

const SETTINGS: &str = "/etc/cacti";
const PASSWORD: &str = "A long pass-phrase 4 you";

const REASON: &str = "The package links `log` to `/var/log/cacti`, whose owner is another than the \
                      link's. Howdah refuses it. Apache with the package's `FollowSymLinks` sends \
                      the log to everybody.";

pub(super) const CACTI: Application = Application {
    name: "cacti",
    needs: &["/usr/share/cacti/site/index.php", "/usr/share/doc/cacti/cacti.sql"],
    root: "/usr/share/cacti/site",
    site: "",
    virtual_host: "",
    database: true,
    set_up,
    work,
    done: "Its tables loaded as its manual says; a refused and a good log-in, the password that \
           it makes an administrator choose, and the first page after it.",
    starts: &[
        "/",
        "/install/",
        "/install/install.php",
        "/about.php",
        "/logout.php?action=timeout",
        "/include/js/jquery.js",
        "/include/config.php",
        "/include/",
        "/lib/functions.php",
        "/scripts/ping.pl",
        "/mibs/",
        "/images/",
        "/log/cacti.log",
        "/nothing",
    ],
    most: 80,
    leave: &["action=logout", "logout.php"],
    volatile: &[("csrfMagicToken = \"", "\"")],
    explained: &[
        Explained {
            part: Part::Status,
            url: "/log/cacti.log",
            apache: "200",
            howdah: "403",
            reason: REASON,
        },
        Explained {
            part: Part::Content,
            url: "/log/cacti.log",
            apache: "AUTH",
            howdah: "",
            reason: REASON,
        },
        Explained {
            part: Part::Field(""),
            url: "/log/cacti.log",
            apache: "",
            howdah: "",
            reason: REASON,
        },
    ],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    let settings = stage.own(SETTINGS);
    let text = fs::read_to_string("/usr/share/cacti/conf_templates/debian.php.dist").unwrap();
    let values = [
        ("_DBC_DBNAME_", DATABASE),
        ("_DBC_DBSERVER_", "localhost"),
        ("_DBC_DBUSER_", DATABASE),
        ("_DBC_DBPASS_", DATABASE),
        ("_DBC_DBPORT_", "3306"),
        ("/cacti/';", "/';"),
    ];
    let text = values.iter().fold(text, |text, (from, to)| text.replace(from, to));
    fs::write(settings.join("debian.php"), text).unwrap();
    stage.own_for_php("/var/lib/cacti");
    stage.own_for_php("/var/log/cacti");
    stage.load("/usr/share/doc/cacti/cacti.sql");
    let right = stage.path().join("right.sql");
    let statement = format!("GRANT SELECT ON mysql.time_zone_name TO {DATABASE}@localhost;\n");
    fs::write(&right, statement).unwrap();
    stage.load(right.to_str().unwrap());
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let log_in = |password| {
        let form = browser.visit("/");
        let values = [("login_username", "admin"), ("login_password", password)];
        browser.send_form(&form, form.form_with("login_username"), &values)
    };
    log_in("guessed").contains("Access Denied");
    let change = log_in("admin");
    let values =
        [("password", PASSWORD), ("password_confirm", PASSWORD), ("current_password", "admin")];
    let first = browser.send_form(&change, change.is(200).form_with("password_confirm"), &values);
    first.is(200).contains("Cacti");
    browser
}
