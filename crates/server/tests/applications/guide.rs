//! The configurations that docs/moving-a-site.md gives. The applications are tested with these.

use std::fs;

use crate::support::{Folder, Setup};

const GUIDE: &str = include_str!("../../../../docs/moving-a-site.md");

/// The first configuration under `heading`, for whatever host and with another document root. Ends
/// in the site's `[site.php]`.
pub(crate) fn configuration(heading: &str, root: &str) -> String {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let block = blocks(section).next().unwrap();
    let about_the_site = block
        .lines()
        .filter(|line| !line.starts_with("listen") && !line.starts_with("hosts"));
    let moved = about_the_site.map(|line| match line.starts_with("root") {
        true => format!("root = \"{root}\"\n"),
        false => format!("{line}\n"),
    });
    let text: String = moved.collect();
    format!("{text}workers = 4\nstate_dir = \"@folder@/state\"\n")
}

fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("```toml\n").skip(1);
    rests.map(|rest| rest.split_once("```").unwrap().0)
}

#[test]
fn every_configuration_of_the_guide_is_good() {
    let folder = Folder::new();
    assert!(blocks(GUIDE).count() >= 4);
    for block in blocks(GUIDE) {
        fs::write(folder.path().join("howdah.toml"), block).unwrap();
        let file = folder.path().join("howdah.toml").display().to_string();
        let (status, output, errors) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, Some(0), "{block}\n{output}{errors}");
    }
}
