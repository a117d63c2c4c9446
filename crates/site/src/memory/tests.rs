use howdah_http::{Method, Request};

use super::{MOST_PATIENCE, Memory};
use crate::phases::tests::tree::{Tree, client};
use crate::{Resolved, Scratch};

const FILES: &str = "index.php a.txt b.txt wp/";
const RULES: &str = "RewriteEngine On\n\
    RewriteRule .* - [E=auth:%{HTTP:Authorization}]\n\
    RewriteCond %{HTTP_USER_AGENT} bad\n\
    RewriteRule ^ - [F]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\n\
    RewriteRule . /index.php [L]";

fn request(method: &str, target: &str, fields: &str) -> Request {
    let mut request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        target: target.into(),
        authority: b"example.org".to_vec(),
        ..Request::default()
    };
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    request
}

/// Asks, and says how often the disk was asked for it: not at all by who remembers.
fn ask(tree: &mut Tree, memory: &mut Memory, request: &Request) -> (Resolved, usize) {
    let before = tree.asked;
    let sites = tree.sites.clone();
    let site = sites.iter().next().unwrap();
    let resolved =
        crate::resolve_from_memory(site, &client(request), tree, &mut Scratch::default(), memory);
    (resolved, tree.asked - before)
}

fn is_known(
    tree: &mut Tree,
    memory: &mut Memory,
    method: &str,
    target: &str,
    fields: &str,
) -> bool {
    ask(tree, memory, &request(method, target, fields)).1 == 0
}

#[test]
fn the_third_request_asks_nobody() {
    for target in ["/a.txt", "/some/page", "/a.txt?v=1", "/b.txt", "/"] {
        let (mut tree, mut memory) = (Tree::new(FILES, &[("", RULES)]), Memory::new());
        let known = [(); 4].map(|()| is_known(&mut tree, &mut memory, "GET", target, ""));
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
        let (mut tree, mut memory) = (Tree::new(FILES, &[("", RULES)]), Memory::new());
        for _ in 0..2 {
            ask(&mut tree, &mut memory, &request("GET", "/a.txt", "User-Agent: good"));
        }
        let known = is_known(&mut tree, &mut memory, method, target, fields);
        assert_eq!(known, expected, "{method} {target} {fields}");
    }
}

#[test]
fn a_change_on_disk_is_seen() {
    let (mut tree, mut memory) = (Tree::new(FILES, &[("", RULES)]), Memory::new());
    let shown = |(resolved, _): (Resolved, usize)| format!("{:?}", resolved.resolution);
    let before =
        [(); 3].map(|()| shown(ask(&mut tree, &mut memory, &request("GET", "/new.txt", ""))));
    tree.add("new.txt");
    let after = shown(ask(&mut tree, &mut memory, &request("GET", "/new.txt", "")));
    assert!(before.iter().all(|shown| shown.contains("index.php")), "{before:?}");
    assert!(after.contains("new.txt"), "{after}");
    assert!(is_known(&mut tree, &mut memory, "GET", "/new.txt", ""));
}

#[test]
fn who_says_who_he_is_is_not_remembered() {
    for field in ["Authorization: Basic eDp5", "Cookie: a=b"] {
        let rules = "RewriteEngine On\n\
            RewriteCond %{HTTP:Authorization}%{HTTP_COOKIE} nobody\n\
            RewriteRule ^ - [F]";
        let (mut tree, mut memory) = (Tree::new(FILES, &[("", rules)]), Memory::new());
        for _ in 0..4 {
            assert!(!is_known(&mut tree, &mut memory, "GET", "/a.txt", field), "{field}");
        }
        let debug = format!("{memory:?}");
        assert!(!debug.contains("eDp5") && !debug.contains("a=b"));
    }
}

#[test]
fn where_no_directive_applies_there_is_nothing_to_remember() {
    let (mut tree, mut memory) = (Tree::new(FILES, &[]), Memory::new());
    for _ in 0..3 {
        ask(&mut tree, &mut memory, &request("GET", "/a.txt", ""));
    }
    assert!(memory.slots.is_empty());
}

#[test]
fn what_is_of_no_use_is_tried_less_and_less_often() {
    let (mut tree, mut memory) = (Tree::new(FILES, &[("", RULES)]), Memory::new());
    let mut kept = 0;
    for number in 0..1000 {
        let request = request("GET", "/a.txt", &format!("User-Agent: {number}"));
        assert!(ask(&mut tree, &mut memory, &request).1 > 0);
        let mut all = memory.slots.iter().filter_map(|slot| slot.kept.as_ref());
        kept += usize::from(all.any(|kept| kept.answers.are_those_of(&client(&request))));
    }
    assert!(kept < 4 * 1000 / usize::from(MOST_PATIENCE), "{kept} of 1000");
    // Who asks for the same again and again is remembered before long.
    let again = (0..=2 * usize::from(MOST_PATIENCE))
        .filter(|_| is_known(&mut tree, &mut memory, "GET", "/a.txt", "User-Agent: x"))
        .count();
    assert!(again > 0);
}
