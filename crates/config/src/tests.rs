mod defaults;
mod every_key;
mod includes;
mod mistakes;
mod refused_values;
mod sites;

use super::*;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

fn parse(text: &str) -> Config {
    Config::parse(text, "howdah.toml").unwrap_or_else(|errors| panic!("{errors}\nin\n{text}"))
}

#[test]
fn an_unreadable_file_is_named() {
    let missing = Config::load(Path::new("/nonexistent/howdah.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/howdah.toml: cannot be read: "), "{missing}");
}

#[test]
fn every_example_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            seen += 1;
        }
    }
    assert!(seen >= 5);
}

#[test]
fn the_example_in_the_manual_page_is_good() {
    let page = include_str!("../../../docs/howdah.toml.5");
    let example = page.split(".nf\n").nth(1).and_then(|rest| rest.split(".fi").next()).unwrap();
    let site = &parse(example).sites[0];
    assert!(site.tls.is_on(), "{site:?}");
}

#[test]
fn the_example_in_the_manual_is_good() {
    let manual = reference::markdown();
    let block = manual
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    assert_eq!(parse(block).sites.len(), 1);
}
