//! Pages that list a folder: they reveal nothing that the client may not see.

use std::rc::Rc;

use howdah_htaccess::WorkBudget;
use howdah_htaccess::modules::autoindex::FolderEntry;
use howdah_http::Request;

use super::tree::{Tree, client};
use crate::path::Scratch;
use crate::phases::ListingPage;

/// The page for the root of a tree, which holds all of the entries.
fn page(tree: &mut Tree, entries: &[&str]) -> ListingPage {
    page_for(tree, "text/html", entries)
}

fn page_for(tree: &mut Tree, accept: &str, entries: &[&str]) -> ListingPage {
    page_within(tree, accept, entries, u64::MAX)
}

/// The page for that client as far as it is made within a budget.
fn page_within(tree: &mut Tree, accept: &str, entries: &[&str], most: u64) -> ListingPage {
    let resolved = tree.resolved("GET", "/", &format!("Accept: {accept}"));
    assert_eq!(super::tree::shown(&resolved), "listing ");
    let mut ruled = Rc::unwrap_or_clone(resolved.ruled.unwrap());
    let entry = |name: &&str| FolderEntry {
        name: name.trim_end_matches('/').into(),
        is_directory: name.ends_with('/'),
        size: 1,
        modified: 0,
        content_type: None,
        encoding: None,
    };
    let mut request = Request {
        target: b"/".to_vec(),
        ..Request::default()
    };
    request.fields.push(b"Accept", accept.as_bytes());
    let sites = tree.sites.clone();
    let site = sites.iter().next().unwrap();
    let entries = entries.iter().map(entry).collect();
    let budget = WorkBudget::new(most);
    let client = client(&request).within(&budget);
    let media_type = crate::listing_type(site, &client, &ruled);
    let page = crate::list(site, &client, &mut ruled, entries, tree, &mut Scratch::default());
    assert_eq!(page.content_type, media_type);
    page
}

/// The names that the page links to, without that of the folder above.
fn names(page: &ListingPage) -> Vec<String> {
    let text = String::from_utf8_lossy(&page.content);
    let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = links.map(|link| link.trim_start_matches("./").to_owned());
    links.filter(|link| !link.starts_with(['?', '/']) && link != "../").collect()
}

const ENTRIES: &[&str] = &[
    "a.txt",
    "secret.txt",
    "user.txt",
    "gone.txt",
    "moved.txt",
    ".hidden",
    ".htaccess",
    "x.php",
    "x.phps",
    "x.php.bak",
    "d.php/",
    "open/",
    "closed/",
    "locked",
];

const RULES: &str = "Options +Indexes\nDirectoryIndex disabled\n\
    <Files secret.txt>\nRequire all denied\n</Files>\n\
    <Files user.txt>\nAuthType Basic\nAuthName N\nAuthUserFile /none\n\
    Require valid-user\n</Files>\n\
    Redirect gone /gone.txt\nRedirect /moved.txt /a.txt\n";

fn tree(rules: &str, listing: bool) -> Tree {
    let files = "a.txt secret.txt user.txt gone.txt moved.txt .hidden x.php x.phps x.php.bak \
        x.php.txt d.php/x open/b closed/b locked!";
    let rules = format!("{RULES}{rules}");
    let folders = [("", &rules[..]), ("closed/", "Require all denied\n")];
    Tree::with(files, &folders, |site| site.listing = listing)
}

#[test]
fn a_listing_names_what_the_client_may_see() {
    let shown = ["a.txt", "d.php/", "moved.txt", "open/", "x.php"];
    for is_own in [false, true] {
        let mut found = names(&page(&mut tree("", is_own), ENTRIES));
        found.sort();
        assert_eq!(found, shown, "the site's own page: {is_own}");
    }
    // Names with a dot stay hidden, and what is gone is gone.
    let mut tree = tree("IndexOptions ShowForbidden\n", false);
    let mut found = names(&page(&mut tree, ENTRIES));
    found.sort();
    let forbidden = ["closed/", "locked", "secret.txt", "user.txt", "x.php.bak", "x.phps"];
    let mut expected = [&shown[..], &forbidden].concat();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_folder_may_have_more_entries_than_a_request_has_sub_requests() {
    let many: Vec<String> = (0..450).map(|number| format!("f{number}")).collect();
    let mut tree = Tree::new(&many.join(" "), &[("", RULES)]);
    let many: Vec<&str> = many.iter().map(|name| &name[..]).collect();
    assert_eq!(names(&page(&mut tree, &many)).len(), 450);
}

#[test]
fn a_listing_whose_budget_ends_names_nothing_that_is_hidden() {
    let others: Vec<String> = (0..40).map(|number| format!("v{number}")).collect();
    let others = others.join(" ");
    let rules = format!(
        "{RULES}SetEnvIf Request_Method . {others} hidden\n<Files secret2>\n<RequireAll>\n\
         Require all granted\nRequire not env hidden\n</RequireAll>\n</Files>\n"
    );
    let mut tree = Tree::with("a.txt secret2", &[("", &rules)], |site| site.listing = true);
    let mut complete = 0;
    let all = names(&page(&mut tree, &["secret2", "a.txt"]));
    assert_eq!(all, ["a.txt"]);
    for most in (0..6_000).step_by(7) {
        let shown = names(&page_within(&mut tree, "text/html", &["secret2", "a.txt"], most));
        assert!(!shown.contains(&"secret2".to_owned()), "{most}: {shown:?}");
        complete += shown.len();
    }
    assert!((1..858).contains(&complete), "{complete}");
}

#[test]
fn texts_beside_a_listing_are_files_that_the_client_may_read() {
    let with = |line: &str| {
        let mut tree = tree(&format!("{line}\n"), false);
        for name in ["a.txt", "secret.txt", "x.php", "x.php.bak", "x.php.txt", "open/b", ".hidden"]
        {
            tree.put(&format!("/srv/www/{name}"), "TEXT OF A FILE");
        }
        let page = page(&mut tree, ENTRIES);
        String::from_utf8_lossy(&page.content).contains("TEXT OF A FILE")
    };
    for (name, expected) in [
        ("a.txt", true),
        ("/a.txt", true),
        ("secret.txt", false),
        ("x.php", false),
        ("x.php.bak", false),
        ("x.php.txt", false),
        // Without a media type it is no text.
        ("open/b", false),
        (".hidden", false),
        ("none.txt", false),
    ] {
        assert_eq!(with(&format!("HeaderName {name}")), expected, "HeaderName {name}");
        assert_eq!(with(&format!("ReadmeName {name}")), expected, "ReadmeName {name}");
    }
    assert!(!with("AddHandler x .txt\nHeaderName a.txt"), "a file with a handler");
    assert!(!with("AddType image/x .txt\nHeaderName a.txt"), "a file that is no text");
}

#[test]
fn a_listing_is_dated_by_its_folder_where_directives_ask_for_it() {
    assert!(
        page(&mut tree("IndexOptions TrackModified\n", false), ENTRIES)
            .tracked
            .is_some()
    );
    let other = page(&mut tree("IndexOptions FancyIndexing\n", false), ENTRIES);
    assert!(other.tracked.is_none() && !other.varies);
    assert!(page(&mut tree("", true), ENTRIES).varies);
}

#[test]
fn a_site_has_a_page_of_its_own_where_no_directive_says_more() {
    let json = |tree: &mut Tree| page_for(tree, "application/json", ENTRIES);
    let own = json(&mut tree("", true));
    assert_eq!(own.content_type, b"application/json");
    assert!(own.content.starts_with(b"[{\"name\":"), "{}", String::from_utf8_lossy(&own.content));
    assert_eq!(page(&mut tree("", true), ENTRIES).content_type, b"text/html; charset=utf-8");
    for (rules, is_own) in [("", false), ("IndexOptions FancyIndexing\n", true)] {
        assert_eq!(json(&mut tree(rules, is_own)).content_type, b"text/html;charset=UTF-8");
    }
}

#[test]
fn a_listing_ends_with_the_servers_name_where_directives_ask_for_it() {
    for (rules, expected) in [
        ("", false),
        ("ServerSignature Off\n", false),
        ("ServerSignature On\n", true),
        ("ServerSignature EMail\n", true),
    ] {
        let page = page(&mut tree(rules, false), ENTRIES);
        let text = String::from_utf8_lossy(&page.content);
        assert_eq!(text.contains("<address>Howdah Server at "), expected, "{rules}{text}");
    }
}

#[test]
fn a_text_beside_a_listing_is_html_only_where_its_file_is() {
    for (name, expected) in [("a.txt", "&lt;b&gt;bold"), ("a.html", "<b>bold")] {
        let rules = format!("Options +Indexes\nDirectoryIndex disabled\nHeaderName {name}\n");
        let mut tree = Tree::new("a.txt a.html", &[("", &rules)]);
        tree.put(&format!("/srv/www/{name}"), "<b>bold");
        let page = page(&mut tree, &["a.txt"]);
        let text = String::from_utf8_lossy(&page.content);
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn files_have_icons_by_their_types_and_folders_have_none() {
    let rules = "IndexOptions FancyIndexing\nAddIconByType /t.png text/* image/*\n\
                 AddIconByEncoding /z.png x-gzip\nAddType image/x .b\nAddEncoding x-gzip .gz\n";
    let mut tree = Tree::new("a.txt a.gz f.b d.txt/x", &[("", &format!("{RULES}{rules}"))]);
    let page = page(&mut tree, &["a.txt", "a.gz", "f.b", "d.txt/"]);
    let text = String::from_utf8_lossy(&page.content);
    for (name, icon) in
        [("a.txt", "/t.png"), ("f.b", "/t.png"), ("a.gz", "/z.png"), ("d.txt/", "none")]
    {
        let row = text.lines().find(|line| line.contains(&format!("href=\"{name}\""))).unwrap();
        let found = row.split("<img src=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(found.unwrap_or("none"), icon, "{name}: {row}");
    }
}
