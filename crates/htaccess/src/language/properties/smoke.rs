//! A few thousand mutated files, the same ones on every run, and files that make quadratic work
//! show.

use std::time::{Duration, Instant};

use super::*;
use crate::mutation::Mutator;

const FILES: &[&[u8]] = &[
    b"RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f [OR]\nRewriteRule ^(a+)+$ /b\\\n\
      ?c=$1 [L,R=301]\n",
    b"<IfModule !mod_x.c>\r\n<Files ~ \"\\.php$\">\r\n  Require all denied\r\n</Files>\r\n\
      </IfModule>\r\n",
    b"<If \"%{HTTPS} == 'on'\">\nHeader always set X \"a b\" env=c\n<ElseIf true>\n\
      </ElseIf></If>\n<Else>\n</Else>",
    b"<Limit GET POST>\n<RequireAll>\nRequire ip 192.0.2.1\n</RequireAll>\nOrder deny,allow\n\
      </Limit>\nErrorDocument 404 ${V}\0x",
    b"# c\\\nAddType 'a/b' .c \"d\nRedirect 301 /a /b\nRedirectMatch ^/x(.*) /y$1\nphp_flag a on\n\
      Options +Indexes\nSatisfy any",
    b"<IfVersion >= 2.4>\nExpiresByType a/b \"access plus 1 day\"\n</IfVersion>\n<FilesMatch [>\n\
      SetHandler x\n</FilesMatch>\nError 'x",
];

const WORDS: &[&[u8]] = &[
    b"\n",
    b"\\\n",
    b"\\\r\n",
    b"\n<",
    b">\n",
    b"\n</Files>\n",
    b"\n<Files a>\n",
    b"\n<IfModule core.c>\n",
    b"\n</IfModule>\n",
    b"\"",
    b"'",
    b"\\",
    b"${V}",
    b"\xef\xbb\xbf",
    b"\0",
    b" ",
    b"#",
    b"RewriteRule ^ - [C,S=2]\n",
    b"Header edit a (b*)* c\n",
    b"Require not ip 1\n",
    b"<RequireNone>\n",
    b"</RequireNone>\n",
    b"!",
    b"~",
    b"%{a}",
    b"[",
    b"]",
    b"=",
    b"-1",
    b"99999999999999999999",
];

#[test]
fn files() {
    Mutator(1).mutations(FILES, WORDS, 4_000, file);
}

#[test]
fn words_in_quotes() {
    Mutator(2).mutations(
        &[b"a b", b"\\\"'", b""],
        &[b"\\", b"\"", b"'", b" ", b"\\\\\""],
        2_000,
        quoted_word,
    );
}

/// Four times the lines take about four times as long. Work that grows with the square of their
/// number takes sixteen times.
#[test]
fn time_grows_with_the_length() {
    for (head, line, tail) in [
        ("", "<S>\n", ""),
        ("", "</S>\n", ""),
        ("<IfNo>\n", "<S>\n</T>\n", ""),
        ("", "<Files a>\n</Files>\n", ""),
        (
            "",
            "<Files a>\n<If true>\n<Limit GET>\nRequire all denied\n</Limit>\n</If>\n</Files>\n",
            "",
        ),
        ("", "<If true>\n</If>\n<Else>\n</Else>\n", ""),
        ("", "\\\n", ""),
        ("", "A \\\n", ""),
        ("", "A ${V} ${\n", ""),
        ("", "Rewritrule a b\n", ""),
        ("", "Redirect 301 /#/a/b/c /d\n", ""),
        ("", "RewriteCond %{HTTP_USER_AGENT} bot# [NC,OR]\n", ""),
        ("", "RewriteRule ^a#$ /b [L]\n", ""),
        ("", "AddType a/b# .#\n", ""),
        ("", "Header set a# b\n", ""),
        ("", "Deny from 192.0.2.1\n", ""),
        ("", "ExpiresByType a/# A1\n", ""),
        ("", "php_value a# b\n", ""),
        ("", "DirectoryIndex a#\n", ""),
        ("Redirect ", "/", ""),
        ("<FilesMatch ", "(a+)", ">\n</FilesMatch>"),
    ] {
        let source = |length: usize| {
            let lines =
                (0..length / line.len()).map(|number| line.replace('#', &number.to_string()));
            format!("{head}{}{tail}", lines.collect::<String>()).into_bytes()
        };
        let took = |source: &[u8]| {
            let begin = Instant::now();
            lint::check(source, &CompileContext::new("f", b"/site/"), &mut |_| false);
            begin.elapsed()
        };
        let (short, long) = (source(30_000), source(120_000));
        // Other work on the machine may make some measurements bad ones, but hardly all.
        let is_linear = || took(&long) < took(&short) * 10 + Duration::from_millis(100);
        assert!((0..50).any(|_| is_linear()), "{line:?}");
    }
}
