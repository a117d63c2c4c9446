//! Document roots behind symbolic links, which deployments change: `current -> releases/7`.
//!
//! PHP's caches know files by the path with the link, and would mix two releases. Therefore a new
//! generation, with empty caches, serves the new release. The supervisor compares the links with
//! the disk once a second.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use howdah_config::{Config, RootTemplate};

use super::Supervisor;
use super::change::ChangeCause;
use crate::log::Level;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The document roots that links lead to, as they were at the last look.
#[derive(Debug, Default)]
pub(super) struct Releases {
    sites: Vec<Release>,
    /// The time of the next look; `None` if there are no links.
    due: Option<Instant>,
}

/// The document root of a site with PHP.
#[derive(Debug)]
struct Release {
    site: String,
    /// As configured.
    root: PathBuf,
    /// The folder that the links lead to.
    real: PathBuf,
}

impl Releases {
    /// The document roots of `config` whose paths have links, as they are now.
    pub(super) fn of(config: &Config) -> Releases {
        let release = |site: &howdah_config::Site| {
            let RootTemplate::Fixed(root) = &site.root else {
                return None;
            };
            let real = fs::canonicalize(root).ok().filter(|real| real != root)?;
            site.php.as_ref()?;
            Some(Release {
                site: site.name.clone(),
                root: root.clone(),
                real,
            })
        };
        let sites: Vec<_> = config.sites.iter().filter_map(release).collect();
        let due = (!sites.is_empty()).then(|| Instant::now() + LOOK);
        Releases { sites, due }
    }

    /// The time of the next look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks at the links if it is time. Returns the sites whose links lead to other folders now,
    /// and what to say about each. A link that is missing for a moment has not changed.
    fn look(&mut self, now: Instant) -> Vec<(String, String)> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = Some(now + LOOK);
        let changed = self.sites.iter_mut().filter_map(|release| {
            let real = fs::canonicalize(&release.root).ok().filter(|real| *real != release.real)?;
            let what = format!(
                "{} leads to {} now, no longer to {}: a new generation serves it",
                release.root.display(),
                real.display(),
                release.real.display()
            );
            release.real = real;
            Some((release.site.clone(), what))
        });
        changed.collect()
    }
}

impl Supervisor {
    /// Starts a new generation if a site has a new release.
    pub(super) fn look_at_releases(&mut self, now: Instant) {
        if self.stopping || self.change.is_some() {
            return;
        }
        let changed = self.releases.look(now);
        for (site, what) in &changed {
            self.say_of(Level::Notice, site, what);
        }
        if !changed.is_empty() {
            self.begin(ChangeCause::NewRelease);
        }
    }
}
