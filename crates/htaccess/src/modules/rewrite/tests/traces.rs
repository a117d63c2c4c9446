//! The trace of rules.

use super::events;

#[test]
fn rules_and_conditions_are_told_in_order() {
    let rules = "RewriteEngine On\nRewriteRule ^n /n\nRewriteCond %{HTTP_HOST} ^(.+)\\.example$ \
        [NC]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^x/(.*)$ /y/$1?%1 [L]\n\
        RewriteRule ^ /never";
    let expected = [
        "RewriteRule ^n /n [subject=x/a pattern=^n] does not match",
        "RewriteRule ^x/(.*)$ /y/$1?%1 [L] [subject=x/a pattern=^x/(.*)$ $0=x/a $1=a] matches",
        "RewriteCond %{HTTP_HOST} ^(.+)\\.example$ [NC] [subject=own.example \
         pattern=^(.+)\\.example$ $0=own.example $1=own] holds",
        "RewriteCond %{REQUEST_FILENAME} !-f [subject=/srv/x] holds",
        "RewriteRule ^x/(.*)$ /y/$1?%1 [L] [result=/y/a query=own] applies",
    ];
    assert_eq!(events(rules, "/x/a"), expected);
}

#[test]
fn what_ends_a_rule_is_told() {
    let rules = "RewriteEngine On\nRewriteCond a b\nRewriteRule ^ /y\nRewriteRule !^x - [F]\n\
        RewriteRule ^ - [F]";
    let expected = [
        "RewriteRule ^ /y [subject=x pattern=^ $0=] matches",
        "RewriteCond a b [subject=a pattern=b] does not hold",
        "RewriteRule !^x - [F] [subject=x pattern=^x] matches, which it must not",
        "RewriteRule ^ - [F] [subject=x pattern=^ $0=] matches",
        "RewriteRule ^ - [F] [] 403",
    ];
    assert_eq!(events(rules, "/x"), expected);
}

#[test]
fn where_a_rule_leads_is_told() {
    let rules = "RewriteEngine On\nRewriteCond a !b\nRewriteRule ^x$ http://o.example/ [P]";
    let expected = [
        "RewriteRule ^x$ http://o.example/ [P] [subject=x pattern=^x$ $0=x] matches",
        "RewriteCond a !b [subject=a pattern=b] holds",
        "RewriteRule ^x$ http://o.example/ [P] [result=proxy:http://o.example/] applies, to be \
         proxied",
    ];
    assert_eq!(events(rules, "/x"), expected);
    let rules = "RewriteEngine On\nRewriteCond expr true\nRewriteRule ^x$ /y [R]";
    let expected = [
        "RewriteRule ^x$ /y [R] [subject=x pattern=^x$ $0=x] matches",
        "RewriteCond expr true [] holds",
        "RewriteRule ^x$ /y [R] [result=http://own.example/y] applies, to be redirected",
    ];
    assert_eq!(events(rules, "/x"), expected);
}
