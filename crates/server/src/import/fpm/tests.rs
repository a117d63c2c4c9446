//! The configurations that pools of php-fpm become.

use super::*;

fn imported(text: &str) -> Imported {
    import(&[FpmFile {
        name: "www.conf".to_owned(),
        text: text.to_owned(),
        php_ini: Some("/etc/php/fpm/php.ini".to_owned()),
        sessions: None,
        scanned: vec![],
    }])
}

/// A pool without it has a remark.
const LIMIT: &str = "request_terminate_timeout = 60\n";

#[test]
fn what_has_an_equal_is_written() {
    let text = "[blog]\nuser = $pool\ngroup = \"www-data\"\nlisten = /run/php/$pool.sock\n\
                pm = dynamic\npm.max_children = 7 ; as many\npm.max_requests = 500\n\
                pm.start_servers = 3\npm.min_spare_servers = 2\npm.max_spare_servers = 4\n\
                pm.process_idle_timeout = 10s\n\
                request_terminate_timeout = 2m\nrequest_slowlog_timeout = 5\n\
                request_slowlog_trace_depth = 30\n\
                pm.status_path = /fpm\nsecurity.limit_extensions = .php .php5\n\
                rlimit_files = 2048\nenv[TMP] = /tmp\n\
                env[HOSTNAME] = $HOSTNAME\nenv[PATH] = $PATH\nprocess.priority = -5\n\
                php_flag[display_errors] = off\n\
                php_admin_value[opcache.memory_consumption] = 128\n";
    let Imported { config, remarks } = imported(text);
    for line in [
        "name = \"blog\"",
        "user = \"blog\"",
        "group = \"www-data\"",
        "mode = \"dynamic\"",
        "workers = 7",
        "start_workers = 3",
        "min_spare_workers = 2",
        "max_spare_workers = 4",
        "max_requests = 500",
        "request_timeout = \"2m\"",
        "request_terminate_timeout = \"2m\"",
        "ini_file = \"/etc/php/fpm/php.ini\"",
        "slow_after = \"5s\"",
        "slow_trace_depth = 30",
        "status_path = \"/fpm\"",
        "extensions = [\".php\", \".php5\"]",
        "nofile = 2048",
        "TMP = \"/tmp\"",
        "pass_env = [\"HOSTNAME\"]",
        "nice = -5",
        "display_errors = \"0\"",
        "\"opcache.memory_consumption\" = \"128\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
    }
    assert!(!config.contains("idle_timeout"), "php-fpm ignores it in\n{config}");
    howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].starts_with("www.conf:4: `listen = /run/php/blog.sock` has no equal"));
}

#[test]
fn directives_of_another_mode_are_left_out() {
    for (mode, kept, left) in [
        ("ondemand", &["idle_timeout = \"20s\""][..], &["start_workers", "spare_workers"][..]),
        ("static", &[], &["idle_timeout", "start_workers", "spare_workers"]),
        ("OnDemand", &["idle_timeout = \"20s\""], &["start_workers", "spare_workers"]),
        ("Dynamic", &["start_workers = 2", "min_spare_workers = 1"], &["idle_timeout"]),
        ("DYNAMIC", &["max_spare_workers = 3"], &["idle_timeout"]),
    ] {
        let text = format!(
            "[a]\n{LIMIT}pm.process_idle_timeout = 20\npm = {mode}\npm.max_children = 4\n\
             pm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n"
        );
        let Imported { config, remarks } = imported(&text);
        let mode = mode.to_ascii_lowercase();
        assert!(config.contains(&format!("mode = \"{mode}\"\n")), "{config}");
        assert!(kept.iter().all(|line| config.contains(line)), "{config}");
        assert!(!left.iter().any(|key| config.contains(key)), "{config}");
        howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        assert!(remarks.is_empty(), "{remarks:?}");
    }
}

#[test]
fn nothing_is_left_out_without_a_word() {
    let text = format!("[a]\n{LIMIT}pm = lively\npm.start_servers = 2\n");
    let Imported { config, remarks } = imported(&text);
    assert!(!config.contains("start_workers"), "{config}");
    assert!(remarks[0].contains("`pm = lively` has no equal: it is no mode"), "{remarks:?}");
    let expected = "the pool a has no `pm` that is understood: `start_workers = 2` is left out";
    assert!(remarks[1].contains(expected) && remarks.len() == 2, "{remarks:?}");
}

#[test]
fn numbers_of_users_and_groups_become_names() {
    let Imported { config, remarks } = imported(&format!("[a]\n{LIMIT}user = 1\ngroup = 0\n"));
    for line in ["user = \"daemon\"", "group = \"root\""] {
        assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
    }
    assert!(remarks.is_empty(), "{remarks:?}");
}

#[test]
fn what_has_no_equal_is_said_with_its_line() {
    let text = "[global]\npid = /run/x\n[a]\nchroot = srv\nlisten.acl_users = x\n\
        nonsense = 1\n\
        what\nclear_env = no\nrequest_terminate_timeout = 0\n[b]\npm = static\n";
    let Imported { remarks, .. } = imported(text);
    for (remark, part) in remarks.iter().zip([
        "www.conf:2: `pid = /run/x` is `pid_file` at the top",
        "www.conf:4: `chroot = srv` has no equal: it depends on php-fpm's `prefix`",
        "www.conf:5: `listen.acl_users = x` has no equal",
        "www.conf:6: `nonsense` is not known",
        "www.conf:7: `what` is no setting",
        "www.conf:8: `clear_env = no` has no equal",
        "www.conf:9: `request_terminate_timeout = 0` has no equal: a script without a sign",
        "www.conf: the pool b has no `request_terminate_timeout`: a script without a sign",
    ]) {
        assert!(remark.starts_with(part), "{remark}");
    }
    assert_eq!(remarks.len(), 8, "{remarks:?}");
}

#[test]
fn a_working_directory_stays_one_below_the_chroot() {
    for (text, lines) in [
        ("[a]\nchdir = /srv/app\n", vec!["chdir = \"/srv/app\""]),
        (
            "[a]\nchdir = /app\nchroot = /srv/\n",
            vec!["chdir = \"/app\"", "chroot = \"/srv/\"", "root = \"/srv/var/www/html\""],
        ),
        ("[a]\nchroot = /srv\nchdir = /\n", vec!["chdir = \"/\"", "chroot = \"/srv\""]),
    ] {
        let Imported { config, remarks } = imported(&format!("{text}{LIMIT}"));
        for line in lines {
            assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
        }
        howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        assert!(remarks.is_empty(), "{remarks:?}");
    }
}

#[test]
fn a_value_that_php_fpm_takes_from_its_environment_is_named() {
    let Imported { config, remarks } = imported(&format!(
        "[a]\n{LIMIT}user = ${{FPM_USER}}\npm.max_children = 1|4\nphp_value[x] = \"a${{B}}\"\n\
         env[HOST] = ${{HOST}}\nenv[DB] = ${{OTHER}}\nphp_value[error_reporting] = E_ALL & ~1 ; y\n"
    ));
    assert!(!config.contains("user =") && !config.contains("workers ="), "{config}");
    for line in ["pass_env = [\"HOST\"]", "error_reporting = \"E_ALL & ~1\""] {
        assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
    }
    let expected = [
        "www.conf:3: `user = ${FPM_USER}` ",
        "www.conf:4: `pm.max_children = 1|4` ",
        "www.conf:5: `php_value[x] = \"a${B}\"` ",
        "www.conf:7: `env[DB] = ${OTHER}` ",
    ];
    for (remark, place) in remarks.iter().zip(expected) {
        assert!(remark.starts_with(place), "{remark}");
    }
    assert_eq!(remarks.len(), expected.len(), "{remarks:?}");
}

#[test]
fn what_howdah_does_not_take_is_left_out_and_named() {
    for (line, part) in [
        ("pm.status_path = /st@tus", "is not the path of a page"),
        ("security.limit_extensions = .php,.html", "is not a file name's ending"),
        ("rlimit_files = 8", "16"),
        ("user = 4000000001", "write the name"),
        ("group = 99999999999", "write the name"),
        ("chdir = app", "write the whole path as `chdir`"),
        ("user = howdah", "the front's user"),
        ("php_value[a/b] = 1", "is not a php.ini name"),
        ("env[A B] = 1", "environment variable"),
        ("php_value[x] = 1\nphp_value[x] = 2", "the first one counts"),
    ] {
        let Imported { config, remarks } = imported(&format!("[a]\n{LIMIT}{line}\n"));
        howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        let last = line.lines().last().unwrap();
        assert!(remarks[0].contains(&format!("`{last}` has no equal: ")), "{remarks:?}");
        assert!(remarks[0].contains(part) && remarks.len() == 1, "{remarks:?}");
    }
}

#[test]
fn empty_values_and_defaults_of_php_fpm() {
    let text = format!(
        "[a]\n{LIMIT}user =\nchroot =\nchdir =\npm.status_path =\nping.path =\n\
         process.priority = 20\npm = dynamic\npm.start_servers = 0\n\
         pm.min_spare_servers = 1\npm.max_spare_servers = 2\n\
         php_admin_value[disable_functions] = exec\n\
         php_admin_value[disable_functions] = system\n"
    );
    let Imported { config, remarks } = imported(&text);
    assert!(remarks.is_empty(), "{remarks:?}");
    for line in
        ["extensions = [\".php\", \".phar\"]", "nice = 19", "disable_functions = \"exec,system\""]
    {
        assert!(config.lines().any(|found| found == line), "{line} in\n{config}");
    }
    for key in ["user", "chdir", "status_path", "ping_path", "start_workers"] {
        assert!(!config.contains(&format!("\n{key} =")), "{key} in\n{config}");
    }
    howdah_config::Config::parse(&config, "x.toml").unwrap_or_else(|error| panic!("{error}"));
    // All names, as php-fpm has it.
    for all in ["FALSE", ""] {
        let text = format!("[a]\n{LIMIT}security.limit_extensions = {all}\n");
        let Imported { config, remarks } = imported(&text);
        assert!(config.contains("extensions = [\".php\", \".phar\"]"), "{config}");
        assert!(remarks[0].contains("only names in `extensions` run as PHP"), "{remarks:?}");
    }
}

#[test]
fn names_of_sections_have_any_case_and_any_characters() {
    let text =
        format!("[Global]\npid = /x\n[my pool]\n{LIMIT}[MY POOL]\npm = static\n[b..c]\n{LIMIT}");
    let Imported { config, remarks } = imported(&text);
    let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
    let names: Vec<_> = config.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["my_pool", "b__c"], "{remarks:?}");
    assert!(remarks[0].starts_with("www.conf:2: `pid = /x` is "), "{remarks:?}");
    let renamed = "www.conf: the pool my pool is the site my_pool";
    assert!(remarks.iter().any(|remark| remark == renamed), "{remarks:?}");
}

#[test]
fn several_pools_become_several_sites() {
    let Imported { config, .. } = imported("[a]\nuser = a\n[b]\nuser = b\n");
    let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
    let names: Vec<_> = config.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn values_of_every_kind_are_valid_toml() {
    let text = "[a]\nphp_value[x] = \"a\\b\"\nphp_value[error_reporting] = E_ALL & ~E_NOTICE\n";
    let Imported { config, .. } = imported(text);
    let config = howdah_config::Config::parse(&config, "x.toml").unwrap();
    let php = config.sites[0].php.as_ref().unwrap();
    for (name, value) in [("x", "a\\b"), ("error_reporting", "E_ALL & ~E_NOTICE")] {
        assert!(php.ini.contains(&(name.into(), value.into())), "{:?}", php.ini);
    }
}

#[test]
fn a_folder_for_temporary_files_in_the_environment_is_told_of() {
    for (lines, is_told) in [
        ("env[TMPDIR] = /srv/tmp\n", true),
        ("env[TMPDIR] = /srv/tmp\nphp_value[sys_temp_dir] = /srv/tmp\n", false),
        ("env[TMP] = /srv/tmp\n", false),
    ] {
        let Imported { remarks, .. } = imported(&format!("[a]\n{LIMIT}pm = static\n{lines}"));
        let told = remarks.iter().any(|remark| remark.contains("set `sys_temp_dir` in"));
        assert_eq!(told, is_told, "{lines}: {remarks:?}");
    }
}
