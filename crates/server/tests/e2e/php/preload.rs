//! Preloading: `opcache.preload` in `admin_ini`.

use howdah_sys::signal::SIGHUP;

use crate::site::Site;
use crate::support::{Folder, Setup, has_php, wait_until};

#[test]
fn preloaded_classes_are_there_without_an_include_and_new_after_a_reload() {
    if !has_php() {
        return;
    }
    let folder = Folder::new();
    let library = |version: &str| {
        let text = format!("<?php class Preloaded {{ const VERSION = '{version}'; }}");
        folder.file("preload.php", text);
    };
    library("one");
    let preload = folder.path().join("preload.php").display().to_string();
    let script = "<?php echo class_exists('Preloaded', false) ? Preloaded::VERSION : 'none', ' ', \
                  getcwd() === __DIR__ ? 'here' : getcwd();";
    let php = format!("workers = 2\nadmin_ini = {{ \"opcache.preload\" = \"{preload}\" }}");
    let site = Site::with_php(&[("a.php", script)], &php);
    for _ in 0..4 {
        assert_eq!(site.get("/a.php").text(), "one here");
    }
    library("two");
    assert_eq!(site.get("/a.php").text(), "one here");
    site.server.signal(SIGHUP);
    wait_until("the new class serves", || site.get("/a.php").text() == "two here");
    // A mistake in it keeps what was served.
    folder.file("preload.php", "<?php this is no PHP");
    let config = site.path().join("howdah.toml").display().to_string();
    let (code, _, told) = Setup::with(&["reload", "--config", &config]).run();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("PHP does not start: PHP Parse error: "), "{told}");
    assert!(told.contains("preload.php on line 1"), "{told}");
    assert_eq!(site.get("/a.php").text(), "two here");
}
