//! PHP's settings: from the configuration, from folders, for each pool its own.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::json;

use crate::site::Site;
use crate::support::has_php;

#[test]
fn ini_values_hold_and_admin_values_cannot_be_changed() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[(
            "index.php",
            "<?php $change = fn($name, $to) => [ini_get($name), @ini_set($name, $to), \
                ini_get($name)];
             echo json_encode([$change('memory_limit', '32M'), $change('precision', '3'), \
             $change('user_agent', 'x'),
                 ini_get('short_open_tag'), function_exists('exec')]);",
        )],
        "ini = { memory_limit = \"64M\", precision = 9, short_open_tag = true }\n\
         admin_ini = { user_agent = \"fixed\", disable_functions = \"exec,passthru\" }",
    );
    let mut wire = site.connect();
    let expected =
        json!([["64M", "64M", "32M"], ["9", "9", "3"], ["fixed", false, "fixed"], "1", false]);
    for _ in 0..4 {
        assert_eq!(wire.get("/").json(), expected, "also after another request changed them");
    }
}

#[test]
fn the_php_ini_of_a_former_server_takes_the_place_of_phps_own_and_extensions_stay() {
    if !has_php() {
        return;
    }
    let script = "<?php echo json_encode([ini_get('upload_max_filesize'),
        basename(php_ini_loaded_file()), get_loaded_extensions()]);";
    let files = [("../apache2/moved.ini", "upload_max_filesize = 77M\n"), ("index.php", script)];
    let seen = |php: &str| Site::with_php(&files, php).get("/").json();
    let (usual, moved) = (seen(""), seen("ini_file = \"apache2/moved.ini\""));
    assert_eq!(moved, json!(["77M", "moved.ini", usual[2]]));
}

#[test]
fn scripts_read_the_settings_that_their_server_interface_adds() {
    if !has_php() {
        return;
    }
    let script = "<?php echo json_encode(array_map('ini_get', ['engine', 'last_modified',
        'xbithack', 'cgi.fix_pathinfo', 'cgi.rfc2616_headers', 'fastcgi.logging',
        'fastcgi.error_header']));";
    let files = [("index.php", script), ("set/index.php", script)];
    for (sapi, own) in [
        ("apache2handler", json!(["1", "0", "0", false, false, false, false])),
        ("fpm-fcgi", json!([false, false, false, "1", "0", "1", ""])),
    ] {
        let site = Site::with_php(&files, &format!("sapi = \"{sapi}\""));
        assert_eq!(site.get("/").json(), own, "{sapi}");
        site.file("set/.htaccess", "php_flag xbithack on\nphp_flag engine on\n");
        let is_apache = sapi == "apache2handler";
        let bit = if is_apache { json!("1") } else { json!(false) };
        assert_eq!(site.get("/set/").json()[2], bit, "{sapi}");
        assert_eq!(site.get("/").json(), own, "{sapi}");
    }
}

#[test]
fn user_ini_files_hold_below_their_folder() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                ".user.ini",
                "memory_limit = 33M\nuser_agent = \"stolen\"\n; a comment\n\
                 auto_prepend_file = none\n",
            ),
            ("sub/.user.ini", "memory_limit = 44M\n"),
            ("index.php", "<?php echo ini_get('memory_limit'), ' ', ini_get('user_agent');"),
            ("sub/index.php", "<?php echo ini_get('memory_limit');"),
            ("sub/deep/index.php", "<?php echo ini_get('memory_limit');"),
        ],
        "workers = 1\nadmin_ini = { user_agent = \"fixed\" }",
    );
    let mut wire = site.connect();
    for _ in 0..2 {
        assert_eq!(wire.get("/").text(), "33M fixed");
        assert_eq!(wire.get("/sub/").text(), "44M");
        assert_eq!(wire.get("/sub/deep/").text(), "44M");
    }
}

#[test]
fn files_are_prepended_and_appended() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("index.php", "<?php echo 'page ';"),
            ("before.php", "<?php echo 'before ';"),
            ("after.php", "<?php echo 'after';"),
        ],
        "ini = { auto_prepend_file = \"before.php\", auto_append_file = \"after.php\", \
         include_path = \".\" }",
    );
    assert_eq!(site.get("/").text(), "before page after");
    let site = Site::new(&[
        ("sub/index.php", "<?php echo 'page';"),
        ("sub/before.php", "<?php echo 'before ';"),
        ("sub/.user.ini", "auto_prepend_file = before.php"),
        ("index.php", "<?php echo 'page';"),
    ]);
    let mut wire = site.connect();
    assert_eq!(wire.get("/sub/").text(), "before page");
    assert_eq!(wire.get("/").text(), "page");
}

#[test]
fn the_environment_is_what_the_configuration_says() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[(
            "index.php",
            "<?php echo json_encode([getenv('APP_ENV'), getenv('HOME'), \
             getenv('CARGO_MANIFEST_DIR'), array_keys(getenv())]);",
        )],
        "env = { APP_ENV = \"test\" }",
    );
    let said = site.get("/").json();
    assert_eq!((&said[0], &said[2]), (&json!("test"), &json!(false)));
    let names: Vec<&str> =
        said[3].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert!(names.len() <= 6, "the server's own environment may hold secrets: {names:?}");
}

#[test]
fn opcache_is_on_and_announced() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[(
        "index.php",
        "<?php echo json_encode(opcache_get_status(false)['opcache_enabled'] ?? false);",
    )]);
    assert_eq!(site.get("/").text(), "true");
    site.server.wait_for_log("opcache on");
}

#[test]
fn changed_scripts_are_seen() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[("index.php", "<?php echo 'old';")],
        "ini = { \"opcache.revalidate_freq\" = 0 }",
    );
    let mut wire = site.connect();
    assert_eq!(wire.get("/").text(), "old");
    // opcache believes a file that is younger than two seconds only if its size differs.
    site.file("index.php", "<?php echo 'changed';");
    crate::support::wait_until("the new script runs", || wire.get("/").text() == "changed");
    site.file("new.php", "<?php echo 'new';");
    crate::support::wait_until("the new script is found", || wire.get("/new.php").status == 200);
    fs::remove_file(site.root().join("new.php")).unwrap();
    crate::support::wait_until("it is gone", || wire.get("/new.php").status == 404);
}

#[test]
fn each_pool_has_folders_of_its_own() {
    if !has_php() {
        return;
    }
    let config = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             [site.php]\nworkers = 1\n\
             state_dir = \"state-{name}\"\n"
        )
    };
    let site = Site::configured(
        &[(
            "index.php",
            "<?php session_start(); $_SESSION['x'] = 1; session_write_close();
             $temp = tempnam(sys_get_temp_dir(), 'x'); tmpfile();
             echo json_encode(['temp' => $temp, 'session' => session_save_path(), 'upload' => \
             $_FILES['f']['tmp_name'] ?? ini_get('upload_tmp_dir'),
                 'uid' => posix_geteuid(), 'files' => glob(session_save_path() . '/sess_*')]);",
        )],
        &format!(
            "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\n\
             access = \"access.log\"\n{}{}",
            config("one"),
            config("two")
        ),
    );
    let body = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n\
        content\r\n--B--\r\n";
    let ask = |host: &str| {
        let fields = [("Host", host), ("Content-Type", "multipart/form-data; boundary=B")];
        site.ask("POST", "/", &fields, body.as_bytes()).json()
    };
    let (one, two) = (ask("one.example"), ask("two.example"));
    for (said, name) in [(&one, "one"), (&two, "two")] {
        let state = site.path().join(format!("state-{name}"));
        for key in ["temp", "session", "upload"] {
            let path = said[key].as_str().unwrap();
            assert!(
                Path::new(path).starts_with(&state),
                "{key} is {path}, not below {}",
                state.display()
            );
        }
        assert_eq!(said["files"].as_array().unwrap().len(), 1);
        let session = fs::metadata(said["session"].as_str().unwrap()).unwrap();
        assert_eq!(session.permissions().mode() & 0o077, 0, "no other user reads sessions");
        assert_eq!(u64::from(session.uid()), said["uid"].as_u64().unwrap());
        assert!(
            !Path::new(said["upload"].as_str().unwrap()).exists(),
            "uploads that were not moved are removed"
        );
    }
    assert_ne!(one["session"], two["session"]);
}

/// Both names keep opcache on, which knows the names under which it starts.
#[test]
fn the_sites_sapi_is_the_name_that_scripts_see() {
    if !has_php() {
        return;
    }
    let file = (
        "sapi.php",
        "<?php echo json_encode([PHP_SAPI, php_sapi_name(), \
         opcache_get_status(false)['opcache_enabled'] ?? false]);",
    );
    for (key, name) in [
        ("", "apache2handler"),
        ("sapi = \"apache2handler\"", "apache2handler"),
        ("sapi = \"fpm-fcgi\"", "fpm-fcgi"),
    ] {
        let site = Site::with_php(&[file], key);
        assert_eq!(site.get("/sapi.php").text(), format!("[\"{name}\",\"{name}\",true]"), "{key}");
        site.server.wait_for_log("opcache on");
    }
}

/// Creates a file in each folder of the pool's own, and tries to leave the permitted ones.
const USES_FOLDERS: &str = "<?php
    if (isset($_GET['set'])) ini_set('open_basedir', $_GET['set']);
    $name = tempnam(sys_get_temp_dir(), 'x');
    echo json_encode([
        'basedir' => ini_get('open_basedir'),
        'temporary' => file_put_contents($name, 'x') === 1 && unlink($name) && dirname($name) === \
        sys_get_temp_dir(),
        'upload' => file_get_contents($_FILES['f']['tmp_name'] ?? '') ,
        'session' => session_start() && session_write_close() && file_exists(session_save_path() \
        . '/sess_' . session_id()),
        'outside' => @file_get_contents('/etc/hostname') ?: @file_get_contents('/etc/passwd') ?: \
        'closed',
        'unset' => @ini_set('open_basedir', '/'),
    ]);";

#[test]
fn open_basedir_leaves_the_pools_own_folders_open() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            ("a.php", USES_FOLDERS),
            ("b/a.php", USES_FOLDERS),
            ("c/a.php", USES_FOLDERS),
            ("d/a.php", USES_FOLDERS),
        ],
        "workers = 1\nini = { display_errors = \"1\", html_errors = \"0\" }",
    );
    let root = site.root().display().to_string();
    site.file("b/.htaccess", format!("php_value open_basedir {root}/b"));
    site.file("c/.user.ini", format!("open_basedir = {root}/c"));
    let upload = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n\
        content\r\n--x--\r\n";
    let form = ("Content-Type", "multipart/form-data; boundary=x");
    let ask = |target: &str, basedir: &str| {
        let reply = site.ask("POST", target, &[form], upload.as_bytes());
        let expected = json!({
            "basedir": basedir, "temporary": true, "upload": "content", "session": true, "outside": "closed", "unset": false,
        });
        assert_eq!(reply.json(), expected, "{target}: {}", reply.text());
    };
    for _ in 0..2 {
        ask(&format!("/d/a.php?set={root}/d"), &format!("{root}/d"));
        ask("/b/a.php", &format!("{root}/b"));
        ask("/c/a.php", &format!("{root}/c"));
        let free = site.ask("POST", "/a.php", &[form], upload.as_bytes()).json();
        assert_eq!(free["basedir"], "", "the next request has no open_basedir");
        assert_ne!(free["outside"], "closed");
    }
    let config = std::fs::read_to_string(site.path().join("howdah.toml")).unwrap();
    for table in ["ini", "admin_ini"] {
        let value = format!("{root}:/nowhere");
        let line = format!("\n{table} = {{ open_basedir = \"{value}\" }}\n");
        site.reconfigure(
            &config.replace("\nini = { display_errors = \"1\", html_errors = \"0\" }\n", &line),
        );
        crate::support::wait_until("the new configuration holds", || {
            site.ask("POST", "/a.php", &[form], upload.as_bytes()).json()["basedir"] == value
        });
        // The former generation may take a last connection.
        site.server.front();
        ask("/a.php", &value);
        let narrower = format!("{root}/d");
        if table == "ini" {
            ask(&format!("/d/a.php?set={narrower}"), &narrower);
        }
    }
}

/// Apache's module changes to the script's folder before the first check.
#[test]
fn a_relative_open_basedir_means_the_scripts_folder() {
    if !has_php() {
        return;
    }
    let reads = "<?php echo @file_get_contents('data.txt') ?: 'closed', ' ', \
        @file_get_contents('../data.txt') ?: 'closed';";
    let site = Site::with_php(
        &[
            ("data.txt", "above"),
            ("a/.htaccess", "php_value open_basedir ."),
            ("a/a.php", reads),
            ("a/data.txt", "here"),
            ("b/a.php", reads),
            ("b/data.txt", "there"),
        ],
        "workers = 1",
    );
    for _ in 0..3 {
        assert_eq!(site.get("/a/a.php").text(), "here closed");
        assert_eq!(site.get("/b/a.php").text(), "there above");
    }
}

#[test]
fn shutdown_functions_and_destructors_run_in_the_folder_of_chdir() {
    if !has_php() {
        return;
    }
    let says = "<?php class Late { function __destruct() { echo ' ', getcwd(); } }
                $late = new Late;
                register_shutdown_function(fn() => print(' ' . getcwd()));
                echo getcwd();";
    let site = Site::with_php(
        &[
            ("says.php", says),
            ("sub/says.php", says),
            ("sub/exits.php", &format!("{says} exit(1);")),
            ("sub/fails.php", &format!("{says} none();")),
            ("sub/moves.php", &format!("{says} chdir('/');")),
        ],
        "workers = 1\nchdir = \"public/sub/..\"\nsandbox = \"strict\"",
    );
    let (root, sub) = (site.root().canonicalize().unwrap(), site.root().join("sub"));
    let (root, sub) = (root.display(), sub.canonicalize().unwrap());
    let sub = sub.display();
    let mut wire = site.connect();
    for (target, first) in [
        ("/says.php", root.to_string()),
        ("/sub/says.php", sub.to_string()),
        ("/sub/exits.php", sub.to_string()),
        ("/sub/moves.php", sub.to_string()),
        ("/says.php", root.to_string()),
    ] {
        let reply = wire.get(target);
        let text = reply.text();
        assert_eq!(text, format!("{first} {root} {root}"), "{target}");
    }
    let reply = wire.get("/sub/fails.php");
    let text = reply.text();
    assert!(text.contains(&format!(" {root}")), "a shutdown function after an error: {text}");
}
