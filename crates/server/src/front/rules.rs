//! What a site's directives make of requests and responses: `site` decides, and this brings it
//! together with the connection, the disk and the log.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_htaccess::Place;
use howdah_htaccess::response::About;
use howdah_http::Status;
use howdah_site::{Resolution, Resolved, Ruled, Site};

use super::answer::{Answer, Head};
use super::clock::Now;
use super::connection::Connection;
use super::phase::Phase;
use super::trouble::{Failed, Trouble};
use super::workspace::Workspace;

/// How a request came.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) began: Now,
    pub(super) started: Instant,
    /// Whether the client waits for leave to send its content.
    pub(super) expects_continue: bool,
}

/// Something that directives have to say: where, and what.
pub(super) type Complaint = (Option<Arc<Place>>, String);

/// What has been said lately, so that a file with a mistake that is asked for often does not fill
/// the log.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: HashSet<Complaint>,
    since: Option<Instant>,
}

impl Complaints {
    /// Whether that has not been said within the last minute. What has no place, such as who was
    /// turned away, is always news.
    pub(super) fn is_news(&mut self, complaint: &Complaint, now: Instant) -> bool {
        if complaint.0.is_none() {
            return true;
        }
        self.note(complaint.clone(), now)
    }

    /// Notes that it is being said; whether that is news.
    pub(super) fn note(&mut self, complaint: Complaint, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MINUTE || self.said.len() >= MOST_SAID {
            self.said.clear();
            self.since = Some(now);
        }
        self.said.insert(complaint)
    }
}

/// Finds out what the request stands for. Passwords are compared beside the event loop, and then it
/// begins again.
pub(super) async fn resolve(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
) -> Resolved {
    connection.set_phase(Phase::Resolving);
    let thread = connection.thread();
    thread.store().tick(arrival.began.seconds());
    for _ in 0..MOST_PASSWORDS {
        let resolved = {
            let client = connection.client(&work.request, arrival.began);
            let mut host = thread.host(site, arrival.started);
            let mut cache = thread.resolution_cache();
            howdah_site::resolve_cached(site, &client, &mut host, &mut work.scratch, &mut cache)
                .resolved
        };
        match resolved.resolution {
            Resolution::Verify { hash, password } => {
                if !thread.passwords().find_out(hash, password).await {
                    break;
                }
            }
            _ => return resolved,
        }
    }
    Resolved {
        resolution: Resolution::Status(Status::SERVICE_UNAVAILABLE),
        ruled: None,
    }
}

/// What a request has become that has come to `status` after it was resolved.
pub(super) fn error(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<Rc<Ruled>>,
    status: Status,
) -> Resolved {
    let client = connection.client(&work.request, arrival.began);
    let mut host = connection.thread().host(site, arrival.started);
    howdah_site::error(site, &client, ruled, status, &mut host, &mut work.scratch)
}

/// Has the directives change an answer's head and choose what its content passes.
pub(super) fn dress(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<&mut Rc<Ruled>>,
    mut answer: Answer,
) -> Result<Answer, Failed> {
    let Some(ruled) = ruled else {
        return Ok(answer);
    };
    let length = answer.length.or_else(|| answer.body.length());
    let Head::Plain(head) = &mut answer.head else {
        return Ok(answer);
    };
    let about = About {
        is_error: answer.is_own,
        modified: answer.modified,
        length,
    };
    let client = connection.client(&work.request, arrival.began);
    let mut host = connection.thread().host(site, arrival.started);
    answer.filters =
        howdah_site::respond(site, &client, ruled, head, about, &mut host, &mut work.scratch)?;
    Ok(answer)
}

/// Says in the error log what the directives had to say.
pub(super) fn complain(
    connection: &Connection,
    work: &Workspace,
    site: &Site,
    ruled: Option<&mut Rc<Ruled>>,
) {
    let ruled = ruled.filter(|ruled| !ruled.state.complaints.is_empty());
    let complaints = ruled.map(|ruled| std::mem::take(&mut Rc::make_mut(ruled).state.complaints));
    for complaint in complaints.iter().flatten() {
        if connection.thread().is_news(complaint, Instant::now()) {
            let trouble = Trouble::directives(connection, &work.request, site, complaint);
            connection.thread().report(&trouble);
        }
    }
}

/// How long what was said at a place is not said again.
const MINUTE: Duration = Duration::from_secs(60);

/// Places and what was said there that are remembered. Beyond, all are forgotten.
const MOST_SAID: usize = 1024;

/// Passwords that one request may have compared. Each is remembered for a minute, so a second round
/// asks for another, if for any.
const MOST_PASSWORDS: usize = 8;
