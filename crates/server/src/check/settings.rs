//! Settings that a server starts with, and that do nothing or more than is meant.

use std::path::Path;

use howdah_config::{Config, SiteSettings};

use crate::front::media_types;
use crate::supervisor::survey::{PathState, SurveyAnswers};

/// Returns a warning for each doubtful setting.
pub(crate) fn doubts(config: &Config) -> Vec<String> {
    let networks = config.trusted_proxies.networks.iter();
    let mut warnings: Vec<String> = networks
        .filter(|network| network.is_everyone())
        .map(|network| {
            format!(
                "`trusted_proxies` has {network}: every client can say that it has another \
                 address; name the networks of your proxies"
            )
        })
        .collect();
    warnings.extend(media_types::obstacle(config));
    let folders: Vec<_> = config.sites.iter().flat_map(folders).collect();
    let paths: Vec<_> = folders.iter().map(|(_, _, path)| path.to_path_buf()).collect();
    let answers = SurveyAnswers::ask(&paths);
    for (site, key, path) in folders {
        let why = match answers.of(path).map(|answer| &answer.state) {
            Some(PathState::Other) => "it is no folder",
            Some(PathState::Missing(why) | PathState::Failed(why)) => why,
            Some(PathState::Folder | PathState::Silent) | None => continue,
        };
        let path = path.display();
        warnings
            .push(format!("site {site}: `{key}` has {path}: {why}; no file is sent from there"));
    }
    warnings
}

/// Returns the folders from which scripts may have files sent: the site, the key and the path.
fn folders(site: &SiteSettings) -> impl Iterator<Item = (&str, &'static str, &Path)> {
    let roots = site.sendfile_roots.iter().map(|path| ("sendfile_roots", path));
    let accel = site.accel.iter().map(|(_, path)| ("accel", path));
    roots.chain(accel).map(|(key, path)| (&*site.name, key, &**path))
}
