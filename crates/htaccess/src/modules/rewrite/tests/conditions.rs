//! Conditions: tests, variables, captures, alternatives.

use super::{ask, check};

/// Returns whether the condition holds for `GET /a.html/info?q=1` with some fields.
fn holds(condition: &str) -> bool {
    let rules = format!("RewriteEngine On\nRewriteCond {condition}\nRewriteRule ^(.)(.*)$ - [F]");
    let fields = "User-Agent: Bot/1\nX-Two: a\nX-Two: b\nAccept: x";
    ask(&rules, "/a.html/info?q=1", fields).outcome == "403"
}

#[test]
fn tests_of_strings() {
    let table = [
        ("abc ^a(.)c$", true),
        ("abc !^a", false),
        ("ABC ^a [NC]", true),
        ("ABC ^a", false),
        ("abc =abc", true),
        ("abc !=abc", false),
        ("ABC =abc [NC]", true),
        ("\"\" =\"\"", true),
        ("a =\"\"", false),
        ("= =", true),
        // The longer string is the greater one.
        ("b >abc", false),
        ("abc >b", true),
        ("b >a", true),
        ("a >a", false),
        ("a >=a", true),
        ("b <abc", true),
        ("a <=a", true),
        ("b <=a", false),
        ("B >a [NC]", true),
        ("b <abc [NC]", false),
        ("12 -eq12", true),
        ("12x -eq12", true),
        ("12 -ne12", false),
        ("12 !-ne12", true),
        ("9 -lt10", true),
        ("10 -le10", true),
        ("11 -gt10", true),
        ("9 -ge10", false),
        ("10 -ge10", true),
        ("13 -ne12", true),
        // An operator with nothing behind it is a regular expression.
        ("-lt -lt", true),
        ("x -le", false),
        ("-gt -gt", true),
        ("x -ge", false),
        ("x -eq", false),
        ("-ne -ne", true),
        ("x >", false),
        ("a<b <", true),
        ("x -z", false),
        ("/srv -s", false),
        ("/srv/a.html -s", true),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn tests_of_files() {
    let table = [
        ("/srv/a.html -f", true),
        ("/srv/sub -f", false),
        ("/srv/sub -d", true),
        ("/srv/none !-f", true),
        ("/srv/none -d", false),
        ("/srv/a.html -s", true),
        ("/srv/sub/b.html -s", false),
        ("/srv/link -l", true),
        ("/srv/link -h", true),
        ("/srv/link -L", true),
        ("/srv/a.html -l", false),
        ("/srv/index.php -x", true),
        ("/srv/a.html -x", false),
        ("%{DOCUMENT_ROOT}/$1.html -f", true),
        ("srv/a.html -f", true),
        ("\"\" -f", false),
        ("\"\" -F", false),
        ("\"\" -U", false),
        ("%{REQUEST_FILENAME} -f", true),
        ("/pub -U", true),
        ("/moved -U", true),
        ("/bad -U", false),
        ("/private -U", false),
        ("private -U", true),
        ("/srv/a.html -F", true),
        ("/srv/none -F", false),
        ("/srv/private -F", false),
        ("/etc/passwd -F", false),
        ("/srv/ -F", false),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn expressions() {
    let table = [
        ("expr \"%{REQUEST_URI} == '/a.html/info'\"", true),
        ("expr \"%{REQUEST_URI} == '/b.html'\"", false),
        ("EXPR \"-f '/srv/a.html'\"", true),
        ("expr \"!%{REQUEST_URI} == '/a.html/info'\"", false),
        ("expr \"!%{REQUEST_URI} == '/b.html'\"", true),
        ("expr \"%{HTTP:Accept} == 'x'\" [NV]", true),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(condition), expected, "{condition}");
    }
    // The captures are those of the last condition that held and is not negated.
    let captured = [
        ("expr \"%{REQUEST_URI} =~ m#^/(a)#\"", "a"),
        ("%{REQUEST_URI} ^/(.)(.)\nRewriteCond expr \"%{HTTP_ACCEPT} =~ /(x)/\"", "x"),
        ("%{REQUEST_URI} ^/(.)(.)\nRewriteCond expr \"!%{HTTP_ACCEPT} =~ /(y)/\"", "a"),
    ];
    for (conditions, expected) in captured {
        let rules = format!("RewriteEngine On\nRewriteCond {conditions}\nRewriteRule ^ /%1");
        let answer = ask(&rules, "/a.html/info", "Accept: x");
        assert_eq!(answer.outcome, format!("internal /{expected}"), "{conditions}");
    }
}

#[test]
fn the_file_of_the_request_is_not_asked_for() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\n\
        RewriteRule . /index.php [L]";
    for (target, expected) in
        [("/a.html", "declined"), ("/sub/", "declined"), ("/none/x", "internal /index.php")]
    {
        let answer = ask(rules, target, "");
        assert_eq!((answer.outcome.as_str(), answer.asked.len()), (expected, 0), "{target}");
    }
}

#[test]
fn variables() {
    let table = [
        ("%{REQUEST_URI}", "/a.html/info"),
        ("%{request_uri}", "/a.html/info"),
        ("%{REQUEST_FILENAME}", "/srv/a.html"),
        ("%{SCRIPT_FILENAME}", "/srv/a.html"),
        ("%{PATH_INFO}", "/info"),
        ("%{QUERY_STRING}", "q=1"),
        ("%{THE_REQUEST}", "GET /a.html/info?q=1 HTTP/1.1"),
        ("%{REQUEST_METHOD}", "GET"),
        ("%{REQUEST_SCHEME}", "http"),
        ("%{HTTPS}", "off"),
        ("%{SERVER_NAME}", "own.example"),
        ("%{SERVER_PORT}", "80"),
        ("%{SERVER_ADDR}", "192.0.2.2"),
        ("%{SERVER_PROTOCOL}", "HTTP/1.1"),
        ("%{REMOTE_ADDR}", "192.0.2.1"),
        ("%{REMOTE_HOST}", "192.0.2.1"),
        ("%{REMOTE_PORT}", "1234"),
        ("%{CONN_REMOTE_ADDR}", "192.0.2.1"),
        ("%{REMOTE_USER}", ""),
        ("%{REMOTE_IDENT}", ""),
        ("%{AUTH_TYPE}", ""),
        ("%{DOCUMENT_ROOT}", "/srv"),
        ("%{CONTEXT_DOCUMENT_ROOT}", "/srv"),
        ("%{CONTEXT_PREFIX}", ""),
        ("%{IS_SUBREQ}", "false"),
        ("%{IPV6}", "off"),
        ("%{HTTP_HOST}", "own.example"),
        ("%{HTTP_USER_AGENT}", "Bot/1"),
        ("%{HTTP:user-agent}", "Bot/1"),
        ("%{HTTP:X-Two}", "a, b"),
        ("%{HTTP:Missing}", ""),
        ("%{HTTP_ACCEPT}", "x"),
        ("%{ENV:OF_THE_SERVER}", "its own"),
        ("%{ENV:none}", ""),
        ("%{SSL:SSL_PROTOCOL}", ""),
        ("%{SSL:https}|%{SSL:REQUEST_METHOD}", "off|GET"),
        ("%{SSL:HTTP_USER_AGENT}|%{SSL:HTTP:X-Two}", "Bot/1|a, b"),
        ("%{SSL:NO_SUCH}", ""),
        ("%{TIME}", "20231114231320"),
        ("%{TIME_YEAR}-%{TIME_MON}-%{TIME_DAY}", "2023-11-14"),
        ("%{TIME_HOUR}:%{TIME_MIN}:%{TIME_SEC}", "23:13:20"),
        ("%{TIME_WDAY}", "2"),
        ("%{LA-U:REQUEST_FILENAME}", "/srv/srv/a.html/info"),
        ("%{LA-U:REMOTE_USER}", "somebody"),
        ("%{LA-F:REMOTE_USER}", "somebody"),
        ("%{LA-U:HTTP_USER_AGENT}", "Bot/1"),
        ("%{NO_SUCH}", ""),
        ("%{X}", ""),
        ("%{unclosed", "%{unclosed"),
        ("${map:key|default}", "default"),
        ("${map:key}", ""),
        ("${map:{x|y}|d}", "d"),
        ("${map:key|%{REQUEST_METHOD}}", "GET"),
        ("${nocolon}", "${nocolon}"),
        (r"a\%{HTTPS}", "a%{HTTPS}"),
        (r"a\$1\\", r"a$1\"),
        ("$x%", "$x%"),
        ("%%{HTTPS}$", "%off$"),
    ];
    for (text, expected) in table {
        let rules = format!("RewriteEngine On\nRewriteRule ^ - [E=v:{text}]");
        let answer =
            ask(&rules, "/a.html/info?q=1", "User-Agent: Bot/1\nX-Two: a\nX-Two: b\nAccept: x");
        let value = answer.state.env.value(b"v").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(value), expected, "{text}");
    }
}

#[test]
fn captures() {
    check(&[
        ("RewriteCond ab (.)(.)\nRewriteRule ^(.)(.)$ /$2$1%2%1%0", "/xy", "internal /yxbaab"),
        ("RewriteCond a (.)\nRewriteCond b (.)\nRewriteRule ^ /%1", "/x", "internal /b"),
        ("RewriteCond a (.)\nRewriteCond b !(x)\nRewriteRule ^ /%1", "/x", "internal /a"),
        ("RewriteCond a (.)\nRewriteCond %1 =a\nRewriteRule ^ /%1", "/x", "internal /a"),
        ("RewriteCond a1 (.)(.)\nRewriteCond %2 (.)\nRewriteRule ^ /%1%2", "/x", "internal /1"),
        ("RewriteCond $1 ^(x)$\nRewriteRule ^(.)y$ /%1", "/xy", "internal /x"),
        ("RewriteRule !^(n) /$1y", "/x", "internal /y"),
        ("RewriteRule ^(x)(n)? /$1$2y", "/x", "internal /xy"),
        // A negated condition and a failed expression have no captures.
        (
            "RewriteCond a (.)\nRewriteCond b !(.) [OR]\nRewriteCond c =c\nRewriteRule ^ /%1",
            "/x",
            "internal /a",
        ),
        (
            "RewriteCond a (.)\nRewriteCond expr \"'b' =~ /x(.)/\" [OR]\nRewriteCond c =c\n\
             RewriteRule ^ /%1",
            "/x",
            "internal /a",
        ),
        // The captures of another rule's condition are forgotten.
        ("RewriteCond a (.)\nRewriteRule ^ -\nRewriteRule ^ /y%1", "/x", "internal /y"),
    ]);
}

#[test]
fn alternatives() {
    let (yes, no) = ("RewriteCond a a", "RewriteCond a b");
    let table: [(&[&str], bool); 12] = [
        (&[yes], true),
        (&[no], false),
        (&[no, yes], false),
        (&["RewriteCond a b [OR]", yes], true),
        (&["RewriteCond a b [OR]", no], false),
        (&["RewriteCond a a [OR]", no], true),
        (&["RewriteCond a a [OR]", no, yes], true),
        (&["RewriteCond a a [OR]", no, no], false),
        (&["RewriteCond a b [OR]", "RewriteCond a b [OR]", yes, yes], true),
        (&["RewriteCond a a [OR]", "RewriteCond a b [OR]", no, no], false),
        // Behind the last one nothing follows that could fail.
        (&["RewriteCond a b [OR]"], true),
        (&[yes, "RewriteCond a b [ornext]"], true),
    ];
    for (conditions, expected) in table {
        let rules = format!("RewriteEngine On\n{}\nRewriteRule ^ - [F]", conditions.join("\n"));
        assert_eq!(ask(&rules, "/x", "").outcome == "403", expected, "{rules}");
    }
}

#[test]
fn vary_names_what_the_rules_depended_on() {
    let agent = "RewriteCond %{HTTP_USER_AGENT} Bot";
    let table = [
        (format!("{agent}\nRewriteRule ^ - [E=a]"), "User-Agent"),
        (format!("{agent} [NV]\nRewriteRule ^ - [E=a]"), ""),
        (format!("{agent}\nRewriteRule ^nothing - [E=a]"), ""),
        (format!("{agent}\nRewriteCond %{{HTTP:X-A}} 1\nRewriteRule ^ - [E=a]"), "User-Agent, X-A"),
        (format!("{agent} [OR]\nRewriteCond %{{HTTP:X-A}} 1\nRewriteRule ^ - [E=a]"), "User-Agent"),
        (format!("RewriteCond %{{HTTP:X-A}} 2 [OR]\n{agent}\nRewriteRule ^ - [E=a]"), "User-Agent"),
        (format!("{agent}\nRewriteCond a b\nRewriteRule ^ - [E=a]"), ""),
        ("RewriteCond %{HTTP_HOST} own\nRewriteRule ^ - [E=a]".into(), ""),
        ("RewriteCond %{HTTP:Missing} ^$\nRewriteRule ^ - [E=a]".into(), ""),
        (format!("{agent}\nRewriteRule ^ - [E=a]\n{agent}\nRewriteRule ^ - [E=b]"), "User-Agent"),
    ];
    for (rules, expected) in table {
        let answer = ask(&format!("RewriteEngine On\n{rules}"), "/x", "User-Agent: Bot\nX-A: 1");
        let vary = answer.state.fields.value(b"Vary").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(vary), expected, "{rules}");
    }
}

#[test]
fn a_look_ahead_in_a_sub_request_for_itself_is_empty() {
    let rules = "RewriteEngine On\nRewriteRule ^ - [E=v:%{LA-U:REMOTE_USER}]";
    for (main, expected) in [("/x", ""), ("/y", "somebody")] {
        let answer = super::evaluate(&crate::testing::settings(rules), "/x", "", |state| {
            state.is_subrequest = true;
            state.main_uri = Some(main.into());
        });
        let value = answer.state.env.value(b"v").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(value), expected, "{main}");
    }
}
