//! WordPress on SQLite, as WordPress Playground builds it: no database server, and a newer
//! WordPress than Debian's.

use std::fs;
use std::path::{Path, PathBuf};

use crate::assets;
use crate::browser::Browser;
use crate::folder::{copy, give_to_php};
use crate::guide::configuration;
use crate::npm::{Package, unzip};
use crate::packages::installed;
use crate::server::Server;
use crate::support::Folder;
use crate::wordpress::{CONFIGURATION, TITLE, comment, install, log_in};

const BUILDS: Package = Package {
    name: "@wp-playground/wordpress-builds",
    version: "0.9.19",
};

/// WordPress' code, the files that it serves (a browser's Playground loads them from elsewhere),
/// and the SQLite plugin.
const MEMBERS: [&str; 3] = [
    "package/src/wordpress/wp-6.5.zip",
    "package/public/wp-6.5",
    "package/src/sqlite-database-integration/sqlite-database-integration.zip",
];

/// No mail is sent.
pub(crate) const MAIL: &str = "admin_ini = { sendmail_path = \"/bin/true\" }\n";

#[test]
fn wordpress_on_sqlite() {
    if !installed(&[]) {
        return;
    }
    let folder = Folder::new();
    let Some(site) = site(&folder) else {
        return;
    };
    give_to_php(&site.join("wp-content"));
    let server = Server::start(&folder, &(configuration("WordPress", "@folder@/site") + MAIL));

    install(&server);
    let admin = log_in(&server);
    admin.open("/wp-admin/");
    let (_, url) =
        admin.publish("No database server", "<p>Only a file, for the reader’s sake.</p>");
    assert!(url.ends_with("/no-database-server/") && !url.contains("index.php"), "{url}");
    let visitor = Browser::new(&server);
    for page in [visitor.visit("/"), visitor.visit(&url)] {
        page.is(200).contains(TITLE).contains("No database server");
        assets::load_all(&visitor, &page);
    }
    visitor.visit(&url).contains("Only a file, for the reader’s sake.");
    comment(&server, &url, "And a comment in it.");
    admin.ask_site_health("loopback-requests");
    the_database_is_no_download(&server, &site);
    // The plugin makes a folder that only PHP's user may enter. Then the front cannot know the
    // rules in it, and refuses all of it.
    server.stop_knowing(&["wp-content/database/.htaccess: it cannot be read"]);
}

/// Copies WordPress with its configuration to `site` in the folder; `None`, and a message, where
/// the package cannot be had.
pub(crate) fn site(folder: &Folder) -> Option<PathBuf> {
    let built = BUILDS
        .fetched(&MEMBERS, arrange)
        .map_err(|why| howdah_skip::skip!("{why}"))
        .ok()?;
    let site = folder.path().join("site");
    copy(&built, &site);
    fs::write(site.join("wp-config.php"), format!("<?php{CONFIGURATION}")).unwrap();
    Some(site)
}

fn arrange(package: &Path, into: &Path) {
    unzip(&package.join("src/wordpress/wp-6.5.zip"), into);
    copy(&package.join("public/wp-6.5"), into);
    // The build comes with a site that is installed already.
    let content = into.join("wp-content");
    fs::remove_dir_all(content.join("database")).unwrap();
    let plugin = "sqlite-database-integration";
    let plugins = content.join("plugins");
    unzip(&package.join(format!("src/{plugin}/{plugin}.zip")), &plugins);
    fs::rename(plugins.join(format!("{plugin}-main")), plugins.join(plugin)).unwrap();
    fs::copy(plugins.join(plugin).join("db.copy"), content.join("db.php")).unwrap();
}

fn the_database_is_no_download(server: &Server, site: &Path) {
    let name = "wp-content/database/.ht.sqlite";
    assert!(site.join(name).exists());
    Browser::new(server).visit(&format!("/{name}")).is(403);
}
