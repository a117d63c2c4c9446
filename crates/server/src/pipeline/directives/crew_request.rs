//! Evaluating directives on the threads of a [`Crew`](crate::crew::Crew), for requests whose
//! directives are costly, or whose files are on the disk only.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use howdah_files::{FileStore, VoidReasons};
use howdah_htaccess::WorkBudget;
use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::response::ResponseProperties;
use howdah_http::{Request, ResponseHead, Status};
use howdah_site::{
    ClientRequest, DetachedResolution, DocumentPath, ListingPage, Resolution, Resolved,
    RuledRequest, Scratch, Site,
};
use howdah_sys::open::Lookup;

use crate::crew::{ClientNetwork, CrewFull, JobOrigin};
use crate::front::FrontShared;
use crate::host::{ComparedPasswords, FrontHost, user_of};
use crate::net::Peer;
use crate::observe::{ErrorContext, Phase, RequestError};
use crate::pipeline::context::{Arrival, RequestContext};
use crate::respond::{codings, listing};

/// A copy of a request, and the means to evaluate directives for it on another thread.
pub(super) struct CrewRequest {
    shared: Arc<FrontShared>,
    site: usize,
    request: Request,
    peer: Peer,
    arrival: Arrival,
    phase: Phase,
    compared: ComparedPasswords,
    /// Steps along symbolic links that may be taken.
    link_steps: u64,
}

/// The result of the directives for a response.
pub(super) struct Responded {
    pub(super) head: ResponseHead,
    pub(super) ruled: RuledRequest,
    pub(super) chosen: Result<Vec<Filter>, Status>,
}

/// The reason why no thread of a crew has evaluated the directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrewRefusal {
    /// Too many requests of the site or of the client wait already.
    Full,
    /// The disk could not be asked: the process has no descriptor left.
    NoDescriptors,
}

impl CrewRequest {
    pub(super) fn new(context: &RequestContext<'_, '_>, site: &Site) -> CrewRequest {
        CrewRequest {
            shared: Arc::clone(&context.thread.shared),
            site: site.number(),
            request: context.request.clone(),
            peer: context.peer.clone(),
            arrival: context.arrival,
            phase: context.phase.get(),
            compared: context.compared.clone(),
            link_steps: MOST_LINK_STEPS,
        }
    }

    /// Resolves the request.
    ///
    /// # Errors
    /// The reason why nobody has evaluated the directives.
    pub(super) async fn resolve(self) -> Result<Resolved, CrewRefusal> {
        let detached = self.evaluate(|site, client, host, scratch| {
            howdah_site::resolve(site, client, host, scratch).detach()
        });
        Ok(detached.await?.map_or(EXHAUSTED, DetachedResolution::attach))
    }

    /// Reads from the disk everything that resolving the request asks for. Afterwards it is in the
    /// kernel's memory, and a file system that hangs has answered.
    ///
    /// # Errors
    /// Too many requests of the site or of the client wait already.
    pub(super) async fn read_disk(self) -> Result<(), CrewFull> {
        self.read(|site, client, host, scratch| howdah_site::resolve(site, client, host, scratch))
            .await
    }

    /// Reads as [`read_disk`](CrewRequest::read_disk) does, for the error page of a request that
    /// failed.
    ///
    /// # Errors
    /// The errors of [`read_disk`](CrewRequest::read_disk).
    pub(super) async fn read_disk_for_error(
        self,
        ruled: Option<RuledRequest>,
        status: Status,
    ) -> Result<(), CrewFull> {
        self.read(move |site, client, host, scratch| {
            howdah_site::error(site, client, ruled.map(Rc::new), status, host, scratch)
        })
        .await
    }

    /// Resolves something for the sake of what that reads from the disk. Short content of a file is
    /// read as well.
    async fn read(
        self,
        resolve: impl FnOnce(
            &Site,
            &ClientRequest<'_>,
            &mut FrontHost<'_, &mut FileStore>,
            &mut Scratch,
        ) -> Resolved
        + Send
        + 'static,
    ) -> Result<(), CrewFull> {
        let shared = Arc::clone(&self.shared);
        let origin = self.origin();
        let job = move |store: &mut FileStore, is_abandoned| {
            // The event loop finds out itself why the answers are void.
            let _ = self.run(store, is_abandoned, |site, client, host, scratch| {
                let resolved = resolve(site, client, host, scratch);
                if let Resolution::File { path, file } = resolved.resolution {
                    let request = client.request();
                    let (path, file, _) =
                        codings::select(host.store, site, (path, file), &request.fields);
                    if let Ok(answer) = host.store.answer(request, &path, file) {
                        answer.fetch_short();
                    }
                }
            });
        };
        shared.readers.run_while_awaited(origin, job).await
    }

    /// Resolves the error page of a request that failed.
    ///
    /// # Errors
    /// The errors of [`resolve`](CrewRequest::resolve).
    pub(super) async fn error(
        self,
        ruled: Option<RuledRequest>,
        status: Status,
    ) -> Result<Resolved, CrewRefusal> {
        let detached = self.evaluate(move |site, client, host, scratch| -> DetachedResolution {
            let ruled = ruled.map(Rc::new);
            howdah_site::error(site, client, ruled, status, host, scratch).detach()
        });
        Ok(detached.await?.map_or(EXHAUSTED, DetachedResolution::attach))
    }

    /// Lets the directives change the head of a response. `Err(500)` in the result also where they
    /// take too much work, and `None` where links do.
    ///
    /// # Errors
    /// The errors of [`resolve`](CrewRequest::resolve).
    pub(super) async fn respond(
        self,
        ruled: RuledRequest,
        mut head: ResponseHead,
        about: ResponseProperties,
    ) -> Result<Option<Responded>, CrewRefusal> {
        self.evaluate(move |site, client, host, scratch| {
            let mut ruled = Rc::new(ruled);
            let chosen =
                howdah_site::respond(site, client, &mut ruled, &mut head, about, host, scratch);
            Responded {
                head,
                ruled: Rc::unwrap_or_clone(ruled),
                chosen,
            }
        })
        .await
    }

    /// Makes the page of the folder at `path`. `None`: the folder may not be listed.
    ///
    /// # Errors
    /// The errors of [`resolve`](CrewRequest::resolve).
    pub(super) async fn list(
        self,
        mut ruled: RuledRequest,
        path: DocumentPath,
    ) -> Result<Option<(RuledRequest, ListingPage)>, CrewRefusal> {
        let steps = MOST_LISTING_STEPS;
        let request = CrewRequest { link_steps: steps, ..self };
        let listed = request.evaluate(move |site, client, host, scratch| {
            let entries = host.store.list(&path)?.into_iter().map(listing::entry).collect();
            let page = howdah_site::list(site, client, &mut ruled, entries, host, scratch);
            Some((ruled, page))
        });
        listed.await.map(Option::flatten)
    }

    /// Returns the result of `work`; `None` where links take too many steps, so that it is void.
    async fn evaluate<R: Send + 'static>(
        self,
        work: impl FnOnce(
            &Site,
            &ClientRequest<'_>,
            &mut FrontHost<'_, &mut FileStore>,
            &mut Scratch,
        ) -> R
        + Send
        + 'static,
    ) -> Result<Option<R>, CrewRefusal> {
        let shared = Arc::clone(&self.shared);
        let origin = self.origin();
        let job = move |store: &mut FileStore, is_abandoned| self.run(store, is_abandoned, work);
        match shared.evaluators.run_while_awaited(origin, job).await {
            Ok(Ok(result)) => Ok(Some(result)),
            Ok(Err(voided)) if voided.no_descriptors => Err(CrewRefusal::NoDescriptors),
            Ok(Err(_)) => Ok(None),
            Err(CrewFull) => Err(CrewRefusal::Full),
        }
    }

    fn origin(&self) -> JobOrigin {
        let network = ClientNetwork::of(self.peer.remote.ip());
        JobOrigin { site: self.site, network }
    }

    fn run<R>(
        self,
        store: &mut FileStore,
        is_abandoned: Arc<AtomicBool>,
        work: impl FnOnce(
            &Site,
            &ClientRequest<'_>,
            &mut FrontHost<'_, &mut FileStore>,
            &mut Scratch,
        ) -> R,
    ) -> Result<R, VoidReasons> {
        store.tick(self.arrival.began.seconds());
        if store.changes().is_some() {
            store.drain_events();
        }
        let shared = &*self.shared;
        let site = shared.sites.iter().find(|site| site.number() == self.site);
        let site = site.expect("the number is that of a site of the same list");
        let budget = WorkBudget::new(shared.config.limits.htaccess_work)
            .with_jit(shared.config.pcre_jit)
            .until(is_abandoned);
        let client = self.peer.client(&self.request, self.arrival.began.microseconds);
        let mut host = FrontHost {
            store: &mut *store,
            passwords: &shared.passwords,
            site,
            compared: &self.compared,
            since: self.arrival.started,
            pool: shared.pools.get(self.site).and_then(Option::as_deref),
            user: user_of(site, shared.pool_users.get(self.site).and_then(Option::as_deref)),
        };
        let bounds = (Lookup::Full, self.link_steps);
        let result = host.bounded(bounds, |host| {
            work(site, &client.within(&budget), host, &mut Scratch::default())
        });
        if let Err(voided) = &result
            && !voided.no_descriptors
        {
            let situation = ErrorContext {
                peer: &self.peer,
                site: Some(site),
                phase: self.phase,
                request: &self.request,
            };
            RequestError::too_many_links(situation).log(&shared.log);
        }
        result
    }
}

/// The result where what was asked has no answer.
const EXHAUSTED: Resolved = Resolved {
    resolution: Resolution::Exhausted,
    ruled: None,
};

/// Steps along symbolic links for one request: some tenths of a second. Beyond them, it is refused.
const MOST_LINK_STEPS: u64 = 100_000;

/// Steps along symbolic links for a listing, which looks at each name twice: some seconds. A
/// listing that takes more is refused.
const MOST_LISTING_STEPS: u64 = 1_000_000;
