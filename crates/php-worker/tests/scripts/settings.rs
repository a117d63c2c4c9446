//! Ini values: of the pool, of a folder, of a request.

use crate::script::{Script, assert_contains, text};

#[test]
fn a_pool_has_values_that_scripts_may_change_and_others() {
    let php = "var_dump(ini_get('precision'), ini_set('precision', 5), ini_get('precision'),
        ini_get('serialize_precision'), ini_set('serialize_precision', 5), \
        ini_get('serialize_precision'));";
    let script = Script::new(php).with(&["-d", "precision=7", "--admin", "serialize_precision=9"]);
    let expected = "string(1) \"7\"\nstring(1) \"7\"\nstring(1) \"5\"\nstring(1) \"9\"\n\
        bool(false)\nstring(1) \"9\"\n";
    assert_eq!(script.body(), expected);
}

#[test]
fn values_arrive_as_they_were_given() {
    for value in ["it's \"x\" ; ${PATH} $1 \\ = [a]", "", "'", "on; off", "a\\\"b", "#x"] {
        let script = Script::new("echo ini_get('user_agent');")
            .with(&["-d", &format!("user_agent={value}")]);
        assert_eq!(script.body(), value);
    }
    let script = Script::new("echo error_reporting() === (E_ALL & ~E_NOTICE);")
        .with(&["-d", "error_reporting=E_ALL & ~E_NOTICE"]);
    assert_eq!(script.body(), "1");
}

#[test]
fn functions_and_classes_can_be_taken_away() {
    let php =
        "var_dump(function_exists('exec'), function_exists('system'), function_exists('strlen'));
        try { system('true'); } catch (Error $error) { echo $error->getMessage(); }";
    let script = Script::new(php).with(&["--admin", "disable_functions=exec, system"]);
    assert_eq!(
        script.body(),
        "bool(false)\nbool(false)\nbool(true)\nCall to undefined function system()"
    );
    // Checks of hosting read the lists.
    let php = "echo ini_get('disable_functions'), '|', ini_get('disable_classes'), '|';
        echo ini_set('disable_functions', '') === false ? 'kept' : 'changed';";
    let script = Script::new(php).with(&[
        "--admin",
        "disable_functions=passthru,system",
        "--admin",
        "disable_functions=exec",
        "--admin",
        "disable_classes=DirectoryIterator",
    ]);
    assert_eq!(script.body(), "passthru,system,exec|DirectoryIterator|kept");
    let script = Script::new("var_dump((new DirectoryIterator('.'))->isDir());").with(&[
        "--admin",
        "disable_classes=DirectoryIterator",
        "-d",
        "display_errors=0",
    ]);
    assert_contains(&script.response().log, "DirectoryIterator");
}

#[test]
fn open_basedir_holds() {
    let script = Script::new(
        "echo @file_get_contents('/etc/passwd') === false ? 'held' : 'open', \
         ini_set('open_basedir', '/') === false;",
    );
    let root = text(&script.root);
    assert_eq!(script.with(&["--admin", &format!("open_basedir={root}")]).body(), "held1");
}

#[test]
fn values_of_a_request_are_gone_with_it() {
    let script =
        Script::new("echo ini_get('precision'), ini_set('precision', 3), ini_get('precision');")
            .with(&["-d", "precision=14", "--request-ini", "precision=6", "--repeat", "3"]);
    let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
    assert_eq!(output.matches("\r\n\r\n663").count(), 3, "{output}");
}

#[test]
fn values_of_a_request_look_like_values_of_a_request() {
    // Of the first kind PHP only has a copy; setting the second does something.
    let settings = [("user_agent", "mine", "theirs"), ("memory_limit", "64M", "96M")];
    for (name, own, wanted) in settings {
        let script = Script::new(&format!(
            "$all = ini_get_all(null)['{name}']; echo \"\\n\", $all['global_value'], ' ', \
                $all['local_value'], ' ';
             ini_restore('{name}'); echo ini_get('{name}'), ' ';
             ini_set('{name}', '{wanted}'); echo ini_get('{name}'), '.';"
        ))
        .with(&["-d", &format!("{name}={own}"), "--repeat", "3"])
        .with(&["--request-ini", &format!("{name}={wanted}")]);
        let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
        let expected = format!("\n{own} {wanted} {own} {wanted}.");
        assert_eq!(output.matches(&expected).count(), 3, "{output}");
    }
}

#[test]
fn values_of_a_request_come_after_those_of_user_ini() {
    let script = Script::new(
        "echo \"\\n\", ini_get('user_agent'), ini_get('from'), ini_get('memory_limit'), '.';",
    );
    script.file(".user.ini", "user_agent=file\nfrom=file\nmemory_limit=96M\n");
    let script = script
        .with(&["--repeat", "3", "--request-ini", "user_agent=rule"])
        .with(&["--request-ini", "memory_limit=64M"]);
    let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
    assert_eq!(output.matches("\nrulefile64M.").count(), 3, "{output}");
}

#[test]
fn a_request_cannot_touch_what_is_the_systems_or_the_administrators() {
    let script = Script::new(
        "echo ini_get('allow_url_fopen'), ini_get('precision'), ini_get('post_max_size');",
    )
    .with(&[
        "-d",
        "allow_url_fopen=1",
        "--admin",
        "precision=9",
        "--request-ini",
        "allow_url_fopen=0",
        "--request-ini",
        "precision=5",
        "--request-ini",
        "post_max_size=123",
        "--request-ini",
        "no.such.thing=1",
    ]);
    assert_eq!(script.body(), "19123");
}

#[test]
fn values_of_a_request_count_before_its_form_is_read() {
    let script = Script::new("echo count($_POST);")
        .post("application/x-www-form-urlencoded", format!("a={}", "x".repeat(2000)))
        .with(&["-d", "post_max_size=1000", "--request-ini", "post_max_size=10000"]);
    assert_eq!(script.body(), "1");
}

#[test]
fn user_ini_files_from_the_root_down() {
    let script = Script::new("");
    script.file(".user.ini", "precision=5\nserialize_precision=6\nallow_url_fopen=0\n");
    script.file("a/b/.user.ini", "serialize_precision=7\n");
    script.file(
        "a/b/c.php",
        "<?php echo ini_get('precision'), ini_get('serialize_precision'), \
         ini_get('allow_url_fopen');",
    );
    let script = script.run("a/b/c.php").with(&["-d", "allow_url_fopen=1", "--repeat", "2"]);
    let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
    assert_eq!(output.matches("\r\n\r\n571").count(), 2, "{output}");
}

#[test]
fn user_ini_can_have_another_name_or_none() {
    let cases = [("my.ini", "5"), ("", "14"), (".user.ini", "6")];
    for (name, expected) in cases {
        let script = Script::new("echo ini_get('precision');");
        script.file("my.ini", "precision=5");
        script.file(".user.ini", "precision=6");
        let script =
            script.with(&["-d", "precision=14", "-d", &format!("user_ini.filename={name}")]);
        assert_eq!(script.body(), expected);
    }
}

#[test]
fn a_broken_user_ini_is_reported_and_the_page_is_served() {
    let script = Script::new("echo 'page';");
    script.file(".user.ini", "precision=(((\n");
    let response = script.with(&["--repeat", "3"]).output();
    assert_eq!(String::from_utf8_lossy(&response.stdout).matches("page").count(), 3);
    assert_contains(&String::from_utf8_lossy(&response.stderr), "syntax error");
}

#[test]
fn user_ini_may_use_constants_variables_and_nonsense() {
    let script =
        Script::new("echo error_reporting(), ini_get('user_agent'), ini_get('precision');");
    // The value of E_ALL depends on the version of PHP.
    let content = "error_reporting = E_ERROR | E_NOTICE & ~E_NOTICE\n\
        user_agent = \"${REQUEST_METHOD}\"\n\
        a[] = 1\n[HOST=localhost]\nprecision = 5\n";
    script.file(".user.ini", content);
    let output = script.with(&["-d", "precision=9", "--repeat", "3"]).output();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("\r\n\r\n1GET9").count(), 3, "{text}");
}

#[test]
fn files_before_and_after_each_script() {
    let script = Script::new("echo 'script';");
    script.file("before.php", "<?php echo 'before ';");
    script.file("after.php", "<?php echo ' after';");
    script.file(".user.ini", &format!("auto_prepend_file={}\n", text(&script.at("before.php"))));
    let after = format!("auto_append_file={}", text(&script.at("after.php")));
    assert_eq!(script.with(&["-d", &after]).body(), "before script after");
}

#[test]
fn another_php_ini_instead_of_phps_own() {
    let script = Script::new("echo php_ini_loaded_file(), ' ', ini_get('precision');");
    script.file("my.ini", "precision = 11\n");
    let file = text(&script.at("my.ini"));
    assert_eq!(script.with(&["--ini-file", &file]).body(), format!("{file} 11"));
    let script = Script::new(
        "echo php_ini_loaded_file() === false ? 'none' : 'some', php_ini_scanned_files() === false \
         ? 'none' : 'some';",
    );
    assert_contains(&script.body(), "some");
}
