//! Files that a configuration includes.

use std::fs;
use std::path::Path;

use crate::*;

/// Writes files into a folder of their own, and loads `howdah.toml` there.
fn load(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Config, String>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let config = Config::load(&folder.path().join("howdah.toml"));
    let here = format!("{}/", folder.path().display());
    let config = config.map_err(|errors| errors.to_string().replace(&here, ""));
    (folder, config)
}

/// The first lines of the mistakes.
fn mistakes(files: &[(&str, &str)]) -> Vec<String> {
    let errors = load(files).1.expect_err("a mistake");
    let is_head = |line: &&str| line.contains(".toml:") && !line.starts_with(' ');
    errors.lines().filter(is_head).map(str::to_owned).collect()
}

#[test]
fn one_file_for_each_site() {
    let (folder, config) = load(&[
        (
            "howdah.toml",
            "include = [\"sites/*.toml\", \"more/?.toml\"]\n[[site]]\nroot = \"own\"\n",
        ),
        (
            "sites/b.toml",
            "[[site]]\nhosts = \"b.example\"\nroot = \"b\"\n[site.php]\nini_file = \"b.ini\"\n",
        ),
        (
            "sites/a.toml",
            "include = \"extra/x.toml\"\n[[site]]\nhosts = \"a.example\"\nroot = \"/srv/a\"\n",
        ),
        ("sites/extra/x.toml", "[[site]]\nhosts = \"x.example\"\nroot = \"x\"\n"),
        ("sites/.hidden.toml", "nonsense"),
        ("sites/c.toml~", "nonsense"),
        ("more/1.toml", "[[site]]\nhosts = \"one.example\"\nroot = \"one\"\n"),
        ("more/10.toml", "nonsense"),
    ]);
    let config = config.unwrap();
    let names: Vec<&str> = config.sites.iter().map(|site| &*site.name).collect();
    assert_eq!(names, ["default", "a.example", "x.example", "b.example", "one.example"]);
    let at = |path: &str| folder.path().join(path);
    let roots: Vec<_> = config.sites.iter().map(|site| site.root.clone()).collect();
    let expected = ["own", "/srv/a", "sites/extra/x", "sites/b", "more/one"];
    assert_eq!(roots, expected.map(|path| RootTemplate::Fixed(at(path))));
    let php = config.sites[3].php.as_ref().unwrap();
    assert_eq!(php.ini_file.as_deref(), Some(&*at("sites/b.ini")));
    let files = ["sites/a.toml", "sites/extra/x.toml", "sites/b.toml", "more/1.toml"];
    assert_eq!(config.include.files, files.map(at));
    assert_eq!(config.include.patterns, ["sites/*.toml", "more/?.toml"]);
}

#[test]
fn a_mistake_is_shown_in_the_file_that_has_it() {
    let found = mistakes(&[
        (
            "howdah.toml",
            "include = \"sites/*\"\nthreads = 0\n[[site]]\nhosts = \"a\"\nroot = \"/a\"\n",
        ),
        ("sites/a.toml", "listen = \":80\"\nbogus = 1\n[[site]]\n"),
        ("sites/b.toml", "[[site]\n"),
        ("sites/c.toml", "[[site]]\nroot = \"/c\"\nwrong = 1\n"),
    ]);
    let expected = [
        "howdah.toml:2:11: 0 is too small",
        "sites/a.toml:1:1: `listen` in an included file",
        "sites/a.toml:2:1: `bogus` in an included file",
        "sites/a.toml:3:1: the site has no root",
        "sites/c.toml:3:1: unknown key `wrong` in [[site]]",
    ];
    let (broken, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|line| line.starts_with("sites/b.toml:1:"));
    assert!(broken.iter().any(|line| line.contains("this is not TOML")), "{broken:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} instead of {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn certificates_are_ordered_for_sites_of_included_files() {
    let acme = "listen = \":443\"\ninclude = \"sites/*\"\n[acme]\nterms_agreed = true\n";
    let first = "[[site]]\nhosts = \"a.example\"\nroot = \"/a\"\n\
                 [[site]]\nhosts = \"b.example\"\nroot = \"/b\"\ntls = false\n";
    let second = "[[site]]\nhosts = \"c.example\"\nroot = \"/c\"\ntls = \"internal\"\n\
                  [[site]]\nhosts = \"d.example\"\nroot = \"/d\"\n\
                  [[site]]\nroot = \"/e\"\n";
    let files = [("howdah.toml", acme), ("sites/1.toml", first), ("sites/2.toml", second)];
    let config = load(&files).1.unwrap();
    let sources: Vec<_> = config.sites.iter().map(|site| site.tls.source).collect();
    let (auto, none) = (CertificateSource::Auto, CertificateSource::Files);
    assert_eq!(sources, [auto, none, CertificateSource::Internal, auto, none]);
}

#[test]
fn mistakes_about_orders_are_shown_in_the_file_that_has_them() {
    let auto = "[[site]]\nhosts = \"a.example\"\nroot = \"/a\"\ntls = \"auto\"\n";
    let found = mistakes(&[
        (
            "howdah.toml",
            "listen = \":443\"\ninclude = \"1.toml\"\n[acme]\nchallenges = [\"dns-01\"]\n",
        ),
        ("1.toml", auto),
    ]);
    assert!(
        found[0].starts_with("howdah.toml:3:1: certificates can be ordered only"),
        "{found:#?}"
    );
    assert!(found[1].starts_with("howdah.toml:4:14: `dns-01` without"), "{found:#?}");
    assert!(found[2].starts_with("1.toml:4:7: certificates can be ordered only"), "{found:#?}");
    assert_eq!(found.len(), 3, "{found:#?}");
    let found = mistakes(&[
        ("howdah.toml", "include = \"1.toml\"\n[[site]]\nroot = \"/r\"\n"),
        ("1.toml", "[acme]\nterms_agreed = true\n"),
    ]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("1.toml:1:2: `acme` in an included file"), "{found:#?}");
}

#[test]
fn sites_of_several_files_do_not_contradict_each_other() {
    let found = mistakes(&[
        ("howdah.toml", "include = [\"1.toml\", \"2.toml\"]\n"),
        ("1.toml", "[[site]]\nname = \"shop\"\nhosts = \"a\"\nroot = \"/a\"\n"),
        (
            "2.toml",
            "[[site]]\nname = \"shop\"\nhosts = [\"b\", \"a\"]\nroot = \"/b\"\n[site.php]\n\
             user = \"howdah\"\n",
        ),
    ]);
    assert_eq!(
        found,
        [
            "2.toml:2:8: two sites are called `shop`; the first is at 1.toml:1",
            "2.toml:3:15: the host `a` is listed twice; first at 1.toml:3",
            "2.toml:6:8: the pool of site shop would run as howdah, the front's user",
        ]
    );
}

#[test]
fn files_that_cannot_be_included() {
    let main = |include: &str| format!("include = {include}\n[[site]]\nroot = \"/\"\n");
    type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str);
    let rows: [Row<'_>; 6] = [
        ("\"none.toml\"", &[], "howdah.toml:1:11: there is no file `none.toml`"),
        ("\"sites\"", &[("sites/a.toml", "")], "howdah.toml:1:11: sites cannot be read: "),
        (
            "[\"a.toml\", \"?.toml\"]",
            &[("a.toml", "")],
            "howdah.toml:1:22: a.toml is included twice",
        ),
        ("\"howdah.toml\"", &[], "howdah.toml:1:11: howdah.toml includes itself"),
        (
            "\"a.toml\"",
            &[("a.toml", "include = \"b.toml\""), ("b.toml", "include = \"a.toml\"")],
            "b.toml:1:11: a.toml includes itself",
        ),
        ("5", &[], "howdah.toml:1:11: expected a path"),
    ];
    for (include, files, expected) in rows {
        let main = main(include);
        let all = [&[("howdah.toml", &*main)], files].concat();
        let found = mistakes(&all);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{include}: {found:?}");
    }
    let names: Vec<String> = (0..12).map(|number| format!("{number}.toml")).collect();
    let texts: Vec<String> = (1..13).map(|next| format!("include = \"{next}.toml\"")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (&**name, &**text)).collect();
    let main = main("\"0.toml\"");
    files.push(("howdah.toml", &main));
    let found = mistakes(&files);
    assert_eq!(found, ["7.toml:1:11: more than 8 files include each other in turn"]);
}

#[test]
fn a_pattern_may_match_nothing() {
    let (_, config) =
        load(&[("howdah.toml", "include = \"sites/*.toml\"\n[[site]]\nroot = \"/\"\n")]);
    assert!(config.unwrap().include.files.is_empty());
    assert!(Config::load(Path::new("/none/howdah.toml")).is_err());
}
