//! The messages and exit statuses of commands that fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;

use crate::config;
use crate::support::{Folder, HOWDAH, Setup, has_php, is_root};

#[test]
fn a_taken_port() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let path = folder.path().display().to_string();
    let (status, output, told) =
        Setup::with(&["serve", &path, "--no-php", "--listen", &address]).run();
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert!(told.starts_with(&format!("howdah: cannot listen on {address}: ")), "{told}");
    assert!(told.contains("another program listens there"), "{told}");
}

/// A configuration that was cut off must not pass for a whole one.
#[test]
fn output_that_cannot_be_written() {
    let folder = Folder::new();
    folder.file("public/a.txt", "a");
    let file = config(&folder, "", "php = false");
    let file = file.to_str().unwrap();
    let pool = folder.file("pool.conf", "[blog]\nuser = nobody\nlisten = /run/php.sock\n");
    let commands: [&[&str]; 4] = [
        &["check", "--config", file],
        &["explain", "--config", file, "/a.txt"],
        &["import", "fpm", pool.to_str().unwrap()],
        &["completion", "bash"],
    ];
    for command in commands {
        let run = |output: std::process::Stdio| {
            let ran = Command::new(HOWDAH).args(command).stdout(output).output().unwrap();
            (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
        };
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (status, told) = run(full.into());
        assert_eq!(status, Some(1), "{command:?}: {told}");
        assert!(told.contains("the output is incomplete: it cannot be written: "), "{told}");
        // A reader such as `head` has read enough.
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let (status, told) = run(closed.into());
        assert_eq!(status, Some(0), "{command:?}: {told}");
        assert!(!told.contains("incomplete"), "{told}");
    }
}

#[test]
fn a_folder_that_is_not_there() {
    for command in ["serve", "check"] {
        let (status, output, told) = Setup::with(&[command, "/no/such/folder"]).run();
        assert_eq!((status, output.as_str()), (Some(if command == "serve" { 2 } else { 1 }), ""));
        assert!(told.starts_with("howdah: /no/such/folder: "), "{told}");
    }
}

/// The administrator checks, as root, what the sites' owners have written.
#[test]
fn a_check_neither_obeys_nor_shows_what_a_site_has_no_right_to() {
    const NASTY: &str = "Bo\u{1b}]0;title\u{7}gus\u{202e}\n";
    let folder = Folder::new();
    folder.file("public/.htaccess", NASTY);
    folder.file("public/n\u{1b}[31mX/.htaccess", NASTY);
    // The name is a directive that does not exist, which a message would quote.
    let secret = folder.file("secret", "SecretLine\n");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for (name, target) in [("secret", secret.as_path()), ("zero", Path::new("/dev/zero"))] {
        let link = folder.folder(&format!("public/{name}")).join(".htaccess");
        symlink(target, &link).unwrap();
        if is_root() {
            lchown(&link, Some(65534), None).unwrap();
        }
    }
    let pipe = folder.folder("public/pipe").join(".htaccess");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    folder.file("public/large/.htaccess", vec![b'\n'; 2000]);
    for symlinks in ["owner", "follow"] {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[limits]\nhtaccess_size = \"1K\"\n\
             [[site]]\nroot = \"public\"\nphp = false\nsymlinks = \"{symlinks}\"\n"
        );
        let file = folder.file("howdah.toml", text);
        let (status, output, told) =
            Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
        assert_eq!(status, Some(1), "{output}{told}");
        let is_harmless = |one: char| one == '\n' || !one.is_control() && one != '\u{202e}';
        assert!((output.clone() + &told).chars().all(is_harmless), "{output:?}{told:?}");
        assert!(output.contains("Invalid command 'Bo\u{fffd}]0;title"), "{output}");
        for (name, what) in [
            ("zero", "requests that the file covers are refused"),
            ("pipe", "it is not a regular file; requests that the file covers are refused"),
            ("large", "it is larger than the 1024 bytes that `htaccess_size`"),
        ] {
            let line = output.lines().find(|line| line.contains(&format!("/{name}/.htaccess:")));
            assert!(line.is_some_and(|line| line.contains(what)), "{name}: {output}");
        }
        if is_root() {
            assert!(!output.contains("SecretLine"), "{output}");
            assert!(output.contains("/secret/.htaccess:1:1: error: "), "{output}");
        }
    }
}

#[test]
fn bad_usage() {
    for arguments in
        [&["serve", "--port", "1"][..], &["dance"], &[], &["serve", "--workers", "none"]]
    {
        let (status, output, told) = Setup::with(arguments).run();
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(told.starts_with("howdah: ") || told.contains("Usage: howdah"), "{told}");
    }
}

#[test]
fn a_bad_config() {
    let folder = Folder::new();
    let file = folder.file("howdah.toml", "[[site]]\nroot = \"/srv\"\nindexx = [\"a\"]\n");
    let file = file.display().to_string();
    for (command, expected) in [("serve", 2), ("check", 1)] {
        let (status, _, told) = Setup::with(&[command, "--config", &file]).run();
        assert_eq!(status, Some(expected));
        assert!(told.contains(&format!("{file}:3:1: unknown key `indexx`")), "{told}");
        assert!(told.contains("did you mean `index`?"), "{told}");
    }
}

/// Standard error without the warning that this machine has no user for the front.
fn unless_of_the_user(told: &str) -> &str {
    match told.split_once('\n') {
        Some((first, rest)) if first.contains("there is no user howdah on this machine") => rest,
        _ => told,
    }
}

#[test]
fn a_good_config() {
    let folder = Folder::new();
    let file = config(&folder, "", "php = false");
    let (status, output, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!((status, unless_of_the_user(&told)), (Some(0), ""));
    assert!(output.ends_with("is good: sites 1, of which with PHP 0\n"), "{output}");
}

#[test]
fn check_names_files_and_folders_that_are_missing() {
    let folder = Folder::new();
    let check = |log: &str, site: &str| {
        let root = folder.path().display();
        let text = format!("control = \"control\"\n{log}\n[[site]]\nroot = \"{root}\"\n{site}");
        let file = folder.file("howdah.toml", text);
        let (status, output, told) =
            Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
        (status, format!("{output}{told}"))
    };
    for (log, site) in [
        ("[log]\naccess = \"none/access.log\"", "php = false"),
        ("[log]\nerror = \"none/error.log\"", "php = false"),
        ("", "php = false\naccess_log = \"none/shop.log\""),
    ] {
        let (status, told) = check(log, site);
        assert_eq!(status, Some(1), "{told}");
        let path = folder.path().join("none");
        assert!(told.contains(&format!("cannot open the log {}/", path.display())), "{told}");
        assert!(told.contains("; create its folder") && !told.contains("is good"), "{told}");
    }
    let (status, told) = check("[log]\naccess = \"access.log\"", "php = false");
    assert_eq!(status, Some(0), "{told}");
    assert!(!folder.path().join("access.log").exists());
    if has_php() {
        // As a folder of `chdir`: the other sites are served.
        let php = "name = \"shop\"\n[site.php]\nini_file = \"/no/such.ini\"";
        let (status, told) = check("", php);
        assert_eq!(status, Some(0), "{told}");
        let expected = "site shop: `php.ini_file`: /no/such.ini: ";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn every_htaccess_is_checked() {
    let folder = Folder::new();
    let root = folder.folder("site");
    folder.file(
        "site/.htaccess",
        "AddDefaultCharset utf-8\n<Files a>\n  AddDefaultChrset off\n</Files>\n",
    );
    folder.file("site/below/.htaccess", "php_flag display_errors on\n");
    let root = root.display().to_string();
    let file = folder.file("howdah.toml", format!("[[site]]\nroot = {root:?}\nphp = false\n"));
    let file = file.to_str().unwrap();
    let (status, output, told) = Setup::with(&["check", "--config", file]).run();
    assert_eq!((status, unless_of_the_user(&told)), (Some(1), ""));
    for expected in [
        &format!("{root}/.htaccess:3:3: error: Invalid command 'AddDefaultChrset'"),
        "\n 3 |   AddDefaultChrset off\n   |   ^\n   = did you mean `AddDefaultCharset`?\n",
        &format!("{root}/below/.htaccess:1:10: warning: "),
        "howdah: 2 .htaccess files: 1 error, 1 warning, 0 notes\n",
    ] {
        assert!(output.contains(expected), "{expected}\n{output}");
    }
    let (status, output, _) = Setup::with(&["check", "--json", "--config", file]).run();
    let page: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((status, &page["errors"], &page["files"]), (Some(1), &1.into(), &2.into()));
    folder.file("site/.htaccess", "AddDefaultCharset utf-8\n");
    let (status, ..) = Setup::with(&["check", "--config", file]).run();
    assert_eq!(status, Some(0), "warnings are no errors");
}

#[test]
fn a_request_is_explained() {
    let folder = Folder::new();
    folder.file(".htaccess", "RewriteEngine On\nRewriteRule ^old/(.*) /new/$1 [R=301,L]\n");
    let root = folder.path().display().to_string();
    let explain =
        |arguments: &[&str]| Setup::with(&["explain", "--root", &root]).and(arguments).run();
    let (status, output, told) = explain(&["/old/page?a=b"]);
    assert_eq!((status, told.as_str()), (Some(0), ""));
    for expected in [
        "GET http://localhost/old/page?a=b",
        ".htaccess:2  RewriteRule ^old/(.*) /new/$1 [R=301,L]",
        "$1: page",
        "301 Moved Permanently: a redirect",
        "/new/page?a=b",
    ] {
        assert!(output.contains(expected), "{expected}\n{output}");
    }
    let (status, output, _) = explain(&["--json", "POST", "/old/x"]);
    let page: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((status, &page["request"]["method"]), (Some(0), &"POST".into()));
    for (arguments, code, why) in [
        (&["/ x"][..], 1, "400"),
        (&[], 2, "URL"),
        (&["/", "--from", "here"], 2, "invalid"),
        (&["/", "--config", "x.toml"], 2, "cannot be used with"),
    ] {
        let (status, _, told) = explain(arguments);
        assert_eq!(status, Some(code), "{told}");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn upstreams_are_checked_and_explained() {
    let folder = Folder::new();
    let root = folder.folder("site").display().to_string();
    folder.file(
        "site/.htaccess",
        "RewriteEngine On\nRewriteRule ^app/(.*)$ http://127.0.0.1:3000/$1 [P]\n\
         RewriteRule ^other$ http://127.0.0.1:3001/ [P]\n",
    );
    let text =
        format!("[[site]]\nroot = {root:?}\nphp = false\nupstreams = \"http://127.0.0.1:3000\"\n");
    let file = folder.file("howdah.toml", text);
    let file = file.to_str().unwrap();
    let (status, output, _) = Setup::with(&["check", "--config", file]).run();
    let expected =
        "/.htaccess:3:1: warning: http://127.0.0.1:3001 is none of the site's `upstreams`";
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains(expected) && output.contains("1 warning"), "{output}");
    let explain =
        |arguments: &[&str]| Setup::with(&["explain", "--config", file]).and(arguments).run().1;
    let output = explain(&["/app/x?y"]);
    assert!(output.contains("proxy: http://127.0.0.1:3000/x?y"), "{output}");
    let page: serde_json::Value = serde_json::from_str(&explain(&["--json", "/app/x"])).unwrap();
    assert_eq!(page["outcome"]["url"], "http://127.0.0.1:3000/x");
    assert!(explain(&["/other"]).contains("403 Forbidden"));
}

#[test]
fn php_that_does_not_start() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let file = config(&folder, "", "[site.php]\nini_file = \"/no/such/php.ini\"");
    let (status, output, told) = Setup::config(&file).run();
    assert_eq!((status, output.as_str()), (Some(1), ""));
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("howdah: site shop: PHP does not start: "), "{told}");
    assert!(last.contains("/no/such/php.ini"), "{told}");
}

#[test]
fn check_finds_mistakes_among_many_ini_files() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    for number in 0..200 {
        folder.file(&format!("conf.d/{number}.ini"), format!("user_agent = agent-{number}\n"));
    }
    let file = config(&folder, "", "[site.php]");
    let scanned = format!(":{}", folder.path().join("conf.d").display());
    let check = || {
        let setup = Setup::with(&["check", "--config", file.to_str().unwrap()]);
        let (status, _, told) = setup.environment("PHP_INI_SCAN_DIR", &scanned).run();
        assert_eq!(status, Some(0), "{told}");
        told
    };
    let told = check();
    assert!(!told.contains("site shop: PHP"), "{told}");
    folder.file("conf.d/100.ini", "user_agent = agent\nsome (thing\n");
    folder.file("conf.d/101.ini", "extension = no-such-extension\n");
    let secret = folder.file("conf.d/102.ini", "user_agent = secret\n");
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    let told = check();
    // Only root starts pools of other users than the file's.
    let unread = told.matches("conf.d/102.ini: Permission denied").count();
    assert_eq!(unread, usize::from(is_root()), "{told}");
    for expected in [
        "conf.d/100.ini on line 2; what follows there has no effect",
        "site shop: PHP Startup: Unable to load dynamic library 'no-such-extension'",
    ] {
        assert_eq!(told.matches(expected).count(), 1, "{told}");
    }
    // Without a word about logs in php.ini, PHP shows such mistakes to clients.
    folder.file("conf.d/101.ini", "");
    folder.file("php.ini", "extension = another-one\n");
    config(&folder, "", "[site.php]\nini_file = \"php.ini\"");
    let told = check();
    assert!(told.contains("Unable to load dynamic library 'another-one'"), "{told}");
}

#[test]
fn a_program_that_runs_no_php() {
    let folder = Folder::new();
    let file = config(&folder, "", "[site.php]\nprogram = \"/bin/false\"");
    let (status, _, told) = Setup::config(&file).run();
    assert_eq!(status, Some(1));
    assert!(
        told.contains("howdah: site shop: the zygote")
            && told.contains("ended with status 1 while PHP started"),
        "{told}"
    );
    let file = config(&folder, "", "[site.php]\nprogram = \"/etc/passwd\"");
    let (status, _, told) = Setup::config(&file).run();
    assert_eq!(status, Some(2));
    assert!(told.contains("/etc/passwd is not an executable file"), "{told}");
}

#[test]
fn users_that_do_not_exist() {
    if !crate::support::is_root() || !has_php() {
        return;
    }
    let folder = Folder::new();
    let file = config(&folder, "user = \"no-such-user\"", "[site.php]\ngroup = \"no-such-group\"");
    let (status, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(status, Some(1));
    assert!(told.contains("`user`: there is no user no-such-user"), "{told}");
}

#[test]
fn state_folders_that_pools_of_several_users_share() {
    if !crate::support::is_root() || !has_php() {
        return;
    }
    let folder = Folder::new();
    let site = |name: &str, user: &str, state: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"{}\"\n\
             [site.php]\nuser = \"{user}\"\nstate_dir = \"{state}\"\n",
            folder.path().display()
        )
    };
    let sites = [
        site("one", "daemon", "state"),
        site("same", "daemon", "state"),
        site("two", "games", "state"),
        site("three", "nobody", "state/three"),
        site("four", "nobody", "other"),
    ];
    let file = folder.file("howdah.toml", sites.concat());
    let (_, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    let state = folder.path().join("state").display().to_string();
    for expected in [
        format!(
            "site two: `php.state_dir`: {state} is a folder of the site one, which runs as daemon: \
             PHP of one of them does not start; give each site a folder of its own"
        ),
        format!(
            "site three: `php.state_dir`: {state}/three is a folder of the site one, which runs as \
             daemon: daemon can put another folder in its place; "
        ),
    ] {
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(told.matches("`php.state_dir`").count(), 2, "{told}");
}

#[test]
fn help_about_a_command_is_the_command_s_own() {
    for command in ["serve", "check", "explain", "import", "status", "reload", "stop"] {
        let (status, help, errors) = Setup::with(&["help", command]).run();
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{command}");
        assert!(help.contains(&format!("Usage: howdah {command} ")), "{help}");
        assert_eq!(help, Setup::with(&[command, "--help"]).run().1);
    }
    assert_eq!(Setup::with(&["help", "dance"]).run().0, Some(2));
}

#[test]
fn shells_complete_commands_and_options() {
    for (shell, option) in
        [("bash", "--no-htaccess"), ("zsh", "--no-htaccess"), ("fish", "no-htaccess")]
    {
        let (status, script, errors) = Setup::with(&["completion", shell]).run();
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        for word in ["explain", "reload", option] {
            assert!(script.contains(word), "{shell}: {word}: {script}");
        }
    }
    assert_eq!(Setup::with(&["completion", "tcsh"]).run().0, Some(2));
}
