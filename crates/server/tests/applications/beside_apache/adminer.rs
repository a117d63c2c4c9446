//! Adminer on MariaDB.

use crate::browser::{Attachment, Browser};
use crate::server::Server;

use super::application::Application;
use super::stage::{DATABASE, Stage};

/// The upload of a user of a database tool.
pub(super) const STATEMENTS: &str = "\
    CREATE TABLE elephants (id INT PRIMARY KEY, name VARCHAR(40));\n\
    INSERT INTO elephants VALUES (1, 'Jumbo'), (2, 'Hanno');\n";

pub(super) const ADMINER: Application = Application {
    name: "adminer",
    needs: &["/etc/adminer/conf.php"],
    root: "/etc/adminer",
    site: "index = [\"conf.php\"]\n",
    virtual_host: "DirectoryIndex conf.php\n",
    database: true,
    set_up: |_| {},
    work,
    done: "Log-in to MariaDB, a refused log-in, a table and rows from an uploaded file, a row by \
           its form, the rows and the whole database downloaded.",
    starts: &[
        "/",
        "/conf.php",
        "/conf.php/path",
        "/?username=application&db=application",
        "/?username=application&db=application&select=elephants",
        "/?username=application&db=application&table=elephants",
        "/?file=default.css&version=4.8.1",
        "/?file=functions.js&version=4.8.1",
        "/nothing",
    ],
    most: 120,
    leave: &["logout", "kill="],
    volatile: &[("class='time'>", "<"), ("(", " s)")],
    explained: &[],
    logged: &[],
};

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let form = browser.visit("/");
    let log_in = |password| {
        let values = [
            ("auth[driver]", "server"),
            ("auth[server]", ""),
            ("auth[username]", DATABASE),
            ("auth[password]", password),
            ("auth[db]", DATABASE),
        ];
        browser.send_form(&form, form.form_with("auth[driver]"), &values)
    };
    log_in("guessed").contains("Access denied");
    log_in(DATABASE).is(200).contains("logout");
    let of = |page: &str| format!("/?username={DATABASE}&db={DATABASE}&{page}");

    let import = browser.visit(&of("import="));
    let file = Attachment {
        field: "sql_file[]",
        name: "elephants.sql",
        media_type: "application/sql",
        content: STATEMENTS.as_bytes(),
    };
    let done = browser.send_file(&import, import.form_with("error_stops"), &[], &file);
    done.is(200).contains("2 queries executed OK");

    let row = browser.visit(&of("edit=elephants"));
    let values = [("fields[id]", "3"), ("fields[name]", "Hansken")];
    browser.send_form(&row, row.form_with("fields[id]"), &values).is(200);
    browser
        .visit(&of("select=elephants"))
        .is(200)
        .contains("Jumbo")
        .contains("Hansken");

    let dump = browser.visit(&of("dump="));
    let values = [
        ("output", "file"),
        ("table_style", "DROP+CREATE"),
        ("data_style", "INSERT"),
        ("databases[]", DATABASE),
        ("tables[]", "elephants"),
        ("data[]", "elephants"),
    ];
    let told = browser.send_form(&dump, dump.form_with("output"), &values);
    told.is(200).contains("INSERT INTO `elephants`").contains("Hansken");
    browser
}
