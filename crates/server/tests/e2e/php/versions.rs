//! Several versions of PHP beside each other: `version` in `[site.php]`.

use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_sys::signal::SIGHUP;

use crate::support::folder::copy_program;
use crate::support::{Client, Folder, HOWDAH, Setup, has_php, wait_until};

/// Returns a folder with `howdah` and the programs of these names, which all run the PHP of
/// `howdah-php`, and the path of its `howdah`.
fn programs(names: &[&str]) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let howdah = folder.path().join("howdah");
    place(Path::new(HOWDAH), &howdah);
    for name in names {
        place(&Path::new(HOWDAH).with_file_name("howdah-php"), &folder.path().join(name));
    }
    (folder, howdah)
}

fn place(program: &Path, at: &Path) {
    if std::fs::hard_link(program, at).is_err() {
        copy_program(program, at);
    }
}

/// The version of the PHP that `howdah-php` runs, as `8.2`.
fn own_version() -> String {
    version_of(&Path::new(HOWDAH).with_file_name("howdah-php"))
}

fn version_of(program: &Path) -> String {
    let told = String::from_utf8(Command::new(program).arg("version").output().unwrap().stdout);
    let told = told.unwrap();
    let numbers: Vec<_> = told.trim_start_matches("PHP ").split('.').take(2).collect();
    numbers.join(".")
}

fn configuration(folder: &Folder, version: &str) -> PathBuf {
    folder.file("public/index.php", "<?php echo PHP_VERSION;");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[[site]]\nname = \"shop\"\n\
         root = \"public\"\n[site.php]\nworkers = 1\nstate_dir = \"state\"\n{version}\n"
    );
    folder.file("howdah.toml", config)
}

#[test]
fn a_site_has_the_version_of_php_that_it_names() {
    if !has_php() {
        return;
    }
    let version = own_version();
    let name = format!("howdah-php{version}");
    let (programs, howdah) = programs(&[&name]);
    let folder = Folder::new();
    folder.folder("public");
    // The second has no version, and the program without one is missing.
    for key in [format!("version = \"{version}\""), String::new()] {
        let file = configuration(&folder, &key);
        let server = Setup::config(&file).program(&howdah).start();
        assert!(server.get("/").text().starts_with(&format!("{version}.")));
        server.stop();
    }
    let file = configuration(&folder, "");
    let arguments = ["check", "--config", file.to_str().unwrap()];
    let (code, out, err) = Setup::with(&arguments).program(&howdah).run();
    let program = programs.path().join(&name).display().to_string();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("programs that run PHP: ") && out.contains(&program), "{out}");
}

/// `scripts/test-php` names a `howdah-php` of another PHP in `HOWDAH_OTHER_PHP`.
#[test]
fn two_sites_have_two_versions_of_php_beside_each_other() {
    let Some(other) = std::env::var_os("HOWDAH_OTHER_PHP").map(PathBuf::from) else {
        howdah_skip::skip!("HOWDAH_OTHER_PHP names no howdah-php of another version");
        return;
    };
    let versions = [own_version(), version_of(&other)];
    let [own, others] = versions.clone().map(|version| format!("howdah-php{version}"));
    let (programs, howdah) = programs(&[&own]);
    place(&other, &programs.path().join(others));
    let folder = Folder::new();
    folder.file("public/index.php", "<?php echo PHP_VERSION, ' ', $_SERVER['SERVER_NAME'];");
    let site = |version: &String| {
        format!(
            "[[site]]\nhosts = [\"{version}.example\"]\nroot = \"public\"\n[site.php]\n\
             version = \"{version}\"\nworkers = 1\nstate_dir = \"state{version}\"\n"
        )
    };
    let sites: String = versions.iter().map(site).collect();
    let config = format!("listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n{sites}");
    let file = folder.file("howdah.toml", config);
    let server = Setup::config(&file).program(&howdah).start();
    let ask_all = || {
        for version in &versions {
            let mut client = Client::connect(server.address());
            let head = format!("GET / HTTP/1.1\r\nHost: {version}.example\r\n\r\n");
            client.send(head).unwrap();
            let text = client.answer().unwrap().text().to_owned();
            assert!(text.starts_with(&format!("{version}.")), "{text}");
            assert!(text.ends_with(&format!(" {version}.example")), "{text}");
        }
    };
    ask_all();
    let front = server.front();
    server.signal(SIGHUP);
    wait_until("a new generation serves", || !front.lives());
    ask_all();
    let arguments = ["check", "--config", file.to_str().unwrap()];
    let (code, out, err) = Setup::with(&arguments).program(&howdah).run();
    assert_eq!(code, Some(0), "{out}{err}");
    for version in &versions {
        let program = programs.path().join(format!("howdah-php{version}"));
        assert!(out.contains(&program.display().to_string()), "{out}");
    }
    server.stop();
}

#[test]
fn a_version_that_is_missing_is_told_with_those_that_are_there() {
    if !has_php() {
        return;
    }
    let (programs, howdah) = programs(&["howdah-php", "howdah-php8.1", "howdah-php8.10"]);
    let folder = Folder::new();
    folder.folder("public");
    let file = configuration(&folder, "version = \"7.9\"");
    let arguments = ["check", "--config", file.to_str().unwrap()];
    let (code, out, err) = Setup::with(&arguments).program(&howdah).run();
    assert_ne!(code, Some(0), "{out}{err}");
    let path = |name| programs.path().join(name).display().to_string();
    for part in [
        "howdah-php7.9, which runs PHP 7.9, is in none of",
        &format!("there are {}, ", path("howdah-php")),
        &path("howdah-php8.1"),
        &path("howdah-php8.10"),
    ] {
        assert!(err.contains(part), "{part}\n{out}{err}");
    }
}

#[test]
fn a_program_with_another_version_than_its_name_says_is_refused() {
    if !has_php() {
        return;
    }
    let (_programs, howdah) = programs(&["howdah-php7.9"]);
    let folder = Folder::new();
    folder.folder("public");
    let file = configuration(&folder, "version = \"7.9\"");
    let arguments = ["serve", "--config", file.to_str().unwrap()];
    let (code, out, err) = Setup::with(&arguments).program(&howdah).run();
    assert_ne!(code, Some(0), "{out}{err}");
    assert!(err.contains("and the site's `php.version` is 7.9"), "{out}{err}");
}
