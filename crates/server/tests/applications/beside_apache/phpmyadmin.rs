//! phpMyAdmin on MariaDB.

use crate::browser::{Attachment, Browser};
use crate::server::Server;

use super::adminer::STATEMENTS;
use super::application::{Application, Explained};
use super::compare::Part;
use super::stage::{DATABASE, Stage};

pub(super) const PHPMYADMIN: Application = Application {
    name: "phpmyadmin",
    needs: &["/usr/share/phpmyadmin/index.php"],
    root: "/usr/share/phpmyadmin",
    site: "refuse = [\n    \"libraries\", \"templates\",\n    \
           \".ht*\", \".user.ini\", \".env*\", \".git*\", \".svn\", \".hg\", \".bzr\",\n]\n",
    virtual_host: "<Directory /usr/share/phpmyadmin/templates>\nRequire all denied\n</Directory>\n\
                   <Directory /usr/share/phpmyadmin/libraries>\nRequire all denied\n</Directory>\n",
    database: true,
    set_up,
    work,
    done: "Log-in to MariaDB, a refused log-in, a table and rows from an uploaded file, a query, \
           the rows, the database downloaded. `refuse` has the folders that Debian's \
           `apache.conf` closes.",
    starts: &[
        "/",
        "/index.php?route=/database/structure&db=application",
        "/index.php?route=/sql&db=application&table=elephants&pos=0",
        "/index.php?route=/server/variables",
        "/js/messages.php?l=en",
        "/themes/pmahomme/css/theme.css",
        "/libraries/config.default.php",
        "/templates/login/form.twig",
        "/doc/html/index.html",
        "/favicon.ico",
        "/nothing",
    ],
    most: 80,
    leave: &[
        "logout",
        "route=/themes/set",
        "route=/server/status/processes/kill",
        "route=%2Flogout",
    ],
    volatile: &[
        // MariaDB counts its traffic and connections since its start.
        ("Network traffic since startup: ", "<"),
        ("ø per hour</th>", "</table>"),
        ("has been running for ", "."),
        ("position:absolute; left:", ";"),
        ("px; top:", ";"),
        ("Query took ", " seconds"),
        ("\"token\":\"", "\""),
        ("token=", "&"),
    ],
    explained: &[
        Explained {
            part: Part::Content,
            url: "",
            apache: "Apache/2",
            howdah: "Howdah/",
            reason: "The first page shows `SERVER_SOFTWARE`.",
        },
        Explained {
            part: Part::Field("set-cookie"),
            url: "",
            apache: "phpMyAdmin; path",
            howdah: "phpMyAdmin; path",
            reason: "Where the session gets a new number, PHP replaces the cookie that it was \
                going to send. PHP in Apache sends the replaced one, too.",
        },
        Explained {
            part: Part::Field("status"),
            url: "",
            apache: "405",
            howdah: "",
            reason: "The script sends a field called `Status`, which means the status code to CGI \
                and php-fpm. PHP in Apache hands it on as a field.",
        },
    ],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    stage.own_for_php("/var/lib/phpmyadmin/tmp");
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let log_in = |password| {
        let form = browser.visit("/");
        let values = [("pma_username", DATABASE), ("pma_password", password)];
        browser.send_form(&form, form.form_with("pma_username"), &values)
    };
    log_in("guessed").contains("Access denied");
    log_in(DATABASE).is(200).contains("MariaDB");

    let import = browser.visit(&format!("/index.php?route=/database/import&db={DATABASE}"));
    let file = Attachment {
        field: "import_file",
        name: "elephants.sql",
        media_type: "application/sql",
        content: STATEMENTS.as_bytes(),
    };
    let done = browser.send_file(&import, import.form_with("import_type"), &[], &file);
    done.is(200).contains("Import has been successfully finished");

    let query = browser.visit(&format!("/index.php?route=/database/sql&db={DATABASE}"));
    let values = [("sql_query", "INSERT INTO elephants VALUES (3, 'Hansken')"), ("SQL", "Go")];
    browser
        .send_form(&query, query.form_with("sql_query"), &values)
        .is(200)
        .contains("1 row inserted");
    let rows = format!("/index.php?route=/sql&db={DATABASE}&table=elephants&pos=0");
    browser.visit(&rows).is(200).contains("Jumbo").contains("Hansken");

    let export = browser.visit(&format!("/index.php?route=/database/export&db={DATABASE}"));
    let values = [("what", "sql"), ("quick_or_custom", "quick"), ("output_format", "sendit")];
    let told = browser.send_form(&export, export.form_with("export_type"), &values);
    told.is(200).contains("INSERT INTO `elephants`").contains("Hansken");
    browser
}
