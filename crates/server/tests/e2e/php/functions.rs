//! The functions that scripts find, compared with those of Apache's module.

use serde_json::json;

use crate::site::Site;
use crate::support::{has_php, wait_until};

#[test]
fn scripts_find_the_functions_of_their_interface() {
    if !has_php() {
        return;
    }
    let names = [
        "apache_get_modules",
        "apache_get_version",
        "apache_getenv",
        "apache_lookup_uri",
        "apache_note",
        "apache_setenv",
        "virtual",
        "apache_response_headers",
        "apache_request_headers",
        "getallheaders",
        "fastcgi_finish_request",
        "fpm_get_status",
        // The library that PHP is loaded from has it, Apache's module does not.
        "chroot",
    ];
    let list = names.map(|name| format!("'{name}'")).join(",");
    let script =
        format!("<?php echo json_encode(array_values(array_filter([{list}], 'function_exists')));");
    for (sapi, has) in [("apache2handler", 0..11), ("fpm-fcgi", 8..12)] {
        let site = Site::with_php(&[("a.php", &script)], &format!("sapi = \"{sapi}\""));
        assert_eq!(site.get("/a.php").json(), json!(names[has]), "{sapi}");
    }
}

#[test]
fn scripts_find_php_fpms_variables_and_state() {
    if !has_php() {
        return;
    }
    let script = "<?php $status = fpm_get_status(); $own = array_values(array_filter(\
                  $status['procs'], fn ($one) => $one['pid'] === getmypid()))[0];
                  $user = posix_getpwuid(posix_geteuid());
                  echo json_encode([$_SERVER['FCGI_ROLE'], $_SERVER['USER'] === $user['name'],
                      getenv('HOME') === $user['dir'], $status['total-processes'],
                      array_keys($status), array_keys($own), $own['state'],
                      $own['request-method'], $own['request-uri'], $own['query-string']]);";
    let site = Site::with_php(
        &[("a.php", script)],
        "workers = 1\nstandby = false\nmode = \"static\"\nsapi = \"fpm-fcgi\"",
    );
    let expected = json!([
        "RESPONDER",
        true,
        true,
        1,
        [
            "pool",
            "process-manager",
            "start-time",
            "start-since",
            "accepted-conn",
            "listen-queue",
            "max-listen-queue",
            "listen-queue-len",
            "idle-processes",
            "active-processes",
            "total-processes",
            "max-active-processes",
            "max-children-reached",
            "slow-requests",
            "procs"
        ],
        [
            "pid",
            "state",
            "start-time",
            "start-since",
            "requests",
            "request-duration",
            "request-method",
            "request-uri",
            "query-string",
            "request-length",
            "user",
            "script",
            "last-request-cpu",
            "last-request-memory"
        ],
        "Running",
        "GET",
        "/a.php",
        "b=1"
    ]);
    assert_eq!(site.get("/a.php?b=1").json(), expected);
}

#[test]
fn a_pool_of_many_workers_tells_its_scripts_of_each() {
    if !has_php() {
        return;
    }
    const WORKERS: usize = 100;
    let held = "<?php touch($_GET['in'] . '/' . getmypid());
                while (!file_exists($_GET['in'] . '/end')) usleep(10000);";
    let script = "<?php $status = fpm_get_status(); echo json_encode([$status['total-processes'],
                      count(array_unique(array_column($status['procs'], 'pid'))),
                      array_sum(array_map('strlen', array_column($status['procs'], \
                      'query-string')))]);";
    let site = Site::with_php(
        &[("held.php", held), ("a.php", script)],
        &format!(
            "workers = {WORKERS}\nstandby = false\nmode = \"static\"\nsapi = \"fpm-fcgi\"\n\
             queue = {WORKERS}"
        ),
    );
    let scratch = site.scratch();
    let query = "a".repeat(2048);
    let target = format!("{}&{query}", site.awaiting("/held.php"));
    let held: Vec<_> = (1..WORKERS)
        .map(|_| {
            let mut wire = site.connect();
            wire.request("GET", &target, &[], b"");
            wire
        })
        .collect();
    let running = || std::fs::read_dir(&scratch).unwrap().count();
    wait_until("all other workers run a script", || running() == WORKERS - 1);
    let [processes, pids, bytes]: [usize; 3] =
        serde_json::from_value(site.get("/a.php").json()).unwrap();
    assert_eq!((processes, pids), (WORKERS, WORKERS));
    assert!(bytes > (WORKERS - 1) * 2000, "{bytes}");
    site.allow("end");
    drop(held);
}

#[test]
fn scripts_are_told_of_apaches_modules_and_version() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[(
            "a.php",
            "<?php $all = apache_get_modules(); echo json_encode([array_is_list($all), \
                count($all) > 20,
                array_values(array_intersect($all, ['core', 'mod_rewrite', 'mod_headers', \
                'mod_php', 'prefork', 'mod_security2', 'mod_rewrite.c', ''])),
                apache_get_version() === $_SERVER['SERVER_SOFTWARE']]);",
        )],
        "",
    );
    let expected =
        json!([true, true, ["core", "prefork", "mod_rewrite", "mod_headers", "mod_php"], true]);
    assert_eq!(site.get("/a.php").json(), expected);
}

#[test]
fn notes_and_variables_last_as_long_as_the_request() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[(
            "a.php",
            "<?php echo json_encode([apache_note('a'), apache_note('a', 'one'), apache_note('A', \
                'two'), apache_note('a'), apache_note('a', null),
                apache_note('a', ''), apache_note('a'), apache_setenv('NEW', '1'), \
                apache_getenv('NEW'), getenv('NEW'), apache_getenv('OTHER'),
                apache_setenv('NEW', '2'), apache_getenv('new')]);",
        )],
        "workers = 1",
    );
    let expected =
        json!([false, false, "one", "two", "two", "two", "", true, "1", "1", false, true, "2"]);
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").json(), expected);
    }
}

#[test]
fn scripts_look_up_what_a_uri_leads_to() {
    if !has_php() {
        return;
    }
    let site = Site::with_php(
        &[
            (
                "in/a.php",
                "<?php $found = @apache_lookup_uri($_GET['uri']); echo json_encode($found === \
                    false ? false
                    : [$found->status, $found->uri, $found->filename, $found->path_info, \
                    $found->args ?? null, $found->unparsed_uri, $found->method, \
                    get_class($found)]);",
            ),
            ("page.html", ""),
            ("with/index.html", ""),
            ("script/index.php", "<?php"),
        ],
        "",
    );
    let root = site.root().display().to_string();
    let found = |uri: &str, file: &str, path_info: &str, args: Option<&str>, whole: &str| {
        json!([200, uri, format!("{root}{file}"), path_info, args, whole, "GET", "stdClass"])
    };
    let cases = [
        ("/page.html", found("/page.html", "/page.html", "", None, "/page.html")),
        (
            "a.php/more%3Fx=1",
            found("/in/a.php/more", "/in/a.php", "/more", Some("x=1"), "/in/a.php/more?x=1"),
        ),
        ("../none/x", found("/none/x", "/none", "/x", None, "/in/../none/x")),
        ("./", found("/in/", "/in/", "", None, "/in/./")),
        // As with Apache, a folder is the file that answers for it.
        ("/with/", found("/with/index.html", "/with/index.html", "", None, "/with/")),
        (
            "/script/%3Fa=b",
            found("/script/index.php", "/script/index.php", "", Some("a=b"), "/script/?a=b"),
        ),
        // A folder without its slash is redirected, and such an escape is refused.
        ("/in", json!(false)),
        ("/a%2500", json!(false)),
    ];
    for (uri, expected) in cases {
        assert_eq!(site.get(&format!("/in/a.php?uri={uri}")).json(), expected, "{uri}");
    }
}
