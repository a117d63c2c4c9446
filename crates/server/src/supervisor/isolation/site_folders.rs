//! The folders of each site, into which links of other sites do not lead the front.

use std::path::{Path, PathBuf};

use howdah_config::{Config, RootTemplate, SiteSettings};
use howdah_files::{RootName, SiteFolders};

use super::leading_away;
use super::places::{RootPlace, TakenPlaces, place_of};
use crate::supervisor::survey::{SurveyAnswers, paths_of, written_root};

/// Returns the folders of all sites: those that the sandbox closes to other sites' pools. `states`
/// are the state folders of the pools, by site.
pub(crate) fn of(
    config: &Config,
    states: &[Option<PathBuf>],
    answers: &SurveyAnswers,
) -> SiteFolders {
    let roots: Vec<_> = (0..config.sites.len())
        .map(|site| RootPlace::of((config, site), answers))
        .collect();
    let taken = TakenPlaces::of(config, states, answers);
    let mut folders = SiteFolders::default();
    for ((site, root), state) in config.sites.iter().zip(&roots).zip(states) {
        let above = root.iter().flat_map(|root| root.application(&taken, answers));
        let state = state.as_deref().and_then(|state| place_of(state, answers));
        let root = root.iter().map(|place| place.root.clone());
        let own: Vec<PathBuf> = root.chain(above).chain(state).collect();
        for folder in own {
            // Somebody's link may have led to a file system that hangs.
            let is_certain = answers.silence(written_root(site)).is_none()
                || folder.starts_with(written_root(site))
                || written_root(site).starts_with(&folder);
            match is_certain {
                true => names(site).for_each(|name| folders.add(folder.clone(), name)),
                false => folders.close(folder),
            }
        }
    }
    for (site, place) in config.sites.iter().zip(&roots) {
        let Some(place) = place else { continue };
        names(site).take(1).for_each(|name| folders.add_around(&place.root, &name));
    }
    folders
}

/// Asks the disk for the folders of all sites, like [`of`]. The state folders are left out: links
/// to them are rare.
pub(crate) fn of_config(config: &Config) -> SiteFolders {
    let states = vec![None; config.sites.len()];
    let mut answers = SurveyAnswers::ask(&paths_of(config, &states));
    leading_away::note(config, &states, &mut answers);
    of(config, &states, &answers)
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
