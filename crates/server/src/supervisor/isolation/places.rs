//! The places of sites: which folders belong to which site, where links and hosts are many.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use howdah_config::{Config, SiteSettings, Symlinks};

use super::super::survey::{PathState, SurveyAnswers, written_root};
use super::system_folders::SHARED;

/// The document root of a site, or the folder that holds the roots of its hosts.
///
/// `None` if somebody's link leads the path to a folder of another user, or of another site: the
/// link's owner could open any folder to the own pool, and close it to those of other sites. With
/// `symlinks = "follow"` such a root counts, unless the folder is root's.
pub(super) fn root_of(site: &SiteSettings, answers: &SurveyAnswers) -> Option<PathBuf> {
    let found = answers.of(written_root(site)).filter(|found| found.is_found())?;
    let is_vouched_for = site.symlinks == Symlinks::Follow && found.owner != 0;
    (found.refused_link().is_none() || is_vouched_for).then(|| found.real.clone())
}

/// The place of a site's document root.
#[derive(Debug, Clone)]
pub(super) struct RootPlace {
    /// The site's number.
    pub(super) site: usize,
    /// The path that [`root_of`] returns. If the site's file system hangs: the path where it hangs,
    /// because the folders below cannot be read.
    pub(super) root: PathBuf,
    /// The value of [`PathAnswer::laid`](super::super::survey::PathAnswer::laid).
    pub(super) laid: PathBuf,
    /// The value of [`PathAnswer::link_folders`](super::super::survey::PathAnswer::link_folders).
    pub(super) link_folders: Vec<PathBuf>,
}

/// The folders of sites, by the site's number.
#[derive(Debug, Clone)]
pub(super) struct TakenPlaces {
    /// Roots and state folders.
    places: Vec<(usize, PathBuf)>,
    /// Roots as the configuration has them.
    written: Vec<(usize, PathBuf)>,
    /// Folders above roots.
    above: Vec<(usize, PathBuf)>,
}

impl RootPlace {
    /// `None` as for [`root_of`].
    pub(super) fn of(
        (config, site): (&Config, usize),
        answers: &SurveyAnswers,
    ) -> Option<RootPlace> {
        let settings = &config.sites[site];
        let written = written_root(settings);
        let root = root_of(settings, answers).or_else(|| silent_place(written, answers))?;
        let found = answers.of(written)?;
        Some(RootPlace {
            site,
            root,
            laid: found.laid.clone(),
            link_folders: found.link_folders(),
        })
    }

    /// The folders where frameworks keep their code and settings: the one above the root, and those
    /// of the links on the way, which have the releases and what all of these share. Left out are
    /// folders that belong to the whole machine, in which everybody may write, or that have folders
    /// of other sites in them.
    pub(super) fn application(&self, taken: &TakenPlaces, answers: &SurveyAnswers) -> Vec<PathBuf> {
        let above = self.above(taken, answers);
        let links = self.link_folders.iter().map(PathBuf::as_path);
        let links = links.filter(|folder| {
            let has_root = self.root.starts_with(folder) || self.laid.starts_with(folder);
            !taken.has_others(self, folder)
                && !taken.has_others_written(self, folder)
                && (has_root || !taken.is_of_others(self, folder))
                && !is_open(folder, answers)
        });
        let folders = above.into_iter().chain(links);
        folders.map(Path::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn above(&self, taken: &TakenPlaces, answers: &SurveyAnswers) -> Option<&Path> {
        let above = self.root.parent()?;
        (!taken.has_others(self, above) && !is_open(above, answers)).then_some(above)
    }
}

impl TakenPlaces {
    /// The places of all sites, also as root has laid the paths to them.
    pub(super) fn of(
        config: &Config,
        states: &[Option<PathBuf>],
        answers: &SurveyAnswers,
    ) -> TakenPlaces {
        let mut taken = TakenPlaces::laid(config, states, answers);
        for (site, state) in states.iter().enumerate() {
            let root = RootPlace::of((config, site), answers).map(|place| place.root);
            let state = state.as_deref().and_then(|state| place_of(state, answers));
            taken.places.extend(root.into_iter().chain(state).map(|path| (site, path)));
        }
        let roots = (0..states.len()).filter_map(|site| RootPlace::of((config, site), answers));
        let above = roots.filter_map(|it| Some((it.site, it.above(&taken, answers)?.to_owned())));
        taken.above = above.collect();
        taken
    }

    /// The places of all sites as root has laid the paths to them.
    pub(super) fn laid(
        config: &Config,
        states: &[Option<PathBuf>],
        answers: &SurveyAnswers,
    ) -> TakenPlaces {
        let sites = || config.sites.iter().enumerate();
        let written = sites().zip(states).flat_map(|((number, site), state)| {
            [Some(written_root(site)), state.as_deref()].map(|path| (number, path))
        });
        let laid = written.filter_map(|(number, path)| Some((number, answers.of(path?)?)));
        TakenPlaces {
            places: laid.map(|(number, found)| (number, found.laid.clone())).collect(),
            written: sites().map(|(site, it)| (site, written_root(it).to_owned())).collect(),
            above: Vec::new(),
        }
    }

    /// The places of sites that do not have the root of `place`.
    fn others(&self, place: &RootPlace) -> impl Iterator<Item = &Path> {
        let others = self.places.iter().filter(|(site, path)| {
            *site != place.site && *path != place.root && *path != place.laid
        });
        others.map(|(_, path)| path.as_path())
    }

    /// Returns whether places of others are in `folder`.
    fn has_others(&self, place: &RootPlace, folder: &Path) -> bool {
        self.others(place).any(|other| other.starts_with(folder))
    }

    /// Returns whether the configuration puts roots of others into `folder`.
    fn has_others_written(&self, place: &RootPlace, folder: &Path) -> bool {
        let shares = |other: usize| {
            let mut places = self.places.iter().filter(|(site, _)| *site == other);
            places.any(|(_, path)| *path == place.root || *path == place.laid)
        };
        let mut written = self.written.iter().filter(|(_, path)| path.starts_with(folder));
        written.any(|(site, _)| *site != place.site && !shares(*site))
    }

    /// Returns whether `folder` is in a place of others, or in the folder above it.
    fn is_of_others(&self, place: &RootPlace, folder: &Path) -> bool {
        let mut above = self.above.iter().filter(|(site, _)| *site != place.site);
        above.any(|(_, above)| folder.starts_with(above))
            || self.others(place).any(|other| folder.starts_with(other))
    }

    /// The same with further places of a site.
    pub(super) fn with(&self, site: usize, paths: &[PathBuf]) -> TakenPlaces {
        let further = paths.iter().map(|path| (site, path.clone()));
        TakenPlaces {
            places: self.places.iter().cloned().chain(further).collect(),
            ..self.clone()
        }
    }
}

/// Returns whether a folder belongs to the whole machine, or everybody may write there.
fn is_open(folder: &Path, answers: &SurveyAnswers) -> bool {
    SHARED.iter().any(|shared| folder == Path::new(shared))
        || answers.rights(folder).is_some_and(|rights| rights.mode & 0o002 != 0)
}

/// Returns the path of [`trusted`], or else the path where the file system hangs. `None`: there is
/// neither.
pub(super) fn place_of(path: &Path, answers: &SurveyAnswers) -> Option<PathBuf> {
    trusted(path, answers).or_else(|| silent_place(path, answers))
}

fn silent_place(path: &Path, answers: &SurveyAnswers) -> Option<PathBuf> {
    let found = answers.of(path).filter(|found| found.state == PathState::Silent)?;
    Some(found.real.clone())
}

/// Returns the path without symbolic links, as far as it exists. `None` as for [`root_of`].
pub(super) fn trusted(path: &Path, answers: &SurveyAnswers) -> Option<PathBuf> {
    let found = answers.of(path).filter(|found| found.is_found())?;
    found.refused_link().is_none().then(|| found.real.clone())
}
