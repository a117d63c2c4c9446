//! Shaarli, whose addresses need the rewriting of its `.htaccess`.

use crate::browser::{Attachment, Browser};
use crate::server::Server;

use super::application::Application;
use super::stage::Stage;

const USER: &str = "mahout";
const PASSWORD: &str = "a long pass phrase";

const BOOKMARKS: &str = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<TITLE>Bookmarks</TITLE>\n<DL><p>\n\
    <DT><A HREF=\"https://example.net/hannibal\" ADD_DATE=\"1700000000\" PRIVATE=\"0\" \
    TAGS=\"alps\">Over the Alps</A>\n</DL><p>\n";

pub(super) const SHAARLI: Application = Application {
    name: "shaarli",
    needs: &["/usr/share/shaarli/index.php"],
    root: "/usr/share/shaarli",
    site: "symlinks = \"follow\"\n",
    virtual_host: "",
    database: false,
    set_up,
    work,
    done: "The installer, a refused and a good log-in, a link with tags and description, a file \
           of bookmarks uploaded and exported again. Its `cache` is a link to a folder of PHP's \
           user.",
    starts: &[
        "/",
        "/?searchtags=elephants",
        "/tags/cloud",
        "/picture-wall",
        "/daily",
        "/feed/atom",
        "/feed/rss",
        "/login",
        "/admin/tools",
        "/admin/export",
        "/api/v1/info",
        "/open-search",
        "/tpl/default/css/shaarli.min.css",
        "/application/config/ConfigManager.php",
        "/data/",
        "/init.php",
        "/doc/",
        "/nothing",
    ],
    most: 120,
    leave: &[
        "/admin/logout",
        "/admin/shaare/delete",
        "/admin/shaare/visibility",
        "pin",
        "visibility",
        "/untagged-only",
        "/links-per-page",
    ],
    volatile: &[],
    explained: &[],
    // `init.php` is a part of `index.php`, and is asked for alone.
    logged: &["startsWith()"],
};

fn set_up(stage: &mut Stage) {
    stage.own_for_php("/var/lib/shaarli/data");
    stage.own_for_php("/var/cache/shaarli");
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let visitor = Browser::new(server);
    let installer = visitor.visit("/");
    let mut form = installer.is(200).form_with("setlogin");
    form.fields.retain(|(name, _)| name != "updateCheck");
    let values = [
        ("setlogin", USER),
        ("setpassword", PASSWORD),
        ("title", "Links of an elephant"),
        ("Save", "Install"),
    ];
    visitor.send_form(&installer, form, &values).is(200).lacks("Error");
    let browser = Browser::new(server);
    let log_in = |password| {
        let form = browser.visit("/login");
        let values = [("login", USER), ("password", password)];
        browser.send_form(&form, form.form_with("longlastingsession"), &values)
    };
    log_in("guessed").contains("Wrong login/password");
    log_in(PASSWORD).is(200).contains("Logout");

    let editor = browser.visit("/admin/shaare?post=https://example.org/elephants");
    let values = [
        ("lf_title", "Elephants"),
        ("lf_description", "They never forget a page."),
        ("lf_tags", "elephants memory"),
        ("save_edit", "Save"),
    ];
    browser
        .send_form(&editor, editor.form_with("lf_url"), &values)
        .is(200)
        .contains("never forget");

    let import = browser.visit("/admin/import");
    let file = Attachment {
        field: "filetoupload",
        name: "bookmarks.html",
        media_type: "text/html",
        content: BOOKMARKS.as_bytes(),
    };
    let values = [("import_file", "Import")];
    browser
        .send_file(&import, import.form_with("MAX_FILE_SIZE"), &values, &file)
        .is(200);
    Browser::new(server).visit("/?searchtags=alps").contains("Over the Alps");
    browser
}
