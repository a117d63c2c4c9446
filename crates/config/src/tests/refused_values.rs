//! Values that are refused although they are of the right kind.

use super::mistakes::errors;
use crate::Config;

#[test]
fn a_log_that_would_be_a_file_of_another_meaning_is_refused() {
    let site = "[[site]]\nroot = \"/srv\"\n";
    for (value, message, help) in [
        ("|cat", "a log is not piped to a program", "`tail -F FILE | cat`"),
        ("| /usr/bin/rotatelogs x", "a log is not piped", "call `howdah reopen`"),
        ("syslog", "`syslog` would be a file of that name", "write `syslog:`"),
        ("journald", "`journald` would be a file of that name", "write `journald:`"),
    ] {
        for text in [
            format!("[log]\naccess = \"{value}\"\n{site}"),
            format!("[log]\nerror = \"{value}\"\n{site}"),
            format!("{site}access_log = \"{value}\"\n"),
        ] {
            let found = errors(&text);
            assert!(found.contains(message) && found.contains(help), "{found}");
        }
    }
    let text = format!("{site}access_log = \"./syslog\"\n");
    assert!(Config::parse(&text, "howdah.toml").is_ok());
}

#[test]
fn a_value_that_cannot_be_sent_is_one_mistake_that_names_its_field() {
    let site = "[[site]]\nroot = \"/srv\"\n[[site.fields]]\n";
    let found = errors(&format!("{site}set = {{ X-Good = \"a\", X-Bad = \"a\\\\b\" }}\n"));
    assert!(found.contains("the value of `X-Bad` cannot be sent"), "{found}");
    assert!(!found.contains("change nothing"), "{found}");
    for nothing in ["", "set = {}\n", "unset = []\n"] {
        let found = errors(&format!("{site}{nothing}"));
        assert!(found.contains("these fields change nothing"), "{nothing}: {found}");
    }
}

#[test]
fn more_workers_than_a_pool_can_have_are_refused() {
    let pool = "[[site]]\nroot = \"/srv\"\n[site.php]\n";
    for workers in ["1025", "100000000", "\"1025\""] {
        let found = errors(&format!("{pool}workers = {workers}\n"));
        let help = "give `\"auto\"` or a whole number from 1 to 1024";
        assert!(found.contains("is too large") && found.contains(help), "{found}");
    }
    assert!(Config::parse(&format!("{pool}workers = 1024\n"), "howdah.toml").is_ok());
}

#[test]
fn a_limit_of_file_sizes_with_which_php_cannot_start_is_refused() {
    let pool = "[[site]]\nroot = \"/srv\"\n[site.php.rlimits]\n";
    for (size, what) in [("0", "small"), ("512", "small"), ("\"2000T\"", "large")] {
        let found = errors(&format!("{pool}fsize = {size}\n"));
        assert!(found.contains(&format!("is too {what}")), "{found}");
    }
    assert!(Config::parse(&format!("{pool}fsize = \"1K\"\n"), "howdah.toml").is_ok());
}

#[test]
fn keys_that_change_nothing_beside_others_are_mistakes() {
    let pool = "[[site]]\nroot = \"/srv\"\n[site.php]\n";
    for (lines, message) in [
        ("mode = \"ondemand\"\nmemory_share = 40", "`memory_share` has no effect with `mode"),
        ("private_ipc = false\nshm_size = \"8M\"", "`shm_size` has no effect with `private_ipc"),
        ("status_path = \"/a\"\nping_path = \"/a\"", "`ping_path` is `status_path` as well"),
        (
            "slow_after = \"2m\"\nrequest_terminate_timeout = \"1m\"",
            "`slow_after` is longer than `request_terminate_timeout`",
        ),
        ("umask = \"0777\"", "these permissions are the owner's"),
    ] {
        let found = errors(&format!("{pool}{lines}\n"));
        assert!(found.contains(message), "{lines}: {found}");
    }
    for lines in [
        "memory_share = 40",
        "shm_size = \"8M\"",
        "status_path = \"/a\"\nping_path = \"/b\"",
        // The default of `request_timeout` is longer.
        "request_terminate_timeout = \"1s\"",
        // A script may show signs of life.
        "slow_after = \"2m\"\nrequest_timeout = \"1m\"",
        "umask = \"0077\"",
    ] {
        let text = format!("{pool}{lines}\n");
        assert!(Config::parse(&text, "howdah.toml").is_ok(), "{lines}");
    }
    // These two exclude others, and so are not among all keys together.
    let php = |line: &str| {
        let config = Config::parse(&format!("{pool}{line}\n"), "howdah.toml").unwrap();
        config.sites[0].php.clone().unwrap()
    };
    assert_eq!(php("memory_share = 40").memory_share, 40);
    assert!(!php("private_ipc = false").private_ipc);
}

#[test]
fn a_burst_of_requests_that_nothing_limits_is_a_mistake() {
    let text = |limits: &str, first: &str, second: &str| {
        format!(
            "[limits]\n{limits}\n[[site]]\nname = \"a\"\nroot = \"/srv\"\n{first}\n[[site]]\n\
             name = \"b\"\nhosts = [\"b\"]\nroot = \"/srv\"\n{second}\n"
        )
    };
    let (rate, burst) = ("client_requests = \"5/s\"", "client_burst = 9");
    let both = &*format!("{rate}\n{burst}");
    let off = &*format!("client_requests = \"off\"\n{burst}");
    let message = "`client_burst` has no effect without `client_requests`";
    for (limits, first, second, mistakes) in
        [(burst, "", "", 1), ("", burst, "", 1), ("", burst, rate, 1), (burst, both, burst, 2)]
    {
        let found = errors(&text(limits, first, second));
        assert_eq!(found.matches(message).count(), mistakes, "{limits} {first} {second}: {found}");
    }
    for (limits, first, second) in [
        (both, "", ""),
        (rate, burst, ""),
        ("", both, ""),
        ("", rate, ""),
        // The site has no burst of its own.
        (burst, "", rate),
        // It can be turned on again.
        (off, "", ""),
        (off, burst, ""),
        ("", off, ""),
    ] {
        let text = text(limits, first, second);
        assert!(Config::parse(&text, "howdah.toml").is_ok(), "{text}");
    }
}

#[test]
fn settings_of_php_fpm_are_named_with_their_equal() {
    let pool = "[[site]]\nroot = \"/srv\"\n[site.php]\n";
    for (line, help) in [
        ("pm = \"static\"", "php-fpm's `pm` is `mode` here"),
        ("max_children = 5", "php-fpm's `max_children` is `workers` here"),
        ("\"pm.max_children\" = 5", "php-fpm's `pm.max_children` is `workers` here"),
        ("request_slowlog_timeout = 5", "is `slow_after` here"),
    ] {
        let found = errors(&format!("{pool}{line}\n"));
        assert!(found.contains(help), "{line}: {found}");
    }
}
