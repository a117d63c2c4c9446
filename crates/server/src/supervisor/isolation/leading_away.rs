//! The paths of the configuration that somebody's link leads into the folders of another site.
//!
//! The pools of several sites may have one user. Then a link to a folder of another site has the
//! owner of the folder, and its owner alone does not tell who made it. A site can exchange its own
//! document root, a folder above it, or a link of a release for such a link.
//!
//! A link of root's is the administrator's decision. Behind another one, a path counts as its
//! site's only where it does not meet what others have:
//!
//! 1. the folders that a path without such links leads to are their site's in any case;
//! 2. of two paths behind such links, the one that stays in the folder of its link is right, and of
//!    two such ones the one whose link is in the inner folder. Where neither stays, neither counts.
//!
//! Paths within each other in the configuration, and links in one folder, belong together.

use std::path::{Path, PathBuf};

use howdah_config::{Config, SiteSettings, Symlinks};

use super::places::{RootPlace, TakenPlaces};
use crate::supervisor::survey::{PathAnswer, SurveyAnswers, named_paths, written_root};

/// Notes in `answers` which paths do not count. `states` are the state folders, by site.
pub(crate) fn note(config: &Config, states: &[Option<PathBuf>], answers: &mut SurveyAnswers) {
    answers.note_other_sites(Vec::new());
    let sites = || config.sites.iter().zip(states).enumerate();
    let has_link = |path: &Path| answers.of(path).is_some_and(|it| it.first_link.is_some());
    let named = |site: &SiteSettings, state: &Option<PathBuf>| {
        let mut paths = named_paths(site, state.as_deref());
        paths.retain(|path| has_link(path));
        paths
    };
    if sites().all(|(_, (site, state))| named(site, state).is_empty()) {
        return;
    }
    let laid = TakenPlaces::laid(config, states, answers);
    let claims: Vec<FolderClaim> = sites()
        .flat_map(|(number, (site, state))| {
            let root = FolderClaim::of_root(number, site, &laid, answers);
            let state = state.as_deref().and_then(|state| FolderClaim::of(number, state, answers));
            root.into_iter().chain(state)
        })
        .collect();
    let mut leading = Vec::new();
    for (number, (site, state)) in sites() {
        for path in named(site, state) {
            let Some(way) = answers.of(&path).and_then(FollowedPath::of) else {
                continue;
            };
            let others = claims.iter().filter(|claim| claim.site != number);
            if let Some(other) = others.into_iter().find(|claim| claim.refuses(&way)) {
                leading.push((path, config.sites[other.site].name.clone()));
            }
        }
    }
    answers.note_other_sites(leading);
}

/// The way of a path that could be followed.
#[derive(Debug, Clone)]
struct FollowedPath {
    real: PathBuf,
    laid: PathBuf,
    /// The folder of the first link that is not root's.
    link_folder: Option<PathBuf>,
}

/// A root or a state folder of a site.
#[derive(Debug)]
struct FolderClaim {
    site: usize,
    way: FollowedPath,
    /// The folders that belong to a root: the one above, or those of the links on the way.
    around: Vec<PathBuf>,
    /// Whether the site's links are followed wherever they lead.
    is_followed: bool,
}

impl FollowedPath {
    fn of(found: &PathAnswer) -> Option<FollowedPath> {
        let link_folder = found.first_link.as_ref().and_then(|link| link.parent());
        found.is_found().then(|| FollowedPath {
            real: found.real.clone(),
            laid: found.laid.clone(),
            link_folder: link_folder.map(Path::to_owned),
        })
    }

    /// The folder of the link that the path stays in.
    fn home(&self) -> Option<&Path> {
        self.link_folder.as_deref().filter(|folder| self.real.starts_with(folder))
    }

    /// Returns whether the path leads into `folder` or above it.
    fn meets(&self, folder: &Path) -> bool {
        self.real.starts_with(folder) || folder.starts_with(&self.real)
    }

    /// Returns whether the configuration puts the path into the folder `real`, which it calls
    /// `laid`, and the path's own link does not lead further; or the folder into what the path
    /// leads to.
    fn is_meant(&self, real: &Path, laid: &Path) -> bool {
        let stays = || self.home().is_some_and(|home| home.starts_with(real));
        laid.starts_with(&self.laid) || self.laid.starts_with(laid) && stays()
    }
}

impl FolderClaim {
    fn of(site: usize, path: &Path, answers: &SurveyAnswers) -> Option<FolderClaim> {
        let found = answers.of(path).filter(|found| found.refused_link().is_none())?;
        let way = FollowedPath::of(found).or_else(|| {
            // It hangs there.
            let place = found.real.clone();
            Some(FollowedPath {
                laid: place.clone(),
                real: place,
                link_folder: None,
            })
        })?;
        Some(FolderClaim {
            site,
            way,
            around: Vec::new(),
            is_followed: false,
        })
    }

    fn of_root(
        number: usize,
        site: &SiteSettings,
        laid: &TakenPlaces,
        answers: &SurveyAnswers,
    ) -> Option<FolderClaim> {
        let claim = FolderClaim::of(number, written_root(site), answers)?;
        let found = answers.of(written_root(site))?;
        let place = RootPlace {
            site: number,
            root: found.first_link.clone().unwrap_or_else(|| claim.way.real.clone()),
            laid: claim.way.laid.clone(),
            link_folders: found.link_folders(),
        };
        Some(FolderClaim {
            around: place.application(laid, answers),
            is_followed: site.symlinks == Symlinks::Follow,
            ..claim
        })
    }

    /// Returns whether a path of another site, with a link on the way, may not lead where it does
    /// because of this claim.
    fn refuses(&self, other: &FollowedPath) -> bool {
        let around = || self.around.iter().map(|around| (&**around, &**around));
        let folders = || [(&*self.way.real, &*self.way.laid)].into_iter().chain(around());
        let is_met = folders().any(|(real, _)| other.meets(real));
        if !is_met || folders().any(|(real, laid)| other.is_meant(real, laid)) {
            return false;
        }
        let Some(link_folder) = &self.way.link_folder else {
            return true;
        };
        if other.link_folder.as_ref() == Some(link_folder) {
            return false;
        }
        match (self.way.home(), other.home()) {
            (Some(own), Some(other)) => own.starts_with(other),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // A site with such links has what it leads to, but takes it from nobody.
            (None, None) => !self.is_followed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;
    use crate::supervisor::survey::paths_of;

    type LayoutRow =
        (&'static [(&'static str, &'static str)], &'static [&'static str], &'static [usize]);

    /// Each row: links with their targets, those that begin with `!` being root's;
    /// the roots of the sites; the numbers of the sites whose roots do not count.
    const ROWS: &[LayoutRow] = &[
        (&[("a/current", "releases/1")], &["a/current", "b/public"], &[]),
        // Another site's root, a folder in it, the folder above it, one beside it, above both.
        (&[("a/current", "../b/public")], &["a/current", "b/public"], &[0]),
        (&[("a/current", "../b/public/x")], &["b/public", "a/current"], &[1]),
        (&[("a/current", "../b")], &["a/current", "b/public"], &[0]),
        (&[("a/current", "../b/data")], &["a/current", "b/public"], &[0]),
        (&[("a/current", "..")], &["a/current", "b/public"], &[0]),
        // The link is in the middle, and follows another one.
        (&[("a/current", "l"), ("a/l", "../b")], &["a/current/public", "b/public"], &[0]),
        (&[("!a/current", "../b/public")], &["a/current", "b/public"], &[]),
        (&[("!a/l", "../b/current"), ("b/current", "releases/1")], &["a/l", "b/current"], &[]),
        // A way over root's link to one of the other site.
        (&[("!a/l", "../b/x"), ("b/x", "../c/public")], &["a/l", "b/public", "c/public"], &[0]),
        // Beside the releases, where a link of root's or of the site leads to one of these.
        (&[("!a/current", "releases/1"), ("b/current", "../a/shared")], &A_AND_B, &[1]),
        (&[("a/current", "releases/1"), ("b/current", "../a/shared")], &A_AND_B, &[1]),
        (&[("!a/x", "../c/1"), ("b/current", "../a/shared")], &["a/x", "b/current"], &[1]),
        // Releases of both, in the folders of the links and in a common one.
        (&[("a/current", "../b/releases/1"), ("b/current", "releases/1")], &A_AND_B, &[0]),
        (&[("a/current", "../b/releases/2"), ("b/current", "releases/1")], &A_AND_B, &[0]),
        (&[("a/current", "../b/releases/1"), ("b/current", "../a/releases/1")], &A_AND_B, &[0, 1]),
        (&[("a/current", "../c/1"), ("b/current", "../c/2")], &A_AND_B, &[]),
        (&[("a/current", "../c/1"), ("b/current", "../c/1")], &A_AND_B, &[0, 1]),
        (&[("a/current", "../c/1/x"), ("b/current", "../c/1")], &A_AND_B, &[0, 1]),
        // Paths that the configuration puts into one folder, or at one place.
        (&[("a/current", "releases/1"), ("a/next", "releases/1")], &["a/current", "a/next"], &[]),
        (&[("a/current", "releases/1")], &["a/current", "a/current"], &[]),
        (&[("a/current", "releases/1")], &["a/current", "a/current/x"], &[]),
        (&[("a/current", "releases/1")], &["a/current/x", "a/current/y"], &[]),
        (&[("b/public/x/current", "releases/1")], &["b/public", "b/public/x/current"], &[]),
        (&[("b/public/x/current", "../y")], &["b/public", "b/public/x/current"], &[1]),
    ];

    const A_AND_B: [&str; 2] = ["a/current", "b/current"];

    const FOLDERS: [&str; 11] = [
        "a/releases/1/x",
        "a/releases/1/y",
        "b/public/x/releases/1",
        "b/public/y",
        "b/data",
        "b/releases/1",
        "b/releases/2",
        "c/public",
        "c/1/x",
        "c/2",
        "states",
    ];

    #[test]
    fn a_link_of_a_site_leads_its_root_into_no_folder_of_another() {
        if !howdah_sys::credentials::Identity::current().unwrap().is_root() {
            return;
        }
        let top = std::env::temp_dir().join(format!("howdah-away-{}", std::process::id()));
        for (number, (links, roots, expected)) in ROWS.iter().enumerate() {
            let place = top.join(number.to_string());
            for folder in FOLDERS {
                fs::create_dir_all(place.join(folder)).unwrap();
            }
            let place = place.canonicalize().unwrap();
            give(&place);
            for (link, target) in *links {
                let path = place.join(link.trim_start_matches('!'));
                symlink(target, &path).unwrap();
                lchown(&path, Some(if link.starts_with('!') { 0 } else { 7 }), None).unwrap();
            }
            let mut text = String::new();
            for (number, root) in roots.iter().enumerate() {
                text.push_str(&format!(
                    "[[site]]\nname = \"{number}\"\nhosts = [\"{number}.example\"]\n\
                     root = \"{}\"\n[site.php]\n",
                    place.join(root).display()
                ));
            }
            let config = Config::parse(&text, "/howdah.toml").unwrap();
            let states: Vec<_> = (0..roots.len())
                .map(|number| Some(place.join(format!("states/{number}"))))
                .collect();
            let mut answers = SurveyAnswers::ask(&paths_of(&config, &states));
            // Earlier notes are forgotten.
            answers.note_other_sites(vec![(place.join(roots[0]), "former".to_owned())]);
            note(&config, &states, &mut answers);
            let refused: BTreeSet<usize> = (0..roots.len())
                .filter(|site| {
                    let found = answers.of(&place.join(roots[*site])).unwrap();
                    assert!(found.is_found());
                    found.refused_link().is_some()
                })
                .collect();
            assert_eq!(refused, expected.iter().copied().collect(), "{links:?} {roots:?}");
        }
        fs::remove_dir_all(&top).unwrap();
    }

    /// Gives a folder and what is in it to a site.
    fn give(folder: &Path) {
        lchown(folder, Some(7), None).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}
