//! The document roots of a plan.

use howdah_config::{RootTemplate, SiteSettings, Symlinks};
use howdah_sys::credentials::Identity;

use super::{PlanFinder, may_enter};

impl PlanFinder<'_> {
    /// Warns about a root that is missing or that the front may not enter. Such a site answers with
    /// 404 or 403.
    pub(super) fn look_at_root(&mut self, site: &SiteSettings, front: Option<&Identity>) {
        let RootTemplate::Fixed(root) = &site.root else {
            return;
        };
        let name = &site.name;
        match root.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {} is not a folder", root.display()));
            }
            Err(error) => {
                return self
                    .warnings
                    .push(format!("site {name}: its root {}: {error}", root.display()));
            }
        }
        if site.symlinks != Symlinks::Follow
            && let Ok(Some(link)) = howdah_files::foreign_root_link(root)
        {
            self.warnings.push(format!(
                "site {name}: every request will be refused (403), because the link {} belongs \
                 neither to root nor to the owner of the folder that it leads to: change the \
                 link's owner with `chown -h`, or set `symlinks = \"follow\"`",
                link.display()
            ));
        }
        let Some(front) = front else { return };
        let real = root.canonicalize().unwrap_or_else(|_| root.clone());
        let closed = real
            .ancestors()
            .find(|folder| folder.metadata().is_ok_and(|found| !may_enter(front, &found)));
        if let Some(closed) = closed {
            let who = &front.name;
            self.warnings.push(format!(
                "site {name}: {who}, as whom the front runs, may not enter {}: requests for files \
                 of the site will be refused; `chmod a+x` it, or serve from elsewhere",
                closed.display()
            ));
        }
    }
}
