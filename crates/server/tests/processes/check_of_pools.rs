//! `howdah check` of pools whose PHP would not start, or not as it is meant.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::{Folder, HOWDAH, Setup, has_php, is_root};

/// Returns what `howdah check` says of a site with these lines in `[site.php]`.
fn check(folder: &Folder, php: &str) -> String {
    let state = match php.contains("state_dir") {
        true => "",
        false => "state_dir = \"state\"\n",
    };
    let text = format!(
        "[[site]]\nname = \"shop\"\nroot = \"{}\"\n[site.php]\n{state}{php}\n",
        folder.path().display()
    );
    let file = folder.file("howdah.toml", text);
    let (status, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(status, Some(0), "{told}");
    told
}

#[test]
fn check_finds_what_the_pool_s_user_may_not_read_or_enter() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::new();
    let told = check(&folder, "user = \"daemon\"");
    assert!(!told.contains("does not start"), "{told}");

    let secret = folder.file("secret.ini", "memory_limit = 1G\n");
    fs::set_permissions(secret, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(folder.folder("closed"), Permissions::from_mode(0o700)).unwrap();
    let at = folder.path().display();
    for (key, path, what) in [
        ("ini_file = ", "secret.ini", "`php.ini_file`"),
        ("chdir = ", "closed", "`php.chdir`"),
        ("ini.\"opcache.preload\" = ", "secret.ini", "`opcache.preload`"),
    ] {
        let told = check(&folder, &format!("user = \"daemon\"\n{key}\"{at}/{path}\""));
        let expected = format!(
            "site shop: {what}: {at}/{path}: Permission denied (os error 13); PHP does not start \
             as daemon without it"
        );
        assert_eq!(told.matches(&expected).count(), 1, "{expected} in {told}");
    }
    // Another site with the same php.ini may read it.
    let site = |name: &str, user: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}\"]\nroot = \"{at}\"\n[site.php]\n\
             user = \"{user}\"\nini_file = \"{at}/secret.ini\"\nstate_dir = \"{at}/{name}\"\n"
        )
    };
    chown(folder.path().join("secret.ini"), Some(1), None).unwrap();
    let file = folder.file("howdah.toml", [site("own", "daemon"), site("other", "games")].concat());
    let (_, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert!(told.contains("site other: `php.ini_file`"), "{told}");
    assert!(!told.contains("site own: `php.ini_file`"), "{told}");
}

#[test]
fn check_finds_a_state_folder_of_another_user() {
    if !has_php() || !is_root() {
        return;
    }
    let folder = Folder::new();
    let state = folder.folder("state");
    chown(&state, Some(33), None).unwrap();
    let php = "user = \"daemon\"\nstate_dir = \"state\"";
    let told = check(&folder, php);
    let expected = format!(
        "site shop: `php.state_dir`: {}: it belongs to user 33, not to user 1; PHP does not start; \
         give the folder to daemon",
        state.display()
    );
    assert!(told.contains(&expected), "{told}");
    chown(&state, Some(1), None).unwrap();
    assert!(!check(&folder, php).contains("does not start"));
    // One that is not there yet.
    let php = "user = \"daemon\"\nstate_dir = \"state/shop\"";
    assert!(!check(&folder, php).contains("does not start"));
    chown(&state, Some(33), None).unwrap();
    let told = check(&folder, php);
    assert!(told.contains("state: it belongs to user 33; PHP does not start"), "{told}");
    assert!(!state.join("shop").exists(), "a check makes no folder");
}

#[test]
fn check_finds_programs_extensions_and_preload_scripts_with_which_php_does_not_start() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    for (php, expected) in [
        (
            "ini = { \"opcache.preload\" = \"/nonexistent.php\" }",
            "`opcache.preload`: /nonexistent.php: No such file or directory (os error 2); PHP does \
             not start",
        ),
        ("ini = { extension = \"nosuch\" }", "Unable to load dynamic library 'nosuch'"),
        ("admin_ini = { extension = \"nosuch\" }", "Unable to load dynamic library 'nosuch'"),
        ("rlimits.as = \"20M\"", "PHP does not start: "),
        ("program = \"/bin/true\"", "PHP does not start: /bin/true ended with status 0"),
        ("program = \"/bin/false\"", "PHP does not start: /bin/false ended with status 1"),
        ("ini = { \"opcache.memory_consumption\" = \"100000000\" }", "PHP does not start: "),
    ] {
        let told = check(&folder, php);
        assert_eq!(told.matches(expected).count(), 1, "{php}: {told}");
    }
    // A script for preloading is not run.
    let ran = folder.path().join("ran");
    let script = format!("<?php file_put_contents('{}', '');", ran.display());
    let script = folder.file("preload.php", script);
    let preload = format!("ini = {{ \"opcache.preload\" = \"{}\" }}", script.display());
    let told = check(&folder, &preload);
    assert!(!told.contains("does not start") && !ran.exists(), "{told}");
}

#[test]
fn check_and_start_tell_of_more_open_files_than_a_process_may_have() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    folder.file("index.php", "<?php echo 'page';");
    let limited = folder.program("limited", "#!/bin/sh\nulimit -n 3000\nexec \"$HOWDAH\" \"$@\"\n");
    let text = |nofile: u32| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"shop\"\nroot = \"{}\"\n[site.php]\n\
             state_dir = \"state\"\nworkers = 2\nrlimits.nofile = {nofile}\n",
            folder.path().display()
        )
    };
    let check = |nofile: u32| {
        let file = folder.file("howdah.toml", text(nofile));
        let setup = Setup::with(&["check", "--config", file.to_str().unwrap()]);
        setup.environment("HOWDAH", HOWDAH).program(&limited).run()
    };
    let (status, _, told) = check(65_536);
    assert_eq!(status, Some(0), "{told}");
    let expected = "site shop: `php.rlimits.nofile` = 65536: scripts get ";
    let reason = "because the hard limit of open files is 3000 here";
    assert!(told.contains(expected) && told.contains(reason), "{told}");
    assert!(!check(1000).2.contains("nofile"));
    let file = folder.file("howdah.toml", text(65_536));
    let server = Setup::config(&file).environment("HOWDAH", HOWDAH).program(&limited).start();
    assert_eq!(server.get("/index.php").text(), "page");
    assert!(server.log().contains(expected) && server.log().contains(reason), "{}", server.log());
    server.stop();
}
