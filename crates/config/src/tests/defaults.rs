//! Keys that are left out.

use super::*;

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse("[[site]]\nroot = \"/srv\"");
    let expected = Config {
        sites: vec![SiteSettings {
            name: "default".into(),
            root: RootTemplate::Fixed("/srv".into()),
            ..SiteSettings::default()
        }],
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\nphp = true").sites[0].php, Some(Php::default()));
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\n[site.php]").sites[0].php, Some(Php::default()));
    assert_eq!(parse("[[site]]\nroot = \"/srv\"\nphp = false").sites[0].php, None);
}

#[test]
fn defaults_written_out_mean_the_same() {
    let mut text = String::new();
    for chapter in reference::chapters() {
        match chapter.heading.bytes().next() {
            // Tables of `listen` stand within its list.
            Some(first) if first != b'[' => continue,
            // Each such table is a rule or a lane more.
            _ if ["[[site.fields]]", "[[site.php.lane]]"].contains(&chapter.heading) => continue,
            _ => {}
        }
        if !chapter.heading.is_empty() {
            text += &format!("{}\n", chapter.heading);
        }
        for key in chapter.keys {
            let written =
                key.default.starts_with(['"', '[', '{']) || key.default.parse::<u64>().is_ok();
            match key.name {
                "root" => text += "root = \"/srv\"\n",
                // `[acme]` is refused without it.
                "terms_agreed" => text += "terms_agreed = true\n",
                // Refused without authorities of clients, which have no default.
                "client_verify" => {}
                name if written => text += &format!("{name} = {}\n", key.default),
                _ => {}
            }
        }
    }
    let short = "[acme]\nterms_agreed = true\n[[site]]\nroot = \"/srv\"";
    assert_eq!(parse(&text), parse(short), "{text}");
}

/// The values that the documentation of a key gives a meaning of their own: `"0s"`, 0 or `"off"`.
fn values_that_switch_off(key: &crate::section::Key) -> Vec<&'static str> {
    let words = [
        ("`\"0s\"` is ", "\"0s\""),
        ("; 0 is ", "0"),
        ("`0` is ", "0"),
        ("With 0 ", "0"),
        ("`\"off\"` is ", "\"off\""),
    ];
    let doc = key.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words.iter().filter(|(word, _)| doc.contains(word));
    said.map(|(_, value)| *value).collect()
}

#[test]
fn what_the_manual_offers_to_switch_a_limit_off_is_accepted() {
    let mut seen = Vec::new();
    for chapter in reference::chapters() {
        let site = chapter.heading.starts_with("[site") || chapter.heading.starts_with("[[site.");
        for key in &chapter.keys {
            for value in values_that_switch_off(key) {
                let before = if site { "[[site]]\nroot = \"/srv\"\n" } else { "" };
                let heading = chapter.heading;
                let after = if site { "" } else { "[[site]]\nroot = \"/srv\"\n" };
                let after = if heading == "[[site]]" {
                    "root = \"/srv\"\n"
                } else {
                    after
                };
                parse(&format!("{before}{heading}\n{} = {value}\n{after}", key.name));
                seen.push((key.name, value));
            }
        }
    }
    for expected in [("probation", "\"0s\""), ("slow_after", "\"0s\""), ("max_requests", "0")] {
        assert!(seen.contains(&expected), "{seen:?}");
    }
    assert!(seen.len() >= 10, "{seen:?}");
}
