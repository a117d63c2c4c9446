use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use howdah_http::{Request, Scheme, Version};

use super::{CachedResolution, MOST_PATIENCE};
use crate::phases::tests::tree::{Tree, client, request};
use crate::{ClientRequest, Resolved, Scratch};

/// The server's part of an entry is a word.
type ResolutionCache = super::ResolutionCache<OnceCell<&'static str>>;

const FILES: &str = "index.php a.txt b.txt wp/";
const RULES: &str = "RewriteEngine On\n\
    RewriteRule .* - [E=auth:%{HTTP:Authorization}]\n\
    RewriteCond %{HTTP_USER_AGENT} bad\n\
    RewriteRule ^ - [F]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\n\
    RewriteRule . /index.php [L]";

type Cached = CachedResolution<OnceCell<&'static str>>;

/// Resolves, and counts the questions to the disk: none for a request that is in the cache.
fn resolve(
    tree: &mut Tree,
    cache: &mut ResolutionCache,
    client: &ClientRequest<'_>,
) -> (Cached, usize) {
    let before = tree.asked;
    let sites = tree.sites.clone();
    let site = sites.iter().next().unwrap();
    let cached = crate::resolve_cached(site, client, tree, &mut Scratch::default(), cache);
    (cached, tree.asked - before)
}

fn ask(tree: &mut Tree, cache: &mut ResolutionCache, request: &Request) -> (Resolved, usize) {
    let (cached, asked) = resolve(tree, cache, &client(request));
    (cached.resolved, asked)
}

fn is_known(
    tree: &mut Tree,
    cache: &mut ResolutionCache,
    method: &str,
    target: &str,
    fields: &str,
) -> bool {
    ask(tree, cache, &request(method, target, fields)).1 == 0
}

#[test]
fn the_third_request_is_not_evaluated() {
    for target in ["/a.txt", "/some/page", "/a.txt?v=1", "/b.txt", "/"] {
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
        let known = [(); 4].map(|()| is_known(&mut tree, &mut cache, "GET", target, ""));
        assert_eq!(known, [false, false, true, true], "{target}");
    }
}

#[test]
fn another_request_is_another() {
    let rows = [
        ("GET", "/a.txt", "User-Agent: good", true),
        ("GET", "/a.txt", "User-Agent: good\nAccept: x", true),
        ("GET", "/%61.txt", "User-Agent: good", true),
        ("HEAD", "/a.txt", "User-Agent: good", false),
        ("GET", "/a.txt", "User-Agent: bad", false),
        ("GET", "/a.txt", "", false),
        ("GET", "/a.txt", "User-Agent: good\nAuthorization: x", false),
        ("GET", "/a.txt?", "User-Agent: good", false),
        ("GET", "/a.txt/", "User-Agent: good", false),
        ("POST", "/a.txt", "User-Agent: good", false),
    ];
    for (method, target, fields, expected) in rows {
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
        for _ in 0..2 {
            ask(&mut tree, &mut cache, &request("GET", "/a.txt", "User-Agent: good"));
        }
        let known = is_known(&mut tree, &mut cache, method, target, fields);
        assert_eq!(known, expected, "{method} {target} {fields}");
    }
}

#[test]
fn a_change_on_disk_is_seen() {
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
    let shown = |(resolved, _): (Resolved, usize)| format!("{:?}", resolved.resolution);
    let before =
        [(); 3].map(|()| shown(ask(&mut tree, &mut cache, &request("GET", "/new.txt", ""))));
    tree.add("new.txt");
    let after = shown(ask(&mut tree, &mut cache, &request("GET", "/new.txt", "")));
    assert!(before.iter().all(|shown| shown.contains("index.php")), "{before:?}");
    assert!(after.contains("new.txt"), "{after}");
    assert!(is_known(&mut tree, &mut cache, "GET", "/new.txt", ""));
}

#[test]
fn requests_with_credentials_are_not_kept() {
    for field in ["Authorization: Basic eDp5", "Cookie: a=b"] {
        let rules = "RewriteEngine On\n\
            RewriteCond %{HTTP:Authorization}%{HTTP_COOKIE} nobody\n\
            RewriteRule ^ - [F]";
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", rules)]), ResolutionCache::new());
        for _ in 0..4 {
            assert!(!is_known(&mut tree, &mut cache, "GET", "/a.txt", field), "{field}");
        }
        let debug = format!("{cache:?}");
        assert!(!debug.contains("eDp5") && !debug.contains("a=b"));
    }
}

#[test]
fn where_no_directive_applies_there_is_nothing_to_remember() {
    let (mut tree, mut cache) = (Tree::new(FILES, &[]), ResolutionCache::new());
    for _ in 0..3 {
        ask(&mut tree, &mut cache, &request("GET", "/a.txt", ""));
    }
    assert!(cache.slots.is_empty());
}

#[test]
fn useless_entries_are_made_less_and_less_often() {
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
    let mut kept = 0;
    for number in 0..1000 {
        let request = request("GET", "/a.txt", &format!("User-Agent: {number}"));
        assert!(ask(&mut tree, &mut cache, &request).1 > 0);
        let mut all = cache.slots.iter().filter_map(|slot| slot.entry.as_ref());
        kept += usize::from(all.any(|entry| entry.answers.are_those_of(&client(&request))));
    }
    assert!(kept < 4 * 1000 / usize::from(MOST_PATIENCE), "{kept} of 1000");
    // A request that is repeated often is kept eventually.
    let again = (0..=2 * usize::from(MOST_PATIENCE))
        .filter(|_| is_known(&mut tree, &mut cache, "GET", "/a.txt", "User-Agent: x"))
        .count();
    assert!(again > 0);
}

#[test]
fn another_version_scheme_or_address_of_ours_is_another_request() {
    let get = || request("GET", "/a.txt", "");
    let rows: [(&str, Request, u16, bool); 5] = [
        ("the same", get(), 80, true),
        ("version", Request { version: Version::Http10, ..get() }, 80, false),
        ("scheme", Request { scheme: Scheme::Https, ..get() }, 80, false),
        (
            "authority",
            Request {
                authority: b"example.com".to_vec(),
                ..get()
            },
            80,
            false,
        ),
        ("our port", get(), 81, false),
    ];
    for (what, other, port, expected) in rows {
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
        for _ in 0..3 {
            resolve(&mut tree, &mut cache, &client(&get()));
        }
        let known = client(&other);
        let mut local = known.local();
        local.set_port(port);
        let other = ClientRequest::new(&other, known.remote(), local, known.time());
        let asked = resolve(&mut tree, &mut cache, &other).1;
        assert_eq!(asked == 0, expected, "{what}");
    }
}

#[test]
fn a_cache_that_was_cleared_knows_nothing() {
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
    let mut knows = |cache: &mut ResolutionCache| is_known(&mut tree, cache, "GET", "/a.txt", "");
    assert_eq!([(); 3].map(|()| knows(&mut cache)), [false, false, true]);
    cache.clear();
    assert_eq!([(); 3].map(|()| knows(&mut cache)), [false, false, true], "as at first");
}

#[test]
fn prepared_answers_stay_with_the_entry() {
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", RULES)]), ResolutionCache::new());
    let request = request("GET", "/a.txt", "");
    let mut prepared = || resolve(&mut tree, &mut cache, &client(&request)).0.prepared;
    assert!(prepared().is_none(), "the first request is not kept");
    let kept = prepared().unwrap();
    kept.set("a head").unwrap();
    let found = prepared().unwrap();
    assert_eq!(found.get(), Some(&"a head"));
    tree.add("b.html");
    let after = resolve(&mut tree, &mut cache, &client(&request)).0.prepared.unwrap();
    assert!(after.get().is_none() && !Rc::ptr_eq(&after, &found), "evaluated anew");
}

#[test]
fn what_applications_write_into_their_files_is_kept() {
    let rows = [
        "Header always set X-Content-Type-Options nosniff\nRequestHeader unset Proxy",
        "ExpiresActive On\nExpiresDefault A1209600",
        "<FilesMatch \"\\.(inc|sql)$|^\\.(?!well-known)\">\nRequire all denied\n</FilesMatch>",
        "AddType image/svg+xml svg svgz\nAddEncoding gzip svgz\nAddCharset utf-8 .txt",
        "FileETag None\nOptions -Indexes\nDirectoryIndex index.php index.html",
        "SetEnvIf Authorization \"(.*)\" HTTP_AUTHORIZATION=$1\nSetEnv APP live",
        "AddOutputFilterByType DEFLATE text/plain\nHeader append Vary User-Agent env=!dont-vary",
        "RewriteEngine On\nRewriteRule ^ - [E=protossl]\nRewriteCond %{HTTPS} on\n\
         RewriteRule ^ - [E=protossl:s]\nRewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]",
        "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\. [NC]\n\
         RewriteRule ^ https://example.org%{REQUEST_URI} [R=301,L]",
        "<Limit PUT DELETE>\nRequire all denied\n</Limit>",
    ];
    for rules in rows {
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", rules)]), ResolutionCache::new());
        for _ in 0..2 {
            assert!(!is_known(&mut tree, &mut cache, "GET", "/a.txt", "Accept: */*"), "{rules}");
        }
        assert!(is_known(&mut tree, &mut cache, "GET", "/a.txt", "Accept: */*"), "{rules}");
    }
}

#[test]
fn resolutions_of_one_request_alone_are_not_kept() {
    for read in ["%{TIME_HOUR}", "%{SCRIPT_USER}"] {
        let rules = format!("RewriteEngine On\nRewriteCond {read} nothing\nRewriteRule ^ - [F]");
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", &rules)]), ResolutionCache::new());
        for _ in 0..4 {
            assert!(!is_known(&mut tree, &mut cache, "GET", "/a.txt", ""), "{read}");
        }
    }
}

#[test]
fn answers_that_are_logged_or_made_anew_are_not_kept() {
    for (rules, target) in [
        ("Require all denied", "/a.txt"),
        ("ErrorDocument 404 gone", "/none"),
        ("Options +Indexes", "/wp/"),
    ] {
        let (mut tree, mut cache) = (Tree::new(FILES, &[("", rules)]), ResolutionCache::new());
        for _ in 0..4 {
            assert!(!is_known(&mut tree, &mut cache, "GET", target, ""), "{rules}");
        }
    }
}

/// Lines that set variables, or settings of PHP, of 7,000 bytes each.
fn long_lines(directive: &str, number: usize) -> String {
    let long = "x".repeat(7_000);
    (0..number).map(|number| format!("{directive} B{number} {long}\n")).collect()
}

#[test]
fn requests_for_which_directives_set_much_are_not_kept() {
    for directive in ["SetEnv", "php_value"] {
        for (number, expected) in [(1, true), (20, false)] {
            let rules = long_lines(directive, number);
            let (mut tree, mut cache) = (Tree::new(FILES, &[("", &rules)]), ResolutionCache::new());
            let known = [(); 4].map(|()| is_known(&mut tree, &mut cache, "GET", "/index.php", ""));
            assert_eq!(known[3], expected, "{directive}, {number} times");
        }
    }
}

#[test]
fn all_that_is_kept_is_bounded_in_bytes() {
    let rules = long_lines("SetEnv", 2);
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", &rules)]), ResolutionCache::new());
    let query = "y".repeat(200);
    for number in 0..3_000 {
        for _ in 0..2 {
            let target = format!("/index.php?{number}{query}");
            ask(&mut tree, &mut cache, &request("GET", &target, ""));
        }
    }
    let kept = cache.slots.iter().filter_map(|slot| slot.entry.as_ref()?.ruled.as_ref());
    let held: usize = kept.map(|ruled| ruled.state.env.length()).sum();
    assert!((1 << 20..8 << 20).contains(&held), "{held}");
    let mut knows = |_| is_known(&mut tree, &mut cache, "GET", "/index.php", "");
    assert!((0..=2 * usize::from(MOST_PATIENCE)).any(&mut knows), "there is room for others");
    let entries = cache.slots.iter().filter_map(|slot| slot.entry.as_ref());
    assert_eq!(cache.bytes, entries.map(|entry| entry.bytes).sum::<usize>());
}

#[test]
fn what_is_of_no_use_any_more_is_freed() {
    let rules = long_lines("SetEnv", 2);
    let (mut tree, mut cache) = (Tree::new(FILES, &[("", &rules)]), ResolutionCache::new());
    let knows = |cache: &mut ResolutionCache, tree: &mut Tree| {
        is_known(tree, cache, "GET", "/index.php", "")
    };
    assert_eq!([(); 3].map(|()| knows(&mut cache, &mut tree)), [false, false, true]);
    cache.free_former(tree.epoch);
    assert!(cache.bytes > 0 && knows(&mut cache, &mut tree), "it is of use");
    tree.epoch += 1;
    cache.free_former(tree.epoch);
    assert!(cache.bytes == 0 && cache.slots.iter().all(|slot| slot.entry.is_none()));
    let known = [(); 2].map(|()| knows(&mut cache, &mut tree));
    assert_eq!(known, [false, true], "the first evaluation is kept: the request was seen before");
}

/// A folder keeps the settings of few combinations of sections. Those of others are the entry's.
#[test]
fn settings_that_were_merged_for_one_request_count_in_its_entry() {
    let declared: String = (0..100).map(|number| format!("FilterDeclare f{number}\n")).collect();
    let sections: String = (0..8)
        .map(|bit| format!("<If \"%{{QUERY_STRING}} =~ /{bit}/\">\nFilterDeclare g{bit}\n</If>\n"))
        .collect();
    let (mut tree, mut cache) =
        (Tree::new(FILES, &[("", &(declared + &sections))]), ResolutionCache::new());
    for number in 0_u32..256 {
        let bits = (0..8).filter(|bit| number >> bit & 1 == 1);
        let query: String = bits.map(|bit| bit.to_string()).collect();
        let request = request("GET", &format!("/a.txt?{query}"), "");
        let known = [(); 3].map(|()| ask(&mut tree, &mut cache, &request).1 == 0);
        assert!(known[2], "{query}");
    }
    let entries = cache.slots.iter().filter_map(|slot| slot.entry.as_deref());
    let (own, shared): (Vec<_>, Vec<_>) =
        entries.partition(|entry| Arc::strong_count(&entry.ruled.as_ref().unwrap().settings) == 1);
    // Some entries have replaced others with the same place.
    assert!(own.len() > 100 && shared.len() > 30, "{} {}", own.len(), shared.len());
    assert!(own.iter().all(|entry| entry.bytes > 100 * 200));
    assert!(shared.iter().all(|entry| entry.bytes < 100 * 200));
}
