//! The answers of these tables are Apache's: each row was tried with Apache 2.4.

mod context;
mod strings;
mod work;

use context::{FIELDS, FilesContext};

use howdah_http::Version;

use super::Expression;
use super::properties::expression;
use crate::evaluation_context::EvaluationContext;
use crate::mutation::Mutator;
use crate::pattern::Captures;
use crate::testing::{request, transaction};
use crate::transaction::Transaction;

/// The result of an expression, and Vary after it.
fn run<T>(
    compiled: &Expression,
    evaluate: fn(
        &Expression,
        &mut Transaction<'_>,
        &mut dyn EvaluationContext,
        &mut Captures,
    ) -> Result<T, String>,
) -> (Result<T, String>, String) {
    let mut request = request("/folder/page.php?a=b&c=%20", FIELDS);
    request.authority = "example.org:8080".into();
    let mut transaction = transaction(&request);
    transaction.state.args = Some(b"a=b&c=%20".to_vec());
    transaction.state.env.push(b"SET", b"in env");
    transaction.state.notes.push(b"NOTED", b"in notes");
    transaction.state.fields.push(b"X-Sent", b"sent");
    transaction
        .state
        .fields
        .push(b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT");
    transaction.state.error_fields.push(b"X-Always", b"always");
    let answer = evaluate(compiled, &mut transaction, &mut FilesContext, &mut Captures::default());
    let vary = transaction.state.fields.value(b"Vary").unwrap_or_default();
    (answer, String::from_utf8_lossy(vary).into_owned())
}

/// `yes`, `no`, `wrong` where it is no condition, `fails` where it cannot be evaluated; with what
/// Vary is.
fn condition(text: &str) -> (&'static str, String) {
    let Ok(compiled) = Expression::condition(text.as_bytes()) else {
        return ("wrong", String::new());
    };
    let (answer, vary) = run(&compiled, Expression::holds);
    let answer = match answer {
        Ok(true) => "yes",
        Ok(false) => "no",
        Err(_) => "fails",
    };
    (answer, vary)
}

fn all_are(expected: &str, rows: &[&str]) {
    for row in rows {
        assert_eq!(condition(row).0, expected, "{row}");
    }
}

/// The value of a string expression, or the error.
fn rendered(text: &str) -> Result<String, String> {
    let compiled = Expression::string(text.as_bytes())
        .map_err(|bad| format!("{} at {}", bad.message, bad.offset))?;
    let (answer, vary) = run(&compiled, Expression::render);
    assert_eq!(vary, "", "a string leaves Vary alone");
    answer.map(|bytes| bytes.escape_ascii().to_string())
}

#[test]
fn logic() {
    all_are(
        "yes",
        &[
            "true",
            "!false",
            "!!true",
            "not not true",
            "true || true && false",
            "(true||false)&&true",
            "!true || true",
            "true and not false",
            "!'a' == 'b' && true",
            "not('a' == 'b')",
            "((((((((((((((((((((((true))))))))))))))))))))))",
            "\ttrue\n",
        ],
    );
    all_are(
        "no",
        &[
            "false",
            "not true",
            "false && true || false",
            "!(true || true)",
            "(true || true) && false",
        ],
    );
    all_are(
        "wrong",
        &[
            "",
            "True",
            "TRUE",
            "true true",
            "()",
            "(true",
            "true)",
            "!",
            "true &&",
            "|| true",
            "true & true",
            "true;",
            "#",
            "\rtrue",
        ],
    );
}

#[test]
fn comparisons() {
    all_are(
        "yes",
        &[
            "'a' == 'a'",
            "'a' = \"a\"",
            "'a'=='a'",
            "'a' != 'b'",
            "'a' < 'b'",
            "'a' <= 'a'",
            "'b' >= 'B'",
            "'9' > '10'",
            "'' < 'a'",
            "10 -eq 10",
            "'10' -eq '10abc'",
            "'9' -lt '10'",
            "9 le 10",
            "9 ne 10",
            "-5 -lt 3 && '-5' -lt '+3'",
            "' 12' -eq 12",
            "'abc' -eq 0",
            "'99999999999999999999' -gt '9223372036854775806'",
            "'a'eq'b'",
            "1 -eq 01",
            "'a' . 'b' == 'ab'",
            "1 . 2 -eq 12",
            "1.2 -eq 12",
            "'ab' == 'a' . 'b'",
            "'a' -in {'a', 'b'}",
            "'a' in {'b','a'}",
            "%{REQUEST_URI} -in { '/a', %{REQUEST_URI} }",
        ],
    );
    all_are(
        "no",
        &["'a' == 'A'", "'9' < '10'", "1 == 01", "'0x10' -eq 16", "'c' -in {'a'}", "'9' -ge '10'"],
    );
    all_are(
        "wrong",
        &[
            "'a'",
            "a",
            "a == 'a'",
            "'a' ==",
            "== 'a'",
            "'a' == 'b' == 'c'",
            "'a' 'b'",
            "'a' === 'a'",
            "'a' <> 'a'",
            "'a' ~ 'a'",
            "'a' -in {}",
            "'a' -in 'a'",
            "'a' -in names('x')",
            "'a' -like 'b'",
            "--1 -eq 1",
            "1eq1x",
            "-eq 1",
            "1 - 1",
        ],
    );
}

#[test]
fn regular_expressions() {
    all_are(
        "yes",
        &[
            "'abc' =~ /b/",
            "'abc' =~ /B/i",
            "'abc'=~m#b#",
            "'abc' =~ m'b'",
            "'abc' !~ /x/",
            "'abc' =~ /b/&&true",
            "'abc' =~ /(b)(c)/ && '$1-$2' == 'b-c'",
            "'abc' =~ /(b)/ && 'x' =~ /x/ && $1 == 'b'",
            "'abc' =~ /(b)/ && 'x' !~ /(y)/ && $1 == ''",
            "'abc' =~ /b/ && $0 == ''",
            "'abc' =~ /(b)/ && 'x' !~ /y/ && $1 == 'b'",
            "'a b' =~ m_ b_",
            "'abc' =~ /(b)/ && $0 == 'b'",
            "'abc' =~ /(x)?b/ && $1 == ''",
            "$1 == ''",
            "'a' =~ //",
            "'é' =~ /^..$/",
            "'abc' =~ m|b|i || false",
        ],
    );
    all_are("no", &["'abc' =~ /B/", "'abc' =~ /b$/", "'abc' !~ /b/", "'É' =~ /é/i"]);
    all_are(
        "wrong",
        &[
            "'a' =~ 'a'",
            "'a' =~ a",
            "'a' =~ /(/",
            "'a' =~ /a",
            "'a' =~ /a/ii",
            "'a' =~ /a/x",
            "'a' =~ m@a@",
            "'abc' =~ m_b_",
            "/a/ == 'a'",
        ],
    );
}

#[test]
fn tests_of_words() {
    all_are(
        "yes",
        &[
            "-n 'a'",
            "-z ''",
            "-n'a'",
            "-n '' . 'a'",
            "(-n 'a')",
            "-T 'on'",
            "-T '00'",
            "-T 'nope'",
            "-d '/files'",
            "-e '/files/file'",
            "-f '/files/link'",
            "-s '/files/file'",
            "-L '/files/link'",
            "-h '/files/dangling'",
            "-x '/files/script'",
            "-x '/files/link'",
            "-U '/there'",
            "-A '/moved'",
        ],
    );
    all_are(
        "no",
        &[
            "-n ''",
            "-z 'a'",
            "-T 'off'",
            "-T 'No'",
            "-T '0'",
            "-T ''",
            "-T 'FaLsE'",
            "-d '/files/file'",
            "-f '/files/folder'",
            "-f '/files/dangling'",
            "-s '/files/empty'",
            "-s '/files'",
            "-L '/files/file'",
            "-x '/files/file'",
            "-e ''",
            "-U '/refused'",
            "-F '/srv/nothing'",
        ],
    );
    all_are("wrong", &["-n", "-n('a')", "-l '/a'", "-q 'x'", "-ne 'a'", "-n a"]);
}

#[test]
fn addresses_and_wildcards() {
    all_are(
        "yes",
        &[
            "-R '192.0.2.0/24'",
            "-R '192'",
            "-R \"192.0.2.1\"",
            "'10.1.2.3' -ipmatch '10.0.0.0/8'",
            "'::1' -ipmatch '::1'",
            "'::ffff:10.1.2.3' -IPMATCH '10'",
            "'abc' -strmatch 'a*'",
            "'abc' -strcmatch 'A[B-D]C'",
            "'a/c' -strmatch 'a*'",
            "'a/c' -fnmatch 'a/*'",
            "'*' -strmatch '\\\\*'",
        ],
    );
    all_are(
        "no",
        &[
            "-R '10'",
            "'name' -ipmatch '10.0.0.0/8'",
            "'' -ipmatch '10'",
            "'::1' -ipmatch '127.0.0.1'",
            "'abc' -strmatch 'A*'",
            "'a/c' -fnmatch 'a*'",
            "'a/c' -fnmatch 'a?c'",
            "'abc' -strmatch ''",
        ],
    );
    all_are(
        "wrong",
        &[
            "-R 192",
            "-R 'localhost'",
            "-R ''",
            "-R %{REMOTE_ADDR}",
            "'1' -ipmatch 10",
            "'1' -ipmatch '10.0.0.0/33'",
        ],
    );
}

#[test]
fn variables_of_all_kinds() {
    let rows = [
        ("%{HTTP_HOST}|%{http_host}", "example.org:8080|example.org:8080"),
        (
            "%{REQUEST_METHOD} %{REQUEST_SCHEME} %{REQUEST_URI}?%{QUERY_STRING}",
            "GET http /folder/page.php?a=b&c=%20",
        ),
        (
            "%{REQUEST_FILENAME}|%{SCRIPT_FILENAME}|%{PATH_INFO}",
            "/srv/folder/page.php|/srv/folder/page.php|",
        ),
        ("%{DOCUMENT_ROOT}|%{CONTEXT_PREFIX}|%{CONTEXT_DOCUMENT_ROOT}", "/srv||/srv"),
        (
            "%{REMOTE_ADDR}|%{REMOTE_HOST}|%{CONN_REMOTE_ADDR}|%{REMOTE_PORT}",
            "192.0.2.1|192.0.2.1|192.0.2.1|1234",
        ),
        ("%{SERVER_NAME}:%{SERVER_PORT}|%{SERVER_PROTOCOL}", "example.org:8080|HTTP/1.1"),
        ("%{REMOTE_USER}|%{AUTH_TYPE}|%{REMOTE_IDENT}", "||"),
        ("%{HTTPS}|%{IPV6}|%{HTTP2}|%{IS_SUBREQ}|%{REQUEST_STATUS}", "off|off|off|false|200"),
        ("%{THE_REQUEST}", "GET /folder/page.php?a=b&c=%20 HTTP/1.1"),
        ("%{CONTENT_TYPE}|%{HANDLER}|%{DOCUMENT_URI}", "||/folder/page.php"),
        (
            "%{TIME}|%{TIME_YEAR}-%{TIME_MON}-%{TIME_DAY} %{TIME_HOUR}:%{TIME_MIN}:%{TIME_SEC} \
             %{TIME_WDAY}",
            "20231114231320|2023-11-14 23:13:20 2",
        ),
        (
            "%{API_VERSION}|%{SERVER_ADMIN}|%{CONN_LOG_ID}%{REQUEST_LOG_ID}",
            "20120211|[no address given]|",
        ),
        ("%{HTTP_COOKIE}|%{HTTP_REFERER}|%{HTTP_USER_AGENT}", "a=b||Some Bot/1.0"),
        ("%{LAST_MODIFIED}", "19941106094937"),
        ("%{SCRIPT_USER}|%{SCRIPT_GROUP}", "somebody|"),
        ("%{SSL_PROTOCOL}|%{ssl:SSL_PROTOCOL}", "|"),
    ];
    for (text, expected) in rows {
        assert_eq!(rendered(text), Ok(expected.to_owned()), "{text}");
    }
    all_are(
        "wrong",
        &[
            "%{SERVER_ADDR} == ''",
            "%{NO_SUCH} == ''",
            "%{HTTP_X_NUMBER} == ''",
            "%{} == ''",
            "%{1} == ''",
            "%{HTTP_HOST == ''",
        ],
    );
}

#[test]
fn http2_is_on_over_http2_alone() {
    let compiled = Expression::string(b"%{HTTP2}").unwrap();
    for (version, expected) in
        [(Version::Http11, "off"), (Version::Http2, "on"), (Version::Http3, "off")]
    {
        let mut request = request("/", "");
        request.version = version;
        let mut transaction = transaction(&request);
        let told = compiled.render(&mut transaction, &mut FilesContext, &mut Captures::default());
        assert_eq!(told.unwrap(), expected.as_bytes(), "{version}");
    }
}

#[test]
fn what_is_nested_too_deeply_fails() {
    let nested =
        |count: usize| format!("{}'A'{} == 'a'", "tolower(".repeat(count), ")".repeat(count));
    assert_eq!(condition(&nested(18)).0, "yes");
    assert_eq!(condition(&nested(19)).0, "fails");
    assert_eq!(condition(&nested(500)).0, "wrong");
    let right = |count: usize| format!("{}true{}", "(true && ".repeat(count), ")".repeat(count));
    assert_eq!(condition(&right(90)).0, "yes");
    let left = |count: usize| format!("{}true{}", "(".repeat(count), " && true)".repeat(count));
    assert_eq!(condition(&left(19)).0, "yes");
    assert_eq!(condition(&left(20)).0, "fails");
    assert_eq!(condition(&format!("{}true", "!".repeat(100_000))).0, "yes");
    assert_eq!(condition(&vec!["'a' == 'b'"; 1_000].join("||")).0, "no");
    assert_eq!(condition(&"(".repeat(100_000)).0, "wrong");
    assert_eq!(condition(&"%{req:".repeat(100_000)).0, "wrong");
}

#[test]
fn a_regular_expression_that_tries_too_much_fails() {
    let subject = "a".repeat(5_000);
    assert_eq!(condition(&format!("'{subject}b' =~ /(a+)+$/")).0, "fails");
}

#[test]
fn vary_says_what_was_looked_at() {
    let rows = [
        ("%{HTTP_USER_AGENT} =~ /bot/i", "User-Agent"),
        ("%{HTTP_HOST} == 'x' || req('host') == 'x'", ""),
        ("req('X-Number') == '42' || -n %{HTTP_COOKIE}", "X-Number"),
        ("req('X-Number') == '1' || -n %{HTTP_COOKIE} && -n req('x-number')", "X-Number,Cookie"),
        ("req_novary('X-Number') == '42'", ""),
        ("req('a\\nSet-Cookie: x') == ''", ""),
    ];
    for (text, expected) in rows {
        assert_eq!(condition(text).1, expected, "{text}");
    }
    let quiet = Expression::condition(b"-n %{HTTP_COOKIE}").unwrap().without_vary();
    assert_eq!(run(&quiet, Expression::holds), (Ok(true), String::new()));
}

#[test]
fn any_bytes() {
    let seeds: &[&[u8]] = &[
        b"%{HTTP_USER_AGENT} =~ /(bot|crawl)/i && $1 -in {'bot', \"x%{REQUEST_URI}\"}",
        b"!(-n req('Cookie') || 10 -lt '9' . %{TIME_YEAR}) and -R '10.0.0.0/8'",
        b"'a/b' -fnmatch 'a/[!c-e]*' or tolower(md5('x')) == unescape('%41')",
        b"a\\101$1%{base64:%{unbase64:YWJj}}\\}'\"",
    ];
    let words: &[&[u8]] = &[
        b"'", b"\"", b"%{", b"}", b"(", b")", b"{", b"&&", b"||", b"!", b"/", b"m#", b"-in", b"$0",
        b"\\", b".", b"-z", b"lt",
    ];
    Mutator(3).mutations(seeds, words, 20_000, expression);
}
