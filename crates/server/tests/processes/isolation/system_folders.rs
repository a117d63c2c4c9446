//! Folders of the system that the configuration gives to one site.

use super::can_run;
use crate::support::{Folder, Setup};

/// The extensions that PHP has loaded, and whether names can be looked up.
const WHOLE: &str = "<?php echo count(get_loaded_extensions()), ' ', is_readable('/etc/hosts');";

#[test]
fn a_site_in_a_folder_of_the_system_takes_no_php_from_another_site() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    folder.file("public/index.php", WHOLE);
    let config = |lines: &str| {
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"off\"\n[[site]]\nname = \"shop\"\n\
             root = \"public\"\n[site.php]\nworkers = 1\nstate_dir = \"state/shop\"\n\
             queue_timeout = \"2m\"\n{lines}"
        );
        folder.file("howdah.toml", config)
    };
    let served = |lines: &str| {
        let server = Setup::config(&config(lines)).start();
        let answer = server.get("/");
        (answer.status, answer.text().to_owned())
    };
    let alone = served("");
    assert!(alone.0 == 200 && alone.1.ends_with(" 1"), "{alone:?}");
    let other = "[[site]]\nname = \"wide\"\nhosts = [\"wide.example\"]\n";
    let state =
        format!("{other}root = \"public\"\n[site.php]\nworkers = 1\nstate_dir = \"/etc\"\n");
    let roots = ["/", "/usr", "/etc", "/usr/lib"];
    let roots =
        roots.map(|root| (root, format!("{other}root = \"{root}\"\nphp = false\n"), "root"));
    for (path, lines, key) in roots.into_iter().chain([("/etc", state, "php.state_dir")]) {
        assert_eq!(served(&lines), alone, "{key} {path}");
        let file = config(&lines);
        let (_, _, told) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
        let expected = format!("site wide: `{key}`: {path} is a folder of the system, which every");
        assert!(told.contains(&expected), "{told}");
    }
}
