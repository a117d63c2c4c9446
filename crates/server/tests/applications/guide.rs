//! The configurations in docs/moving-a-site.md. The applications are tested with them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::{Folder, Setup};

const GUIDE: &str = include_str!("../../../../docs/moving-a-site.md");

/// Returns the first configuration under `heading`, for every host and with the document root
/// `root`. It ends with the site's `[site.php]`.
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
    // No test of an application provokes these limits, and a busy machine may.
    let limits = "request_timeout = \"5m\"\nqueue_timeout = \"5m\"";
    format!("{text}workers = 4\nstate_dir = \"@folder@/state\"\n{limits}\n")
}

/// Returns the first commands under `heading`.
pub(crate) fn commands(heading: &str) -> String {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("```toml\n").skip(1);
    rests.map(|rest| rest.split_once("```").unwrap().0)
}

#[test]
fn every_configuration_of_the_guide_is_good() {
    let folder = Folder::new();
    // `howdah check` looks for howdah-php and does not run it: the guide is good whether or not
    // howdah-php has been built.
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("howdah-php"), "").unwrap();
    fs::set_permissions(programs.join("howdah-php"), Permissions::from_mode(0o755)).unwrap();
    let programs = programs.display().to_string();
    assert!(blocks(GUIDE).count() >= 4);
    for block in blocks(GUIDE) {
        fs::write(folder.path().join("howdah.toml"), block).unwrap();
        let file = folder.path().join("howdah.toml").display().to_string();
        let (status, output, errors) =
            Setup::with(&["check", "--config", &file]).environment("PATH", &programs).run();
        assert_eq!(status, Some(0), "{block}\n{output}{errors}");
    }
}
