//! The budget of an evaluation: it holds for everything that directives do for one request.

use howdah_htaccess::WorkBudget;
use howdah_http::Request;

use super::tree::{Tree, client, shown};
use crate::path::Scratch;
use crate::resolution::Resolved;

/// Resolves `target` within a budget. Returns the result and the steps that were taken.
fn within(tree: &mut Tree, target: &str, steps: u64) -> (Resolved, u64) {
    let budget = WorkBudget::new(steps);
    let mut request = Request {
        target: target.into(),
        ..Request::default()
    };
    request.fields.push(b"User-Agent", "x".repeat(40).as_bytes());
    let sites = tree.sites.clone();
    let site = sites.iter().next().unwrap();
    let client = client(&request).within(&budget);
    let resolved = crate::resolve(site, &client, tree, &mut Scratch::default());
    (resolved, budget.used())
}

/// Each of these repeats something that is harmless once.
fn costly() -> Vec<(&'static str, String)> {
    let many = |line: &str| line.repeat(3_000);
    vec![
        (
            "conditions that nearly exhaust a match",
            format!(
                "RewriteEngine On\n{}RewriteRule ^ - [F]\n",
                many("RewriteCond %{HTTP_USER_AGENT} !^(x|xx)+[yz]$\n")
            ),
        ),
        (
            "expressions",
            many("<If \"%{HTTP_USER_AGENT} =~ /^(x|xx)+[yz]$/\">\nSetEnv A b\n</If>\n"),
        ),
        ("variables", many("SetEnvIf User-Agent ^(x|xx)+[yz]$ A\n")),
        ("requirements", many("Require expr %{HTTP_USER_AGENT} =~ /^(x|xx)+[yz]$/\n")),
        ("redirects", many("RedirectMatch ^/.*(x|xx)+[yz]$ /z\n")),
        ("request fields", many("RequestHeader edit User-Agent ^(x|xx)+[yz]$ z\n")),
        (
            "files that are asked for",
            format!(
                "RewriteEngine On\n{}RewriteRule ^ - [F]\n",
                many("RewriteCond %{DOCUMENT_ROOT}/none/%{REQUEST_URI} -f [OR]\n")
            ),
        ),
        (
            "sub-requests",
            format!(
                "RewriteEngine On\n{}RewriteRule ^ - [F]\n",
                "RewriteCond %{LA-U:REQUEST_FILENAME} =x [OR]\n".repeat(150)
            ),
        ),
    ]
}

#[test]
fn costly_directives_are_answered_with_500_and_their_place() {
    for (what, text) in costly() {
        let mut tree = Tree::new("index.php xxxxxxxxxxxxxxxxxxxxxxxxxx", &[("", &text)]);
        let target = "/xxxxxxxxxxxxxxxxxxxxxxxxxx";
        let (resolved, used) = within(&mut tree, target, 50_000);
        assert_eq!(shown(&resolved), "exhausted", "{what}: {used} steps");
        let ruled = resolved.ruled.unwrap();
        let complaints = &ruled.state.complaints;
        // Rules that look themselves up say so.
        assert!(what == "sub-requests" || complaints.len() <= 2, "{what}: {}", complaints.len());
        let (place, message) = complaints.last().unwrap();
        assert!(message.contains("50000 steps that `htaccess_work`"), "{what}: {message}");
        if !matches!(what, "files that are asked for" | "sub-requests") {
            assert!(place.is_some(), "{what}");
        }
    }
}

#[test]
fn what_fits_the_budget_is_as_without_one() {
    for (what, text) in costly() {
        // A tenth of a percent of the lines is nothing special.
        let short: Vec<&str> = text.lines().rev().take(5).collect();
        let short: Vec<&str> = short.into_iter().rev().collect();
        let text = format!("RewriteEngine On\n{}\n", short.join("\n"));
        if text.contains("</If>") {
            continue;
        }
        let mut tree = Tree::new("index.php x.txt", &[("", &text)]);
        let (resolved, used) = within(&mut tree, "/x.txt", u64::MAX);
        let expected = shown(&resolved);
        assert!(used > 0, "{what}");
        // By now every pattern that is needed has been compiled.
        let (_, used) = within(&mut tree, "/x.txt", 50_000_000);
        let (again, same) = within(&mut tree, "/x.txt", used);
        assert_eq!((shown(&again), same), (expected, used), "{what}: exactly its work is enough");
        if used > 1 {
            let (less, _) = within(&mut tree, "/x.txt", used - 1);
            assert_eq!(shown(&less), "exhausted", "{what}");
        }
    }
}

/// The rules of usual sites must stay far below the budget of an event loop.
#[test]
fn ordinary_rules_take_little_work() {
    let wordpress = "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
                     RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                     RewriteRule . /index.php [L]\n";
    let redirects: String = (0..5_000)
        .map(|number| format!("Redirect 301 /old/{number} /new/{number}\n"))
        .collect();
    let rules: String = (0..5_000)
        .map(|number| format!("RewriteRule ^old/{number}/(.*)$ /new/{number}/$1 [R=301,L]\n"))
        .collect();
    let rules = format!("RewriteEngine On\n{rules}");
    for (what, text, most) in [
        ("wordpress", wordpress, 5_000),
        ("redirects", &redirects, 5_000),
        ("rules", &rules, 20_000),
    ] {
        let mut tree = Tree::new("index.php", &[("", text)]);
        let (_, used) = within(&mut tree, "/2024/05/some-long-title-of-a-post/", 50_000_000);
        assert!(used < most, "{what}: {used}");
    }
}

/// The budget of an event loop lasts for some hundred files. No more of them are looked at.
#[test]
fn thousands_of_files_of_a_name_are_given_up_before_all_are_looked_at() {
    let files: Vec<String> = (0..2_000).map(|number| format!("page.html.l{number}")).collect();
    let languages: String = (0..2_000).map(|n| format!("AddLanguage l{n} .l{n}\n")).collect();
    let rules = format!("Options +MultiViews\n{languages}");
    let page = format!("ErrorDocument 404 /page\n{rules}");
    for (rules, target) in [(&rules, "/page"), (&page, "/none")] {
        let mut tree = Tree::new(&files.join(" "), &[("", rules)]);
        let (resolved, _) = within(&mut tree, target, 200_000);
        assert_eq!(shown(&resolved), "exhausted");
        assert!(tree.asked < 500, "the disk was asked {} times", tree.asked);
    }
}

#[test]
fn a_deep_path_is_work_before_its_folders_are_looked_at() {
    for (folders, most, expected) in [(16, 0, "404"), (17, 0, "exhausted"), (800, 5_000_000, "404")]
    {
        let mut tree = Tree::new("index.php", &[]);
        let target = format!("{}/x", "/d".repeat(folders));
        let (resolved, used) = within(&mut tree, &target, most);
        assert!(shown(&resolved).contains(expected), "{folders}: {}", shown(&resolved));
        if expected == "404" {
            assert_eq!(used, 4_000 * (folders as u64 - 16), "{folders}");
        }
    }
}

/// Each of these makes a text of a long value, many times. The budget is that of an event loop.
#[test]
fn a_text_that_becomes_too_long_is_answered_with_500_and_its_place() {
    let variable = "%{reqenv:A}".repeat(700);
    let captures = "$1".repeat(3_900);
    let query = "%{QUERY_STRING}".repeat(500);
    let taken = "%{QUERY_STRING} =~ /(.*)/";
    let rows: [(&str, String, Option<u32>); 12] = [
        (
            "If",
            format!("<If \"{taken} && '{captures}' == 'x'\">\nRequire all denied\n</If>"),
            Some(2),
        ),
        ("If", format!("<If \"-n '{query}'\">\nRequire all denied\n</If>"), Some(2)),
        ("Require expr", format!("Require expr \"-n '{variable}'\""), Some(2)),
        ("SetEnvIfExpr", format!("SetEnvIfExpr \"-n '{variable}'\" B"), Some(2)),
        ("SetEnvIf", format!("SetEnvIf A ^.*$ B={}", "$0".repeat(4_000)), Some(2)),
        (
            "RewriteCond expr",
            format!("RewriteEngine On\nRewriteCond expr \"-n '{variable}'\"\nRewriteRule ^ - [F]"),
            Some(3),
        ),
        (
            "RewriteCond",
            format!("RewriteEngine On\nRewriteCond {} x\nRewriteRule ^ -", "%{ENV:A}".repeat(900)),
            Some(4),
        ),
        ("AuthName", format!("AuthType Basic\nAuthName \"{variable}\"\nRequire valid-user"), None),
        ("RequestHeader", format!("RequestHeader set X \"{}\"", "%{A}e".repeat(1_600)), Some(2)),
        (
            "RequestHeader edit",
            format!("RequestHeader set X %{{A}}e\nRequestHeader edit X ^(.*)$ {captures}"),
            Some(3),
        ),
        ("SetHandler", format!("SetHandler \"{variable}\""), Some(2)),
        ("ErrorDocument", format!("ErrorDocument 404 \"{variable}\"\nRedirect 404 /"), None),
    ];
    let target = format!("/x.txt?{}", "q".repeat(200));
    for (what, text, line) in rows {
        let text = format!("SetEnvIf User-Agent (.*) A={}\n{text}\n", "$0".repeat(1_500));
        let mut tree = Tree::new("index.php x.txt", &[("", &text)]);
        let (resolved, _) = within(&mut tree, &target, 200_000);
        let shown = shown(&resolved);
        assert!(shown == "exhausted" || shown == "500", "{what}: {shown}");
        let ruled = resolved.ruled.unwrap();
        let (place, message) = ruled.state.complaints.last().unwrap();
        assert_eq!(place.as_ref().map(|place| place.line), line, "{what}: {message}");
        let is_named =
            ["64 KiB", "too long", "longer than"].iter().any(|part| message.contains(part));
        assert!(is_named, "{what}: {message}");
    }
}
