//! The folders of each site, into which links of other sites do not lead the front.

use std::path::{Path, PathBuf};

use howdah_config::{Config, RootTemplate, SiteSettings};
use howdah_files::{RootName, SiteFolders};

use super::files::{application, place, root_or_place};
use crate::supervisor::survey::{SurveyAnswers, paths_of};

/// Returns the folders of all sites: those that the sandbox closes to other sites' pools. `states`
/// are the state folders of the pools, by site.
pub(crate) fn of(
    config: &Config,
    states: &[Option<PathBuf>],
    answers: &SurveyAnswers,
) -> SiteFolders {
    let roots: Vec<_> = config.sites.iter().map(|site| root_or_place(site, answers)).collect();
    let known: Vec<PathBuf> = roots.iter().flatten().cloned().collect();
    let mut folders = SiteFolders::default();
    for ((site, root), state) in config.sites.iter().zip(&roots).zip(states) {
        let above = root.as_ref().and_then(|root| application(root, &known, answers));
        let state = state.as_deref().and_then(|state| place(state, answers));
        let own: Vec<PathBuf> = root.iter().cloned().chain(above).chain(state).collect();
        for name in names(site) {
            own.iter().for_each(|folder| folders.add(folder.clone(), name.clone()));
        }
    }
    folders
}

/// As [`of`], asks the disk. The state folders, to which hardly a link leads, are left out.
pub(crate) fn of_config(config: &Config) -> SiteFolders {
    let states = vec![None; config.sites.len()];
    of(config, &states, &SurveyAnswers::ask(&paths_of(config, &states)))
}

/// The folders of a site from which files are sent.
fn names(site: &SiteSettings) -> impl Iterator<Item = RootName> {
    let root = match &site.root {
        RootTemplate::Fixed(path) => RootName::Is(path.clone()),
        RootTemplate::PerHost { before, .. } => RootName::Begins(Path::new(before).to_owned()),
    };
    let listed = site.sendfile_roots.iter().chain(site.accel.iter().map(|(_, folder)| folder));
    [root].into_iter().chain(listed.cloned().map(RootName::Is))
}
