//! Document roots behind symbolic links, which deployments change: `current -> releases/7`.
//!
//! PHP's caches know files by the path with the link, and would mix two releases. Therefore a new
//! generation, with caches of its own, serves the new release. The links are compared with the disk
//! once a second.
//!
//! Changes of a site's link wait where they are many ([`ReleasePace`]), and where the generations
//! that former ones have retired still have requests
//! ([`has_retired_enough`](Supervisor::has_retired_enough)). Both are told. Meanwhile the former
//! release is served by its own path ([`HoldKind::Waiting`]).
//!
//! A new generation serves a site with PHP, too, when its root answers whose file system hung.

mod pace;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_config::{RootTemplate, SiteSettings, Symlinks};

use self::pace::ReleasePace;
use super::Supervisor;
use super::change::ChangeCause;
use super::generation_plan::GenerationPlan;
use super::held_releases::{HeldRelease, HoldKind};
use super::survey::{self, PathAnswer, PathState, Survey, SurveyAnswers, written_root};
use crate::log::Level;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The document roots that links lead to, as they were at the last look.
#[derive(Debug, Default)]
pub(super) struct Releases {
    sites: Vec<Release>,
    /// The time of the next look; `None` if there are no links.
    due: Option<Instant>,
    /// The look in progress.
    survey: Option<Survey>,
    /// The sites whose new releases the next generation is started for.
    announced: Vec<String>,
}

/// The document root of a site.
#[derive(Debug)]
struct Release {
    site: String,
    /// The path in the configuration.
    root: PathBuf,
    /// The folder that the links lead to. `None`: the root has not answered, or has led to none
    /// since the generation began.
    real: Option<PathBuf>,
    /// The folder that they led to when the generation began; `None` without PHP, and where that is
    /// refused.
    served: Option<PathBuf>,
    /// The reason why the root leads to no folder now.
    missing: Option<String>,
    /// A new release needs a new generation.
    has_php: bool,
    pace: ReleasePace,
    /// The folder that the links lead to, while that release has to wait.
    waiting: Option<PathBuf>,
    /// `served` is served, wherever the links lead.
    is_pinned: bool,
}

/// The reason why a release has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReleaseWait {
    /// The link has changed lately, and may change again at this time.
    Often(Instant),
    /// The generations that former changes have retired still have requests.
    Retired,
}

impl ReleaseWait {
    /// Returns whether the wait is no longer than it takes to notice a change.
    fn is_short(self, now: Instant) -> bool {
        matches!(self, ReleaseWait::Often(due) if due <= now + LOOK)
    }
}

/// A change of a site's root, to be told and perhaps served.
#[derive(Debug)]
struct RootNews {
    site: String,
    level: Level,
    what: String,
    /// A new generation has to serve the new release, or to keep the former one.
    change: Option<ChangeCause>,
}

impl Release {
    /// The release `refused` where `served` is to be served; `None` if both are the same.
    fn held(&self, served: PathBuf, refused: PathBuf) -> Option<HeldRelease> {
        (served != refused).then(|| HeldRelease {
            site: self.site.clone(),
            root: self.root.clone(),
            served,
            refused,
            why: String::new(),
            kind: HoldKind::Refused,
        })
    }

    /// The document root of a site in a plan; `None` if its path has no links, and has answered.
    fn of(site: &SiteSettings, plan: &GenerationPlan) -> Option<Release> {
        let GenerationPlan { answers, held, .. } = plan;
        let has_php = site.php.is_some();
        let of = |root: &Path, real: Option<PathBuf>, missing| Release {
            site: site.name.clone(),
            root: root.to_owned(),
            served: real.clone().filter(|_| has_php),
            real,
            missing,
            has_php,
            pace: ReleasePace::default(),
            waiting: None,
            is_pinned: false,
        };
        if let Some(held) = held.iter().find(|held| held.site == site.name) {
            let release = of(&held.root, Some(held.known().to_owned()), None);
            return Some(Release {
                served: Some(held.served.clone()),
                waiting: (held.kind == HoldKind::Waiting).then(|| held.refused.clone()),
                is_pinned: held.kind != HoldKind::HalfRefused,
                ..release
            });
        }
        let root = written_root(site);
        if answers.silence(root).is_some() {
            return has_php.then(|| of(root, None, None));
        }
        let RootTemplate::Fixed(root) = &site.root else {
            return None;
        };
        let answer = answers.of(root)?;
        // A folder of another site is not served by its own path either.
        let is_refused = site.symlinks != Symlinks::Follow && answer.refused_link().is_some();
        match complete(answer) {
            Some(real) => (real != *root).then(|| {
                let release = of(root, Some(real), None);
                let served = release.served.clone().filter(|_| !is_refused);
                Release { served, ..release }
            }),
            None => Some(of(root, None, Some(missing_root(root, answer)?))),
        }
    }

    /// Returns the reason why the next release has to wait. `None`: it may be served now.
    /// `is_full`: the generations that former ones have retired still have requests.
    fn wait(&self, now: Instant, is_full: bool) -> Option<ReleaseWait> {
        let due = self.pace.due().filter(|due| now < *due).map(ReleaseWait::Often);
        is_full.then_some(ReleaseWait::Retired).or(due)
    }

    /// Says that the release that the links lead to has to wait.
    fn describe_wait(&self, real: &Path, why: ReleaseWait, now: Instant) -> String {
        let why = match why {
            ReleaseWait::Often(due) => format!(
                "it is served in {} s, because the link has changed lately",
                (due - now).as_secs() + 1
            ),
            ReleaseWait::Retired => {
                "it waits until a former generation has ended, which still has requests".to_owned()
            }
        };
        let (root, real) = (self.root.display(), real.display());
        let kept = match &self.served {
            Some(served) => format!("until then {} is served; ", served.display()),
            None => String::new(),
        };
        format!("{root} leads to {real} now: {why}; {kept}`howdah reload` serves it at once")
    }

    /// Takes a new answer about the root. Returns what is new. `is_full` is as in
    /// [`Release::wait`].
    fn hear(&mut self, answer: &PathAnswer, now: Instant, is_full: bool) -> Option<RootNews> {
        if answer.state == PathState::Silent {
            return None;
        }
        let has_answered = self.real.is_some() || self.missing.is_some();
        let missing = missing_root(&self.root, answer);
        let former = std::mem::replace(&mut self.missing, missing);
        let root = self.root.display();
        let real = complete(answer);
        let what = match (&real, &self.real) {
            (None, _) if has_answered => {
                let what = self.missing.clone().filter(|_| self.missing != former)?;
                return Some(self.news(Level::Error, what, None));
            }
            (Some(real), Some(known)) if real == known => return self.is_back(former),
            (Some(real), Some(known)) => format!(
                "{root} leads to {} now, no longer to {}: a new generation serves it",
                real.display(),
                known.display()
            ),
            (Some(_), None) if has_answered => {
                format!("{root} is there now: a new generation serves the site")
            }
            (_, None) | (None, _) => format!("{root} answers: a new generation serves the site"),
        };
        let real = real.unwrap_or_else(|| answer.real.clone());
        if !self.has_php {
            self.real = Some(real);
            return self.is_back(former);
        }
        if let Some(why) = self.wait(now, is_full) {
            let what = self.describe_wait(&real, why, now);
            let is_told = self.waiting.replace(real).is_some();
            let pins = self.held_while_waiting().is_some() && !why.is_short(now);
            let change = pins.then_some(ChangeCause::HeldRelease);
            return (!is_told).then(|| self.news(Level::Notice, what, change));
        }
        self.real = Some(real);
        self.waiting = None;
        self.pace.note(now);
        Some(self.news(Level::Notice, what, Some(ChangeCause::NewRelease)))
    }

    /// The release that has to wait, if the former one is to be kept meanwhile and is not yet.
    fn held_while_waiting(&self) -> Option<HeldRelease> {
        let waiting = self.waiting.as_ref().filter(|_| !self.is_pinned)?;
        let held = self.held(self.served.clone()?, waiting.clone())?;
        Some(HeldRelease { kind: HoldKind::Waiting, ..held })
    }

    /// The root leads to a folder, after it was missing for the reason `former`.
    fn is_back(&self, former: Option<String>) -> Option<RootNews> {
        let what = format!("its root {} is there again", self.root.display());
        former.map(|_| self.news(Level::Notice, what, None))
    }

    fn news(&self, level: Level, what: String, change: Option<ChangeCause>) -> RootNews {
        RootNews {
            site: self.site.clone(),
            level,
            what,
            change,
        }
    }
}

impl Releases {
    /// The document roots of a plan whose paths have links, and those that have not answered.
    pub(super) fn of(plan: &GenerationPlan) -> Releases {
        let sites = plan.config.sites.iter();
        let sites: Vec<_> = sites.filter_map(|site| Release::of(site, plan)).collect();
        let due = (!sites.is_empty()).then(|| Instant::now() + LOOK);
        Releases { sites, due, ..Releases::default() }
    }

    /// Takes the place of `former`: the pauses of its sites go on.
    pub(super) fn follow(mut self, former: &Releases) -> Releases {
        for release in &mut self.sites {
            let same = former.sites.iter().find(|one| one.site == release.site);
            release.pace = same.map(|one| one.pace).unwrap_or_default();
        }
        self
    }

    /// Returns the folder that a site's root was in when the `former` generation began, and the one
    /// that it is in now. `None` if the site has no links.
    pub(super) fn moved<'r>(
        &'r self,
        former: &'r Releases,
        site: &str,
    ) -> Option<(&'r Path, &'r Path)> {
        let served = |releases: &'r Releases| {
            let release = releases.sites.iter().find(|release| release.site == site)?;
            release.served.as_deref()
        };
        Some((served(former)?, served(self)?))
    }

    /// The release of a site in `plan`, where this is another one than the one that is served;
    /// `None` also if the site has no links.
    pub(super) fn moved_in(&self, plan: &GenerationPlan, site: &str) -> Option<HeldRelease> {
        let former = self.sites.iter().find(|release| release.site == site)?.served.clone()?;
        let settings = plan.config.sites.iter().find(|settings| settings.name == site)?;
        let release = Release::of(settings, plan)?;
        release.held(former, release.served.clone()?)
    }

    /// The releases that have to wait, and whose former ones are to be kept meanwhile.
    pub(super) fn waiting(&self) -> Vec<HeldRelease> {
        self.sites.iter().filter_map(Release::held_while_waiting).collect()
    }

    /// Returns whether the link of a site leads to this folder.
    pub(super) fn leads_to(&self, site: &str, real: &Path) -> bool {
        let mut sites = self.sites.iter().filter(|release| release.site == site);
        sites.any(|release| release.real.as_deref() == Some(real))
    }

    /// The releases that links lead to now, and that were not served when the generation began.
    pub(super) fn changed(&self) -> Vec<HeldRelease> {
        let sites = self.sites.iter();
        sites
            .filter_map(|one| one.held(one.served.clone()?, one.real.clone()?))
            .collect()
    }

    /// The releases that are served from now on, in place of those of `former`. Another root in the
    /// configuration is no release.
    pub(super) fn since(&self, former: &Releases) -> Vec<HeldRelease> {
        let had_root = |one: &Release| {
            former
                .sites
                .iter()
                .any(|former| former.site == one.site && former.root == one.root)
        };
        let moved = |one: &Release| {
            let (from, to) = self.moved(former, &one.site).filter(|_| had_root(one))?;
            one.held(from.to_owned(), to.to_owned())
        };
        self.sites.iter().filter_map(moved).collect()
    }

    /// The sites for whose new releases a generation was started: those that were seen to change,
    /// and those of `served`.
    pub(super) fn movers(&self, served: &[HeldRelease]) -> Vec<String> {
        let mut sites = self.announced.clone();
        sites.extend(served.iter().map(|one| one.site.clone()));
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// The time of the next look, or of the end of the one in progress. `None`: there are no links.
    pub(super) fn due(&self) -> Option<Instant> {
        self.survey.as_ref().map(Survey::until).or(self.due)
    }

    /// The look in progress. `None`: there is none.
    pub(super) fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// Reads what the look in progress has found.
    pub(super) fn read(&mut self) {
        self.survey.iter_mut().for_each(Survey::read);
    }

    /// Ends the look in progress.
    pub(super) fn stop(&mut self) {
        self.survey = None;
    }

    /// The sites whose roots are watched, each with the reason why its root is missing.
    pub(super) fn roots(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.sites.iter().map(|one| (one.site.as_str(), one.missing.as_deref()))
    }

    /// Looks at the links if it is time. Returns what is new. A link that is missing has no new
    /// release. One that changes again too soon, or whose site `is_full`, is served later.
    ///
    /// Mostly the kernel has the answer in memory. Otherwise a process asks, and a later call
    /// returns what it has found.
    fn look(&mut self, now: Instant, is_full: impl Fn(&str) -> bool) -> Vec<RootNews> {
        if self.survey.as_ref().is_some_and(|survey| survey.is_over(now)) {
            self.due = Some(now + LOOK);
            let answers = self.survey.take().map(Survey::finish);
            return answers.map(|answers| self.compare(&answers, now, is_full)).unwrap_or_default();
        }
        if self.survey.is_some() || self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = Some(now + LOOK);
        let (mut news, mut roots) = (Vec::new(), Vec::new());
        for release in &mut self.sites {
            let real = release.real.as_deref();
            if real.is_some_and(|real| survey::still_leads_to(&release.root, real)) {
                release.waiting = None;
                let former = release.missing.take();
                news.extend(release.is_back(former));
                continue;
            }
            // A wait is told once, with the folder that the link leads to then.
            let waits = release.wait(now, is_full(&release.site)).is_some();
            if !waits || release.real.is_some() && release.waiting.is_none() {
                roots.push(release.root.clone());
            }
        }
        if !roots.is_empty() {
            // Where nothing can be forked, the next look may.
            self.survey = Survey::start(roots).ok();
        }
        news
    }

    fn compare(
        &mut self,
        answers: &SurveyAnswers,
        now: Instant,
        is_full: impl Fn(&str) -> bool,
    ) -> Vec<RootNews> {
        let hear = |release: &mut Release| {
            let is_full = is_full(&release.site);
            release.hear(answers.of(&release.root)?, now, is_full)
        };
        self.sites.iter_mut().filter_map(hear).collect()
    }

    /// The releases that have to wait, each with the site and the reason for `howdah status`.
    fn waits(&self, now: Instant, is_full: impl Fn(&str) -> bool) -> Vec<String> {
        let told = |release: &Release| {
            let why = release.wait(now, is_full(&release.site))?;
            let told = release.describe_wait(release.waiting.as_ref()?, why, now);
            Some(format!("site {}: {told}", release.site))
        };
        self.sites.iter().filter_map(told).collect()
    }
}

/// Says why a root leads to nothing, and what to do; `None` if it leads to something, or has not
/// answered.
pub(super) fn missing_root(root: &Path, answer: &PathAnswer) -> Option<String> {
    let (PathState::Missing(why) | PathState::Failed(why)) = &answer.state else {
        return None;
    };
    let leads = match answer.real == root {
        true => String::new(),
        false => format!(" leads to {}", answer.real.display()),
    };
    Some(format!(
        "its root {}{leads}: {why}; every request will be answered with 404 until it is there: \
         create the folder, or let the link lead to one",
        root.display()
    ))
}

/// The path without links, if there is something at its end.
fn complete(answer: &PathAnswer) -> Option<PathBuf> {
    let is_complete = matches!(answer.state, PathState::Folder | PathState::Other);
    is_complete.then(|| answer.real.clone())
}

impl Supervisor {
    /// Starts a new generation if a site has a new release, or one that has to wait.
    pub(super) fn look_at_releases(&mut self, now: Instant) {
        if self.stopping || self.is_changing() {
            return;
        }
        let mut releases = std::mem::take(&mut self.releases);
        let news = releases.look(now, |site| self.has_retired_enough(site));
        let is_change = |one: &&RootNews| one.change.is_some();
        releases.announced = news.iter().filter(is_change).map(|one| one.site.clone()).collect();
        self.releases = releases;
        for RootNews { site, level, what, .. } in &news {
            self.say_of(*level, site, what);
        }
        if !news.is_empty() {
            self.tell_missing_roots();
        }
        let causes = |cause| news.iter().any(|one| one.change == Some(cause));
        if causes(ChangeCause::NewRelease) {
            self.begin(ChangeCause::NewRelease);
        } else if causes(ChangeCause::HeldRelease) {
            self.hold_waiting();
        }
    }

    /// Describes the releases that have to wait, for `howdah status`.
    pub(super) fn describe_waiting_releases(&self) -> Vec<String> {
        self.releases.waits(Instant::now(), |site| self.has_retired_enough(site))
    }
}
