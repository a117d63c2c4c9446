//! MediaWiki on SQLite.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use image::ImageFormat;

use crate::browser::{Attachment, Browser, Page};
use crate::picture;
use crate::server::Server;

use super::application::Application;
use super::stage::Stage;

const USER: &str = "Mahout";
const PASSWORD: &str = "a long pass phrase";
const SETTINGS: &str = "/etc/mediawiki";
const IMAGES: &str = "/var/lib/mediawiki/images";

pub(super) const MEDIAWIKI: Application = Application {
    name: "mediawiki",
    needs: &["/var/lib/mediawiki/mw-config/index.php"],
    root: "/var/lib/mediawiki",
    site: "",
    virtual_host: "",
    database: false,
    set_up,
    work,
    done: "The installer's seven pages with SQLite, `LocalSettings.php` downloaded from the last \
           one and put into `/etc/mediawiki`; log-in, an article, an uploaded picture and its \
           page. `/var/lib/mediawiki/images` was made readable for the group `www-data` (0750), \
           because the package leaves it to PHP's user alone.",
    starts: &[
        "/",
        "/index.php/Elephants",
        "/index.php?title=Elephants&action=history",
        "/index.php/Special:SpecialPages",
        "/index.php/Special:UserLogin",
        "/api.php?action=query&meta=siteinfo&format=json",
        "/rest.php/v1/page/Elephants",
        "/load.php?modules=startup&only=scripts",
        "/images/",
        "/includes/Setup.php",
        "/includes/",
        "/maintenance/install.php",
        "/LocalSettings.php",
        "/mw-config/",
        "/resources/assets/poweredby_mediawiki_88x31.png",
        "/index.php/No_such_article",
        "/nothing",
    ],
    most: 110,
    leave: &["Logout", "UserLogout", "action=purge", "Special:Random", "mw-config/index.php?"],
    volatile: &[
        ("\"wgBackendResponseTime\":", ","),
        ("NewPP limit report", "-->"),
        ("Transclusion expansion time report", "-->"),
        ("\"limitreport\":{", "}"),
        ("\"cachereport\":{", "}"),
        ("wgPageParseReport", "}}"),
    ],
    explained: &[],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    stage.own(SETTINGS);
    let images = stage.own_for_php(IMAGES);
    fs::set_permissions(images, Permissions::from_mode(0o750)).unwrap();
    stage.own_for_php("/var/lib/mediawiki/cache");
}

fn work<'s>(stage: &Stage, server: &'s Server) -> Browser<'s> {
    install(stage, server);
    let browser = Browser::new(server);
    let form = browser.visit("/index.php?title=Special:UserLogin");
    let wrong = [("wpName", USER), ("wpPassword", "guessed")];
    browser
        .send_form(&form, form.form_with("wpName"), &wrong)
        .contains("Incorrect username");
    let form = browser.visit("/index.php?title=Special:UserLogin");
    let right = [("wpName", USER), ("wpPassword", PASSWORD)];
    browser
        .send_form(&form, form.form_with("wpName"), &right)
        .is(200)
        .contains("Log out");
    upload_a_picture(&browser);
    write_an_article(&browser);
    browser
}

fn install(stage: &Stage, server: &Server) {
    let visitor = Browser::new(server);
    visitor.visit("/").contains("LocalSettings.php not found");
    let mut page = visitor.visit("/mw-config/index.php");
    let sqlite = stage.folder_for_php("sqlite");
    let pages: [&[(&str, &str)]; 6] = [
        &[],
        &[],
        &[("DBType", "sqlite"), ("sqlite_wgSQLiteDataDir", sqlite.to_str().unwrap())],
        &[
            ("config_wgSitename", "A wiki on an elephant"),
            ("config__AdminName", USER),
            ("config__AdminPassword", PASSWORD),
            ("config__AdminPasswordConfirm", PASSWORD),
            ("config__SkipOptional", "skip"),
        ],
        &[],
        &[],
    ];
    for values in pages {
        page = go_on(&visitor, &page, values);
    }
    page.contains("localsettings=1");
    let settings = visitor.visit("/mw-config/index.php?localsettings=1");
    settings.is(200).contains("<?php").contains(&server.url(""));
    let text = settings.text() + "\n$wgEnableUploads = true;\n$wgUseImageMagick = false;\n";
    fs::write(stage.copy_of(SETTINGS).join("LocalSettings.php"), text).unwrap();
}

fn go_on<'s>(visitor: &Browser<'s>, page: &Page, values: &[(&str, &str)]) -> Page<'s> {
    let mut values = values.to_vec();
    values.push(("submit-continue", "Continue →"));
    let next = visitor.send_form(page.is(200), page.form_to("mw-config"), &values);
    next.is(200).lacks("config-error");
    next
}

fn write_an_article(browser: &Browser) {
    let editor = browser.visit("/index.php?title=Elephants&action=edit");
    let text = "They never forget a '''page'''. [[File:Howdah.png|200px]] See [[Mammoths]].";
    let values = [("wpTextbox1", text), ("wpSummary", "first sighting"), ("wpSave", "Save page")];
    let saved = browser.send_form(&editor, editor.form_with("wpTextbox1"), &values);
    saved.is(200).contains("They never forget a <b>page</b>");
    saved.must(saved.url.path() == "/index.php/Elephants", || "another address".to_owned());
    let small = saved.between("<img alt=\"Howdah.png\" src=\"", "\"");
    let small = browser.visit(&small);
    small
        .is(200)
        .must(picture::size(&small.body) == Ok((200, 150)), || "not 200 px".to_owned());
}

fn upload_a_picture(browser: &Browser) {
    let form = browser.visit("/index.php?title=Special:Upload");
    let picture = picture::draw(640, 480, ImageFormat::Png);
    let file = Attachment {
        field: "wpUploadFile",
        name: "howdah.png",
        media_type: "image/png",
        content: &picture,
    };
    let values = [("wpDestFile", "Howdah.png"), ("wpUpload", "Upload file")];
    let page = browser.send_file(&form, form.form_with("wpDestFile"), &values, &file);
    let source = page.is(200).between("id=\"file\"><a href=\"", "\"");
    let fetched = browser.visit(&source);
    fetched
        .is(200)
        .must(fetched.body == picture, || "not the uploaded bytes".to_owned());
}
