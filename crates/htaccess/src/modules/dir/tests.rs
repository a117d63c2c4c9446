use super::*;
use crate::testing::{settings, try_settings};

fn config(text: &str) -> Config {
    settings(text).dir.map(|config| (*config).clone()).unwrap_or_default()
}

#[test]
fn index_names_add_up_within_a_file_and_replace_those_above() {
    let rows: &[(&[&str], Option<&str>)] = &[
        (&[""], None),
        (&["DirectoryIndex index.php /index.cgi"], Some("index.php,/index.cgi")),
        (&["DirectoryIndex a b\nDirectoryIndex c"], Some("a,b,c")),
        (&["DirectoryIndex a", "DirectoryIndex b"], Some("b")),
        (&["DirectoryIndex a", ""], Some("a")),
        (&["DirectoryIndex disabled"], Some("")),
        (&["DirectoryIndex a\nDirectoryIndex disabled"], Some("")),
        (&["DirectoryIndex disabled\nDirectoryIndex a"], Some("a")),
        (&["DirectoryIndex disabled a"], Some("disabled,a")),
        (&["DirectoryIndex a disabled"], Some("a,disabled")),
        (&["DirectoryIndex a", "DirectoryIndex"], Some("")),
    ];
    for (folders, expected) in rows {
        let configs = folders.iter().map(|text| config(text));
        let merged = configs.reduce(|base, add| Config::merge(&base, &add)).unwrap();
        let names = merged.index.map(|names| {
            let names: Vec<_> =
                names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            names.join(",")
        });
        assert_eq!(names.as_deref(), *expected, "{folders:?}");
    }
}

#[test]
fn the_status_of_an_index_redirect() {
    for (word, expected) in [
        ("on", Some(302)),
        ("off", None),
        ("permanent", Some(301)),
        ("temp", Some(302)),
        ("seeother", Some(303)),
        ("308", Some(308)),
    ] {
        let redirect = config(&format!("DirectoryIndexRedirect {word}")).index_redirect();
        assert_eq!(redirect.map(Status::code), expected, "{word}");
    }
    let below =
        Config::merge(&config("DirectoryIndexRedirect on"), &config("DirectoryIndexRedirect off"));
    assert_eq!(below.index_redirect(), None);
    for word in ["200", "yes", "3000", "-1"] {
        assert!(try_settings(&format!("DirectoryIndexRedirect {word}")).is_err(), "{word}");
    }
}

#[test]
fn the_fallback_and_its_end() {
    let above = config("FallbackResource /index.php\nDirectorySlash Off\nDirectoryCheckHandler On");
    assert_eq!(above.fallback(), Some(&b"/index.php"[..]));
    assert_eq!((above.slash, above.check_handler), (Some(false), Some(true)));
    let below = Config::merge(&above, &config("FallbackResource disabled\nDirectorySlash On"));
    assert_eq!(below.fallback(), None);
    assert_eq!((below.slash, below.check_handler), (Some(true), Some(true)));
}

#[test]
fn index_files_have_a_limit() {
    let lines = |count: usize| "DirectoryIndex a\n".repeat(count);
    assert!(try_settings(&lines(1000)).is_ok());
    assert!(try_settings(&lines(1001)).is_err());
}
