//! DokuWiki as its own archive lays it out, with its pages and passwords below the document root.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::browser::Browser;
use crate::dokuwiki::{install, log_in, read_it, unpack, upload_pictures, write_a_page};
use crate::server::Server;

use super::application::{Application, Explained};
use super::compare::Part;
use super::stage::Stage;
use crate::support::wait_until;

pub(super) const DOKUWIKI: Application = Application {
    name: "dokuwiki",
    needs: &["/usr/share/dokuwiki/install.php", "/etc/dokuwiki/dokuwiki.php"],
    root: "@folder@/wiki",
    site: "",
    virtual_host: "",
    database: false,
    set_up: |stage| unpack(&stage.folder),
    work,
    done: "Debian's files in one folder, as DokuWiki's own archive has them, because the package's \
           layout has no web installer: pages, settings and passwords lie below the document root, \
           closed by `.htaccess` files. The installer; a refused and a good log-in, pictures \
           uploaded in both of its ways, a page with a scaled picture.",
    starts: &[
        "/",
        "/doku.php?id=safari:elephants",
        "/doku.php?id=safari:elephants&do=edit",
        "/doku.php?do=recent",
        "/doku.php?do=index",
        "/doku.php?do=login",
        "/doku.php/start",
        "/lib/exe/css.php?t=dokuwiki",
        "/lib/exe/js.php?t=dokuwiki",
        "/lib/exe/detail.php?media=safari:elephant.jpg",
        "/lib/exe/fetch.php?media=safari:elephant.jpg",
        "/lib/exe/mediamanager.php",
        "/feed.php",
        "/data/pages/safari/elephants.txt",
        "/data/",
        "/conf/users.auth.php",
        "/conf/mime.conf",
        "/inc/init.php",
        "/inc/lang/en/lang.php",
        "/bin/indexer.php",
        "/vendor/autoload.php",
        "/.htaccess",
        "/lib/tpl/",
        "/nothing",
    ],
    most: 130,
    leave: &["do=logout", "do=revert", "purge"],
    volatile: &[
        ("<lastBuildDate>", "<"),
        ("<dc:date>", "<"),
        ("\"sectok\":\"", "\""),
        ("tok=", "&"),
    ],
    explained: &[Explained {
        part: Part::Content,
        url: "page=popularity",
        apache: "Apache/2",
        howdah: "Howdah/",
        reason: "The page shows `SERVER_SOFTWARE`.",
    }],
    logged: &[],
};

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    install(server);
    let author = log_in(server);
    upload_pictures(&author);
    let uploaded = now();
    // Of changes within the same second, the list of recent changes has pictures first.
    wait_until("the next second has begun", || now() > uploaded);
    write_a_page(&author);
    read_it(server, "/doku.php?id=safari:elephants");
    author
}

/// The time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
