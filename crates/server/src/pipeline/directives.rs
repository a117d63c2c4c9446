//! Applying the site's directives. The crate `site` decides; this module connects its decisions
//! with the request, the disk and the log.
//!
//! Directives are evaluated on the event loop as far as they take little work, which is nearly
//! always. Where they take more, the evaluation begins again on another thread
//! ([`crew_request`]), with the whole budget. The same is done, by threads for this alone, where
//! something is asked of the disk that is not in the kernel's memory; then the event loop repeats
//! the evaluation.

mod adjusting;
mod costly_sites;
mod crew_request;
mod turn_work;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use howdah_files::{FileStore, VoidReasons};
use howdah_htaccess::WorkBudget;
use howdah_http::Status;
use howdah_site::{
    CachedResolution, DirectiveHost, DocumentPath, ListingPage, Resolution, Resolved, RuledRequest,
    Site,
};
use howdah_sys::open::Lookup;

use super::context::RequestContext;
use crate::crew::{ClientNetwork, JobOrigin};
use crate::observe::{Phase, RequestError, RespondError};

pub(crate) use self::adjusting::adjust;
pub(crate) use self::costly_sites::CostlySites;
use self::crew_request::{CrewRefusal, CrewRequest};

/// Resolves the request. If a password has to be compared, that is done outside the event loop, and
/// then the request is resolved again.
pub(super) async fn resolve(context: &mut RequestContext<'_, '_>, site: &Site) -> Resolved {
    context.phase.set(Phase::Resolving);
    let thread = context.thread;
    let mut began = context.arrival.started;
    for _ in 0..MOST_PASSWORDS {
        wait_for_turn(context, site).await;
        let mut here = resolve_here(context, site, Lookup::Cached, began);
        if matches!(here, Err(NotResolvedHere::Cold)) {
            if Box::pin(CrewRequest::new(context, site).read_disk()).await.is_err() {
                return too_many_waiting(context, WAIT_FOR_DISK);
            }
            here = resolve_here(context, site, Lookup::Full, Instant::now());
        }
        let CachedResolution { resolved, prepared } = match here {
            Ok(resolved) => resolved,
            Err(NotResolvedHere::NoDescriptors) => {
                return refused_with(context, &RequestError::no_descriptors(context.situation()));
            }
            Err(_) => match Box::pin(CrewRequest::new(context, site).resolve()).await {
                Ok(resolved) => CachedResolution { resolved, prepared: None },
                Err(refusal) => {
                    return refused_with(context, &not_evaluated(context, refusal));
                }
            },
        };
        context.prepared = prepared;
        match resolved.resolution {
            Resolution::Verify { hash, password } => {
                let origin = origin(context, site);
                let compared = &mut context.compared;
                if !thread.passwords().find_out(origin, compared, hash, password).await {
                    return too_many_waiting(context, COMPARE_PASSWORDS);
                }
                // The wait is no cost of the directives.
                began = Instant::now();
            }
            _ => return resolved,
        }
    }
    too_many_waiting(context, NAME_PASSWORDS)
}

/// Returns the error of a request that a crew does not take.
#[cold]
fn refused_by_crew(context: &RequestContext<'_, '_>, why: &str) -> RequestError {
    RequestError::too_many_waiting(context.situation(), why)
}

/// Reports the error of a request that a crew does not take, and answers with its status.
#[cold]
fn too_many_waiting(context: &RequestContext<'_, '_>, why: &str) -> Resolved {
    refused_with(context, &refused_by_crew(context, why))
}

/// Returns the error of a request whose directives a crew has not evaluated.
#[cold]
fn not_evaluated(context: &RequestContext<'_, '_>, refusal: CrewRefusal) -> RequestError {
    match refusal {
        CrewRefusal::Full => refused_by_crew(context, ARE_COSTLY),
        CrewRefusal::NoDescriptors => RequestError::no_descriptors(context.situation()),
    }
}

/// Reports an error, and answers with its status.
#[cold]
fn refused_with(context: &RequestContext<'_, '_>, error: &RequestError) -> Resolved {
    let status = context.report(error);
    Resolved {
        resolution: Resolution::Status(status.unwrap_or(Status::INTERNAL_SERVER_ERROR)),
        ruled: None,
    }
}

/// The reason why the event loop cannot resolve a request.
enum NotResolvedHere {
    /// The work is too much for an event loop.
    Costly,
    /// The disk would have to be waited for.
    Cold,
    /// The disk cannot be asked at all.
    NoDescriptors,
}

/// Resolves the request on the event loop. `began` is the time at which this evaluation begins.
fn resolve_here(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    lookup: Lookup,
    began: Instant,
) -> Result<CachedResolution<crate::respond::PreparedResponse>, NotResolvedHere> {
    let thread = context.thread;
    let budget = budget_here(context, site);
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = thread.host(site, context.arrival.started, &context.compared);
    host.store.tick(context.arrival.began.seconds());
    thread.forget_resolutions(host.store.evictions());
    let mut cache = thread.resolution_cache();
    let scratch = &mut context.scratch.paths;
    let bounds = (lookup, link_steps(&budget));
    let found = host.bounded(bounds, |host| {
        howdah_site::resolve_cached(site, &client.within(&budget), host, scratch, &mut cache)
    });
    match found {
        Err(voided) => Err(not_here(context, site, &budget, voided)),
        Ok(found) if is_done(context, site, &budget, began) => Ok(found),
        Ok(_) => Err(NotResolvedHere::Costly),
    }
}

/// Waits for the next turn of the event loop where the site's directives have taken as much of this
/// one as they may, and the crew has no room to evaluate them instead.
#[inline]
pub(super) async fn wait_for_turn(context: &RequestContext<'_, '_>, site: &Site) {
    let thread = context.thread;
    while thread.costly_sites().is_turn_over(site.number())
        && !thread.shared.evaluators.has_room(origin(context, site))
    {
        tokio::task::yield_now().await;
    }
}

/// Returns the budget for an evaluation on the event loop. A site that was costly a moment ago gets
/// none, nor one that has had much of this turn.
pub(super) fn budget_here(context: &RequestContext<'_, '_>, site: &Site) -> WorkBudget {
    let thread = context.thread;
    let is_costly = thread.costly_sites().contains(site.number(), context.arrival.started)
        || thread.costly_sites().is_turn_over(site.number());
    let most = thread.config().limits.htaccess_work.min(MOST_HERE);
    let budget = WorkBudget::new(if is_costly { 0 } else { most });
    budget.with_jit(thread.config().pcre_jit)
}

/// Returns the steps along symbolic links that an evaluation with this budget may take.
pub(super) fn link_steps(budget: &WorkBudget) -> u64 {
    if budget.most() == 0 { 0 } else { MOST_LINK_STEPS_HERE }
}

/// Returns why the answers of the store are void. Notes a site whose links took too many steps for
/// the event loop.
#[cold]
fn not_here(
    context: &RequestContext<'_, '_>,
    site: &Site,
    budget: &WorkBudget,
    voided: VoidReasons,
) -> NotResolvedHere {
    if voided.no_descriptors {
        return NotResolvedHere::NoDescriptors;
    }
    if voided.cold {
        return NotResolvedHere::Cold;
    }
    if voided.too_many_links && budget.most() > 0 {
        context.thread.costly_sites().note(site.number(), Instant::now());
    }
    NotResolvedHere::Costly
}

/// Returns whether an evaluation, begun at `began`, has kept to its budget, so that its result
/// counts. Notes a site that was costly.
#[inline]
fn is_done(
    context: &RequestContext<'_, '_>,
    site: &Site,
    budget: &WorkBudget,
    began: Instant,
) -> bool {
    if budget.used() == 0 && !budget.is_exhausted() {
        return true;
    }
    // With a larger budget it would be refused as well.
    let is_done = !budget.is_exhausted() || budget.is_refused();
    let (costly, now) = (context.thread.costly_sites(), Instant::now());
    if budget.most() > 0 {
        costly.note_steps(site.number(), budget.used());
        if is_done {
            costly.note_time(site.number(), began, now);
        } else {
            costly.note(site.number(), now);
        }
    }
    is_done
}

/// Returns the site and the client of a job for another thread.
fn origin(context: &RequestContext<'_, '_>, site: &Site) -> JobOrigin {
    let network = ClientNetwork::of(context.peer.remote.ip());
    JobOrigin { site: site.number(), network }
}

/// Resolves the error page of a request that failed with `status`. `ruled` is the request as it was
/// resolved; `None`: it was not, and the site's configuration decides.
pub(super) async fn error(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<Rc<RuledRequest>>,
    status: Status,
) -> Resolved {
    context.prepared = None;
    let without_page = || Resolved {
        resolution: Resolution::Status(status),
        ruled: None,
    };
    if ruled.is_none() && site.directives().is_none() {
        return without_page();
    }
    let copy = || ruled.as_deref().cloned();
    wait_for_turn(context, site).await;
    let mut here = error_here(context, site, ruled.clone(), status, Lookup::Cached);
    if matches!(here, Err(NotResolvedHere::Cold)) {
        let page = CrewRequest::new(context, site).read_disk_for_error(copy(), status);
        if Box::pin(page).await.is_err() {
            return without_page();
        }
        here = error_here(context, site, ruled.clone(), status, Lookup::Full);
    }
    match here {
        Ok(resolved) => resolved,
        Err(NotResolvedHere::NoDescriptors) => without_page(),
        Err(_) => {
            let page = CrewRequest::new(context, site).error(copy(), status);
            Box::pin(page).await.unwrap_or_else(|_refusal| without_page())
        }
    }
}

/// Resolves the page of a request that is refused with `status` before it is resolved. Content that
/// is too long is refused by the folder that it is sent to, everything else by the site. A page
/// that is a script is not run for a client that sends too many requests: that would cost what the
/// limit saves.
pub(super) async fn refused(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    status: Status,
) -> Resolved {
    let ruled = match status {
        Status::CONTENT_TOO_LARGE => resolve(context, site).await.ruled,
        _ => None,
    };
    let ruled = ruled.filter(|ruled| ruled.state.status == Status::OK);
    let resolved = error(context, site, ruled, status).await;
    match resolved.resolution {
        Resolution::Php(_) | Resolution::Proxy { .. } if status == Status::TOO_MANY_REQUESTS => {
            Resolved {
                resolution: Resolution::Status(status),
                ruled: None,
            }
        }
        resolution => Resolved { resolution, ..resolved },
    }
}

/// Resolves as [`resolve_here`] does, for the error page. The request may have waited for a script,
/// therefore the evaluation begins now.
fn error_here(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<Rc<RuledRequest>>,
    status: Status,
    lookup: Lookup,
) -> Result<Resolved, NotResolvedHere> {
    let began = Instant::now();
    let budget = budget_here(context, site);
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let client = client.within(&budget);
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let scratch = &mut context.scratch.paths;
    let bounds = (lookup, link_steps(&budget));
    let resolved = host
        .bounded(bounds, |host| howdah_site::error(site, &client, ruled, status, host, scratch));
    match resolved {
        Err(voided) => Err(not_here(context, site, &budget, voided)),
        Ok(_) if !is_done(context, site, &budget, began) => Err(NotResolvedHere::Costly),
        Ok(resolved) => Ok(resolved),
    }
}

/// Asks the disk about paths, outside the event loop. Afterwards they are in the kernel's memory,
/// and a file system that hangs has answered.
///
/// # Errors
/// 503 where too many requests of the site or of the client wait already.
pub(crate) async fn look_at(
    context: &RequestContext<'_, '_>,
    site: &Site,
    paths: Vec<PathBuf>,
) -> Result<(), RequestError> {
    let shared = Arc::clone(&context.thread.shared);
    let job = move |store: &mut FileStore| {
        paths.iter().for_each(|path| {
            is_there(store, path);
        });
    };
    let read = shared.readers.run(origin(context, site), job).await;
    read.map_err(|_full| refused_by_crew(context, WAIT_FOR_DISK))
}

/// Returns whether something is at a path that a script has named. The kernel does not follow the
/// links: a script can make some that keep it busy.
fn is_there(store: &mut FileStore, path: &Path) -> bool {
    store.probe(path.as_os_str().as_bytes()).is_some()
}

/// Makes the page of the folder at `path`, outside the event loop: every name in the folder is
/// looked up and resolved.
///
/// # Errors
/// 403 where the folder may not be listed, 503 where too many requests of the site or of the client
/// wait already.
pub(crate) async fn list(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    path: DocumentPath,
) -> Result<ListingPage, RespondError> {
    let listed = CrewRequest::new(context, site).list(RuledRequest::clone(ruled), path);
    match Box::pin(listed).await {
        Ok(Some((after, page))) => {
            *ruled = Rc::new(after);
            Ok(page)
        }
        Ok(None) => Err(Status::FORBIDDEN.into()),
        Err(refusal) => Err(not_evaluated(context, refusal).into()),
    }
}

/// Logs the messages of directives.
pub(super) fn log_messages(context: &RequestContext<'_, '_>, ruled: Option<&mut Rc<RuledRequest>>) {
    let ruled = ruled.filter(|ruled| !ruled.state.complaints.is_empty());
    let messages = ruled.map(|ruled| std::mem::take(&mut Rc::make_mut(ruled).state.complaints));
    for message in messages.iter().flatten() {
        let is_news = |site: &Site| context.thread.is_news(site.number(), message, Instant::now());
        if context.site.is_none_or(is_news) {
            let error = RequestError::directives(context.situation(), message);
            context.thread.report(&error);
        }
    }
}

/// The reasons why a crew does not take a request.
const WAIT_FOR_DISK: &str = "too many requests of the client or the site wait for the disk";
const ARE_COSTLY: &str =
    "too many requests of the client or the site wait for directives that take long";
const COMPARE_PASSWORDS: &str = "too many passwords of the client or the site wait to be compared";
const NAME_PASSWORDS: &str = "its directives ask for too many passwords";

/// The most passwords that are compared for one request. Each result is kept for a minute, so a
/// further round needs at most another password.
const MOST_PASSWORDS: usize = 8;

/// The steps along symbolic links on the event loop: a millisecond. A file behind a usual link
/// needs ten of them when it is asked for first. Beyond them a crew resolves the request.
const MOST_LINK_STEPS_HERE: u64 = 500;

/// The steps of an evaluation on the event loop: some hundred microseconds. A hundred ordinary
/// rules take a tenth of them. Beyond them a crew evaluates the directives.
const MOST_HERE: u64 = 200_000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use howdah_files::StoreLimits;

    use super::*;

    #[test]
    fn links_that_keep_the_kernel_busy_lead_a_script_nowhere() {
        let folder = std::env::temp_dir().join(format!("howdah-look-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        symlink("file", folder.join("short")).unwrap();
        symlink(format!("{}file", "a/../".repeat(800)), folder.join("long")).unwrap();
        let mut store = FileStore::new(StoreLimits::default());
        let there = ["file", "short", "long", "none"]
            .map(|name| (folder.join(name).exists(), is_there(&mut store, &folder.join(name))));
        assert_eq!(there, [(true, true), (true, true), (true, false), (false, false)]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
