//! The document roots of a plan.

use std::path::Path;

use howdah_config::{RootTemplate, SiteSettings, Symlinks};
use howdah_sys::credentials::Identity;

use super::{PlanFinder, may_enter};
use crate::supervisor::isolation::system_folders::is_of_system;
use crate::supervisor::releases::missing_root;
use crate::supervisor::survey::{PathState, written_root};

impl PlanFinder<'_> {
    /// Warns about a root, and about a state folder `state`, that every pool needs: it cannot be
    /// closed to the pools of other sites.
    pub(super) fn look_for_system_folders(&mut self, site: &SiteSettings, state: Option<&Path>) {
        let root = ("root", Some(written_root(site)));
        for (key, path) in [root, ("php.state_dir", state)] {
            let found = path.and_then(|path| self.answers.of(path));
            let Some(folder) = found.map(|found| &found.real).filter(|real| is_of_system(real))
            else {
                continue;
            };
            self.warnings.push(format!(
                "site {}: `{key}`: {} is a folder of the system, which every pool needs: it is not \
                 kept from other sites; give the site a folder of its own",
                site.name,
                folder.display()
            ));
        }
    }

    /// Warns about a root that is missing, that the front may not enter, or whose file system
    /// hangs. Such a site answers with 404 or 403, or late.
    pub(super) fn look_at_root(&mut self, site: &SiteSettings, front: Option<&Identity>) {
        let name = &site.name;
        if let Some(why) = self.answers.silence(written_root(site)) {
            let what = match &site.php {
                Some(_) => "; no new PHP starts for the site until it answers",
                None => "",
            };
            self.warnings.push(format!("site {name}: its root {why}{what}"));
            return;
        }
        let RootTemplate::Fixed(root) = &site.root else {
            return;
        };
        let Some(found) = self.answers.of(root) else {
            return;
        };
        match &found.state {
            PathState::Folder => {}
            PathState::Other => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {} is not a folder", root.display()));
            }
            PathState::Missing(_) => {
                let told = missing_root(root, found).map(|what| format!("site {name}: {what}"));
                return self.warnings.extend(told);
            }
            PathState::Failed(why) => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {}: {why}", root.display()));
            }
            PathState::Silent => return,
        }
        if site.symlinks != Symlinks::Follow
            && let Some((link, why)) = found.refused_link()
        {
            self.warnings.push(format!(
                "site {name}: every request will be refused (403), because the link {} {why}, or \
                 set `symlinks = \"follow\"`",
                link.display()
            ));
        }
        let Some(front) = front else { return };
        let closed = found.folders().find(|(_, rights)| !may_enter(front, *rights));
        if let Some((closed, _)) = closed {
            let who = &front.name;
            self.warnings.push(format!(
                "site {name}: {who}, as whom the front runs, may not enter {}: requests for files \
                 of the site will be refused; `chmod a+x` it, or serve from elsewhere",
                closed.display()
            ));
        }
    }
}
