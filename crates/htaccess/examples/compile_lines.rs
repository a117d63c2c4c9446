//! Compiles a file of many similar lines, for `scripts/count-compiling`, which counts the
//! instructions that this takes.
//!
//! `compile_lines list` prints the number and the text of each kind of line. `compile_lines KIND
//! COUNT` compiles COUNT lines of that kind, or one line with COUNT words, and merges the settings
//! with themselves.

use std::env;

use howdah_htaccess::{CompileContext, compile};

/// Lines in which `{n}` is the number of the line, `{b}` a byte and `{c}` a status.
const ROWS: &[&str] = &[
    "FilterDeclare f{n}",
    "FilterProvider f{n} DEFLATE true",
    "FilterProvider f DEFLATE \"%{Content_Type} = 'a{n}'\"",
    "FilterProtocol f{n} change=yes",
    "FilterDeclare f{n}\nFilterProtocol f{n} change=yes",
    "FilterDeclare f{n}\nFilterProvider f{n} DEFLATE true",
    "FilterDeclare f\nFilterProvider f DEFLATE true\nFilterProtocol f DEFLATE change=yes",
    "FilterChain f{n}",
    "FilterChain -f{n}",
    "FilterChain +f{n}",
    "FilterChain @f{n}",
    "FilterChain =f{n}",
    "FilterChain !",
    "AddOutputFilterByType DEFLATE text/a{n}",
    "AddOutputFilterByType f{n} text/html",
    "SetOutputFilter DEFLATE",
    "AddType text/x{n} .e{n}",
    "AddType text/x{n} .e",
    "RemoveType .e{n}",
    "RemoveType .e",
    "RemoveHandler .e{n}\nAddHandler x .e{n}",
    "AddLanguage l{n} .e",
    "AddLanguage l{n} .e{n}",
    "AddCharset l{n} .e{n}",
    "AddEncoding x{n} .e{n}",
    "AddHandler h{n} .e",
    "AddOutputFilter DEFLATE .e",
    "AddOutputFilter DEFLATE .e{n}",
    "AddInputFilter DEFLATE .e{n}",
    "AddDescription \"text {n}\" file{n}",
    "AddDescription \"text {n}\" *",
    "AddIcon /a{n} .e{n}",
    "AddIconByType /a{n} text/{n}",
    "AddIconByEncoding (A,/a{n}) x{n}",
    "AddAlt \"a{n}\" .e{n}",
    "AddAltByType \"a{n}\" text/{n}",
    "IndexIgnore f{n}",
    "IndexIgnoreReset On\nIndexIgnore a{n}",
    "IndexOptions +FancyIndexing",
    "DirectoryIndex f{n}",
    "DirectoryIndex f{n} disabled",
    "FallbackResource /f{n}",
    "Allow from 10.0.0.{b}",
    "Allow from env=e{n}",
    "Deny from h{n}.example",
    "Order allow,deny",
    "Require ip 10.0.0.{b}",
    "Require user u{n}",
    "Require group u{n}",
    "Require expr \"%{REQUEST_URI} == '{n}'\"",
    "<RequireAll>\nRequire user u{n}\n</RequireAll>",
    "<RequireAny>\nRequire user u{n}\n</RequireAny>",
    "<RequireAny>\n<RequireAll>\nRequire user u{n}\n</RequireAll>\n</RequireAny>",
    "AuthUserFile /u{n}",
    "AuthName a{n}",
    "AuthBasicProvider file file file",
    "ErrorDocument 404 /f{n}",
    "ErrorDocument {c} /f{n}",
    "Options +Indexes",
    "Header set X-{n} v",
    "Header always set X-{n} v",
    "Header edit X-{n} a{n} b",
    "Header set X-{n} v env=e{n}",
    "RequestHeader set X-{n} v",
    "ExpiresByType text/x{n} \"access plus 1 day\"",
    "ExpiresByType text/x \"access plus 1 day\"",
    "SetEnv v{n} x",
    "SetEnv v{n} x\nUnsetEnv v{n}",
    "UnsetEnv v{n}",
    "PassEnv v{n}",
    "SetEnvIf User-Agent a{n} v{n}",
    "SetEnvIf H{n} a{n} v{n}",
    "SetEnvIfExpr \"%{REQUEST_URI} == '{n}'\" v{n}",
    "BrowserMatch b{n} v{n}",
    "SetEnvIfNoCase User-Agent (a|b){n} v{n}",
    "php_value a{n} b",
    "php_flag a{n} on",
    "php_admin_value a{n} b",
    "php_value a b{n}",
    "Redirect 301 /a{n} /b",
    "Redirect 301 /a /b{n}",
    "RedirectMatch 301 ^/a{n}$ /b",
    "RedirectMatch 301 a{n} /b",
    "RewriteRule ^a{n}$ /b [L]",
    "RewriteRule a{n} /b [S=1]",
    "RewriteRule ^ - [E=a{n}:b]",
    "RewriteRule ^ - [S={n}]",
    "RewriteCond %{REQUEST_URI} a{n}\nRewriteRule ^ - [L]",
    "RewriteCond %{REQUEST_URI} a{n} [OR]",
    "RewriteCond %{REQUEST_URI} =a{n}",
    "RewriteOptions Inherit",
    "RewriteBase /a{n}",
    "SSLRequire %{REMOTE_ADDR} == \"{n}\"",
    "SSLOptions +StdEnvVars",
    "SSLCipherSuite a{n}",
    "Substitute s/a{n}/b/n",
    "Substitute s/a{n}/b/",
    "LanguagePriority l{n}",
    "ForceLanguagePriority Prefer",
    "CGIVar REQUEST_URI request-uri",
    "<Files f{n}>\n</Files>",
    "<Files f{n}>\nSetEnv a b\n</Files>",
    "<FilesMatch f{n}>\n</FilesMatch>",
    "<If \"%{REQUEST_URI} == '{n}'\">\n</If>",
    "<If \"%{REQUEST_URI} == '{n}'\">\nSetEnv a\n</If>\n<ElseIf true>\n</ElseIf>\n<Else>\n</Else>",
    "<Limit GET>\nRequire user a{n}\n</Limit>",
    "<Limit M{n}>\nRequire user a{n}\n</Limit>",
    "<LimitExcept M{n}>\nRequire user a{n}\n</LimitExcept>",
    "<IfModule a{n}>\n</IfModule>",
    "<IfFile /a{n}>\n</IfFile>",
    "<IfDefine a{n}>\n</IfDefine>",
    "# comment {n}",
    "Nonsense{n} a",
    "SetEnv",
    "AuthMerging And",
    "FilterTrace a 1",
    "Require method M{n}",
    "CookieName a{n}",
    "AuthType a{n}",
    "AuthDigestDomain /a{n}",
    "SetEnv a \\\n",
];

/// Lines of many words: the text before them, a word, and the text behind them.
const WORDS: &[(&str, &str, &str)] = &[
    ("DirectoryIndex ", "f{n} ", ""),
    ("IndexIgnore ", "f{n} ", ""),
    ("AddType text/html ", ".f{n} ", ""),
    ("AddOutputFilter DEFLATE ", ".f{n} ", ""),
    ("AddOutputFilter ", "DEFLATE;", " .x"),
    ("SetOutputFilter ", "DEFLATE;", ""),
    ("AddOutputFilterByType DEFLATE ", "text/a{n} ", ""),
    ("AddOutputFilterByType ", "DEFLATE;", " text/html"),
    ("AddOutputFilterByType ", "f{n};", " text/html"),
    ("FilterChain ", "f{n} ", ""),
    ("FilterChain ", "-f{n} ", ""),
    ("FilterProtocol f ", "change=yes;", ""),
    ("RemoveType ", ".f{n} ", ""),
    ("Require user ", "u{n} ", ""),
    ("Require ip ", "10.0.0.{b} ", ""),
    ("Require host ", "h{n} ", ""),
    ("Require env ", "h{n} ", ""),
    ("Require method ", "H{n} ", ""),
    ("Allow from ", "10.0.0.{b} ", ""),
    ("<Limit ", "M{n} ", ">\nRequire all denied\n</Limit>"),
    ("SetEnvIf a b ", "v{n} ", ""),
    ("SetEnvIf a b ", "v{n}=\\$1 ", ""),
    ("UnsetEnv ", "v{n} ", ""),
    ("PassEnv ", "v{n} ", ""),
    ("AddDescription t ", "v{n} ", ""),
    ("AddIcon /a ", "v{n} ", ""),
    ("LanguagePriority ", "v{n} ", ""),
    ("IndexOptions ", "+FancyIndexing ", ""),
    ("Options ", "+Indexes ", ""),
    ("ExpiresDefault \"access plus ", "1 day ", "\""),
    ("RewriteRule ^ - [", "E=a{n}:b,", "L]"),
    ("RewriteRule ^ ", "%{REQUEST_URI}", ""),
    ("RewriteRule ^ ", "a$1", ""),
    ("RewriteRule ", "(a{n}|b)", " -"),
    ("RewriteRule ", "(", " -"),
    ("RewriteRule ", "a|", " -"),
    ("RewriteRule ", "[ab]", " -"),
    ("RewriteRule ", "^a{n}$|", "x -"),
    ("RewriteRule ", ".*", " -"),
    ("RewriteRule ^ ", "${{a:", ""),
    ("RewriteRule ^ ", "%{HTTP:", ""),
    ("RewriteCond ", "%{HTTP:a{n}}", " x\nRewriteRule ^ -"),
    ("RewriteCond ", "%{LA-U:", " x\nRewriteRule ^ -"),
    ("Header set X \"", "%{A{n}}e", "\""),
    ("Header set X \"", "%", "\""),
    ("Header set X \"expr=", "%{A{n}}", "\""),
    ("Header set X \"expr=", "%{", "\""),
    ("Require expr \"", "true && ", "true\""),
    ("Require expr \"", "!", "true\""),
    ("Require expr \"", "(", "true\""),
    ("Require expr \"", "'a{n}' == 'b' || ", "true\""),
    ("Require expr \"'a' in {", "'a{n}',", "'b'}\""),
    ("Require expr \"", "'a' . ", "'b' == 'c'\""),
    ("SSLRequire ", "true and ", "true"),
    ("SSLRequire ", "(", "true"),
    ("Substitute \"s/", "a{n}|", "/b/\""),
    ("Substitute \"s/a/", "$1", "/\""),
    ("RedirectMatch ", "(a)", " /b"),
    ("RedirectMatch (a) /b", "$1", ""),
    ("ErrorDocument 404 \"", "%{A{n}}", "\""),
    ("<If \"", "true && ", "true\">\n</If>"),
    ("<Files \"", "../", "\">\n</Files>"),
    ("<Files \"", "[", "\">\n</Files>"),
    ("<Files \"", "*", "\">\n</Files>"),
    ("<FilesMatch \"", "a|", "\">\n</FilesMatch>"),
    ("SetEnv a \"", "\\\"", "\""),
    ("SetEnv a ", "\\\n", "b"),
    ("php_value a ", "b{n} ", ""),
    ("SSLCipherSuite ", "a{n}:", ""),
    ("AuthName \"", "%{A{n}}", "\""),
    ("AuthBasicFake \"", "%{A{n}}", "\""),
    ("FilterProvider f DEFLATE \"", "true && ", "true\""),
    ("AuthBasicProvider ", "file ", ""),
    ("AuthDigestDomain ", "/a{n} ", ""),
    ("ForceLanguagePriority ", "Prefer ", ""),
    ("MultiviewsMatch ", "Handlers ", ""),
    ("FileETag ", "+INode ", ""),
    ("SSLOptions ", "+StdEnvVars ", ""),
    ("BrowserMatch ", "(a{n}|b)?", " v"),
    ("", "<RequireAll>\n", ""),
    ("", "<Files a{n}>\n", ""),
    ("", "<If true>\n", ""),
    ("", "<Limit GET>\n", ""),
    ("", "<IfModule x>\n", ""),
    ("", "<IfModule !x>\n", ""),
    ("", "</Files>\n", ""),
    ("<If true>\n</If>\n", "<ElseIf \"'{n}' == 'a'\">\n</ElseIf>\n", ""),
    ("FilterDeclare f\n", "FilterProvider f DEFLATE \"'{n}' == 'a'\"\n", "FilterProtocol f x=y"),
];

/// Bytes of a line at most; a longer one is a mistake.
const LONGEST_LINE: usize = 8192;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    match numbers[..] {
        [kind, count] if kind < ROWS.len() + WORDS.len() => measured(&text(kind, count)),
        _ => (0..ROWS.len() + WORDS.len())
            .for_each(|kind| println!("{kind} {}", text(kind, 2).escape_debug())),
    }
}

/// Compiles and merges: the part that counts.
#[inline(never)]
fn measured(text: &str) {
    let compiled = compile(text.as_bytes(), &CompileContext::new("f", b"/srv/"));
    let merged = compiled.settings.merge(&compiled.settings);
    drop(merged);
}

fn text(kind: usize, count: usize) -> String {
    if let Some(row) = ROWS.get(kind) {
        return (0..count).map(|number| written(row, number) + "\n").collect();
    }
    let (before, word, after) = WORDS[kind - ROWS.len()];
    // As many lines as the words need.
    let mut text = String::new();
    let mut line = before.to_owned();
    for number in 0..count {
        let word = written(word, number);
        if line.len() + word.len() + after.len() + 1 > LONGEST_LINE && !word.ends_with('\n') {
            text.push_str(&format!("{line}{after}\n"));
            line = before.to_owned();
        }
        line.push_str(&word);
    }
    format!("{text}{line}{after}\n")
}

fn written(template: &str, number: usize) -> String {
    template
        .replace("{n}", &number.to_string())
        .replace("{b}", &(number % 256).to_string())
        .replace("{c}", &(400 + number % 17).to_string())
}
