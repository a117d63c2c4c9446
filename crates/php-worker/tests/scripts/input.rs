//! The request as scripts see it.

use std::fmt::Write;

use crate::script::{Script, assert_contains, text};

#[test]
fn query_cookies_and_server_variables() {
    let php = "echo $_GET['a'], $_COOKIE['c'], $_SERVER['HTTP_X_Y'], $_SERVER['REQUEST_URI'], \
            $_SERVER['PHP_SELF'],
        $_SERVER['SCRIPT_FILENAME'] === __FILE__ ? 1 : 0, $_SERVER['REQUEST_TIME'] > 1e9 ? 1 : 0,
        $_SERVER['REQUEST_TIME_FLOAT'] - $_SERVER['REQUEST_TIME'] < 1 ? 1 : 0;";
    let script = Script::new(php).with(&[
        "--uri",
        "/index.php?a=1&b=2",
        "--field",
        "Cookie: c=3",
        "--field",
        "X-Y: 4",
    ]);
    assert_eq!(script.body(), "134/index.php?a=1&b=2/index.php111");
}

#[test]
fn path_info() {
    let script = Script::new("echo $_SERVER['PATH_INFO'], ' ', $_SERVER['PHP_SELF'];")
        .with(&["--path-info", "/a/b"]);
    assert_eq!(script.body(), "/a/b /index.php/a/b");
}

#[test]
fn worker_facts() {
    let script = Script::new("echo $_SERVER['HOWDAH_POOL'], $_SERVER['HOWDAH_WORKER_REQUESTS'];");
    assert_eq!(script.body(), "run0");
    let output = script.with(&["--repeat", "12"]).output();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("run11"));
}

#[test]
fn server_variables_without_jit() {
    let php = "$name = '_SERVER'; echo $GLOBALS[$name]['QUERY_STRING'];";
    let script = Script::new(php).with(&["-d", "auto_globals_jit=0", "--uri", "/?q"]);
    assert_eq!(script.body(), "q");
}

#[test]
fn filter_input_sees_server_variables() {
    assert_eq!(Script::new("echo filter_input(INPUT_SERVER, 'REQUEST_METHOD');").body(), "GET");
}

#[test]
fn environment() {
    let php = "putenv('B=2'); echo getenv('A'), getenv('B'), $_SERVER['A'], \
        getenv('REQUEST_METHOD'), $_ENV['A'] ?? '-';";
    let script = Script::new(php).environment("A", "1");
    assert_eq!(script.body(), "121GET-");
    let script = Script::new("echo $_ENV['A'];")
        .environment("A", "1")
        .with(&["-d", "variables_order=EGPCS"]);
    assert_eq!(script.body(), "1");
}

#[test]
fn a_proxy_header_is_no_environment_variable() {
    let php = "var_dump(getenv('HTTP_PROXY'), isset($_SERVER['HTTP_PROXY']));";
    let script = Script::new(php).with(&["--field", "Proxy: evil"]);
    assert_eq!(script.body(), "bool(false)\nbool(false)\n");
}

#[test]
fn argv_comes_from_the_query_if_asked_for() {
    let php = "echo $_SERVER['argc'], implode('|', $_SERVER['argv']);";
    let script = Script::new(php).with(&["-d", "register_argc_argv=1", "--uri", "/?a+b"]);
    assert_eq!(script.body(), "2a|b");
}

#[test]
fn a_form() {
    for inline in [&[][..], &["--inline-body"]] {
        let script =
            Script::new("echo $_POST['a'], $_POST['b'][1], file_get_contents('php://input');")
                .post("application/x-www-form-urlencoded", "a=1&b[]=2&b[]=3")
                .with(inline);
        assert_eq!(script.body(), "13a=1&b[]=2&b[]=3");
    }
}

#[test]
fn json_and_other_methods() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let script = Script::new(
            "echo $_SERVER['REQUEST_METHOD'], file_get_contents('php://input'), count($_POST);",
        )
        .post("application/json", "{\"a\":1}")
        .with(&["--method", method]);
        assert_eq!(script.body(), format!("{method}{{\"a\":1}}0"));
    }
}

#[test]
fn several_files_at_once() {
    let mut content = String::new();
    for (name, file, part) in
        [("f[]", "a.txt", "first"), ("f[]", "b.txt", "second"), ("g", "../c.txt", "third")]
    {
        write!(
            content,
            "--B\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n"
        )
        .unwrap();
        write!(content, "Content-Type: text/plain\r\n\r\n{part}\r\n").unwrap();
    }
    content.push_str("--B\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\nvalue\r\n--B--\r\n");
    let php = "foreach ([...$_FILES['f']['tmp_name'], $_FILES['g']['tmp_name']] as $n => $file) {
            var_dump(is_uploaded_file($file)); move_uploaded_file($file, \"moved$n\"); echo \
            file_get_contents(\"moved$n\"); }
        echo $_FILES['g']['name'], $_POST['t'];";
    let script = Script::new(php).post("multipart/form-data; boundary=B", content);
    assert_eq!(script.body(), "bool(true)\nfirstbool(true)\nsecondbool(true)\nthirdc.txtvalue");
}

#[test]
fn uploads_go_to_their_folder_and_are_removed() {
    let content =
        "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nx\r\n--B--\r\n";
    let script = Script::new("echo $_FILES['f']['tmp_name'];")
        .post("multipart/form-data; boundary=B", content);
    script.file("uploads/keep", "");
    let folder = text(&script.at("uploads"));
    let script = script.with(&["-d", &format!("upload_tmp_dir={folder}")]);
    let path = script.body();
    assert!(path.starts_with(&folder), "{path}");
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn a_huge_body_streams_through_php_input() {
    let length = 40 * 1024 * 1024;
    let php = "$in = fopen('php://input', 'rb'); $n = 0; while (!feof($in)) $n += \
        strlen(fread($in, 65536));
        echo $n, ' ', memory_get_peak_usage() < 8e6 ? 'small' : memory_get_peak_usage();";
    let script = Script::new(php)
        .post("application/octet-stream", vec![b'x'; length])
        .with(&["--method", "PUT"]);
    assert_eq!(script.body(), format!("{length} small"));
}

#[test]
fn too_large_a_form_is_refused_by_php() {
    let script = Script::new("echo count($_POST);")
        .post("application/x-www-form-urlencoded", "a=".repeat(2000))
        .with(&["-d", "post_max_size=1000"]);
    let response = script.response();
    assert!(response.body.ends_with('0'), "{}", response.body);
    assert_contains(&response.log, "exceeds the limit of 1000 bytes");
}

#[test]
fn basic_and_digest_credentials() {
    let php = "echo $_SERVER['PHP_AUTH_USER'] ?? '', '|', $_SERVER['PHP_AUTH_PW'] ?? '', '|', \
        $_SERVER['PHP_AUTH_DIGEST'] ?? '';";
    let cases = [
        ("Authorization: Basic dXNlcjpwYTpzcw==", "user|pa:ss|"),
        ("Authorization: Digest username=\"u\"", "||username=\"u\""),
        ("Authorization: Bearer x", "||"),
    ];
    for (field, expected) in cases {
        assert_eq!(Script::new(php).with(&["--field", field]).body(), expected);
    }
}

#[test]
fn credentials_do_not_leak_into_the_next_request() {
    let php = "$_SERVER['PHP_AUTH_USER'] ?? exit('lost'); echo 'there';";
    let script = Script::new(php).with(&["--field", "Authorization: Basic dTpw", "--repeat", "50"]);
    assert!(!String::from_utf8_lossy(&script.output().stdout).contains("lost"));
}

#[test]
fn the_working_directory_is_the_scripts_own_to_the_end() {
    let php = "register_shutdown_function(fn() => print(basename(getcwd()))); chdir('..'); echo \
        '-'; chdir(__DIR__); echo 1;";
    let script = Script::new("");
    script.file("sub/a.php", &format!("<?php {php}"));
    let script = script.run("sub/a.php");
    assert_eq!(script.body(), "-1sub");
}
