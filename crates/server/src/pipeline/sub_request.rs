//! Finds what another URI of the site leads to, for a script that includes it (`virtual()`).
//!
//! A script of the site asks. It learns the paths and variables of its own site, which its worker
//! then opens with rights of its own. The client's address is not the script's to say: it is in the
//! log, and limits count by it.

use std::os::unix::ffi::OsStrExt;
use std::rc::{Rc, Weak};

use howdah_config::Sapi;
use howdah_http::{Limits, Request, Scheme, Status};
use howdah_php::{
    AskingConnection, PoolStateQuestion, QuestionHandler, SubRequestQuestion, SubRequestResult,
};
use howdah_site::{Resolution, Resolved, Script, server_variables};

use super::context::{Arrival, RequestContext, ScratchBuffers};
use super::directives;
use super::response::Response;
use crate::body::NoContent;
use crate::front::FrontThread;
use crate::net::Peer;
use crate::observe::RequestError;
use crate::respond::pool_status;

/// Answers the questions of the scripts of site number `site` on a thread.
pub(crate) fn answers(thread: Weak<FrontThread>, site: usize) -> QuestionHandler {
    QuestionHandler::new(move |question, asker| {
        let thread = thread.clone();
        Box::pin(async move {
            let Some(thread) = thread.upgrade() else {
                return Vec::new();
            };
            if let Some(PoolStateQuestion { first }) = PoolStateQuestion::decode(&question)
                && is_named_as_fpm(&thread, site)
            {
                let found = thread.sites().iter().nth(site);
                let piece =
                    found.and_then(|site| pool_status::function_piece(&thread, site, first));
                return piece.unwrap_or_default();
            }
            match SubRequest::read(thread.limits(), &question, asker) {
                Some(asked) => asked.resolve(&thread, site).await,
                None => SubRequestResult::Status(Status::BAD_REQUEST.code()).encode(),
            }
        })
    })
}

/// A request that a script makes.
struct SubRequest {
    peer: Peer,
    request: Request,
}

impl SubRequest {
    /// Reads a question, whose bytes are a pool's. `None` if it is none, or asks for what no client
    /// could ask for.
    fn read(limits: &Limits, question: &[u8], asker: AskingConnection) -> Option<SubRequest> {
        let question = SubRequestQuestion::decode(question)?;
        let mut peer = Peer::new(asker.remote, asker.local);
        peer.scheme = match question.scheme {
            b"https" => Scheme::Https,
            _ => Scheme::Http,
        };
        let fields = question.fields.into_iter();
        let made = Request::internal(peer.scheme, question.host, question.target, fields, limits);
        made.ok().map(|request| SubRequest { peer, request })
    }

    /// Resolves the request, and encodes the result.
    async fn resolve(mut self, thread: &Rc<FrontThread>, site: usize) -> Vec<u8> {
        let Some(site) = thread.sites().iter().nth(site) else {
            return SubRequestResult::Status(Status::NOT_FOUND.code()).encode();
        };
        let (mut stream, mut scratch) = (NoContent, ScratchBuffers::default());
        let arrival = Arrival::now(thread);
        let (peer, request) = (&self.peer, &mut self.request);
        let mut context =
            RequestContext::new(thread, peer, arrival, request, &mut stream, &mut scratch);
        context.site = Some(site);
        let mut resolved = directives::resolve(&mut context, site).await;
        if resolved.is_forbidden() {
            context.report(&RequestError::forbidden(context.situation(), Status::FORBIDDEN));
        }
        directives::log_messages(&context, resolved.ruled.as_mut());
        let Resolved { resolution, ruled } = resolved;
        // A part of a page has no page of its own for errors.
        let failed = ruled.as_ref().map(|ruled| ruled.state.status).filter(|it| *it != Status::OK);
        if let Some(status) = failed {
            return SubRequestResult::Status(status.code()).encode();
        }
        match resolution {
            Resolution::File { path, .. } => {
                SubRequestResult::File(path.absolute().as_os_str().as_bytes()).encode()
            }
            Resolution::Php(script) => script_found(&context, &script, ruled.as_deref()),
            Resolution::Listing { .. } | Resolution::Proxy { .. } => {
                SubRequestResult::Other.encode()
            }
            Resolution::Exhausted | Resolution::Verify { .. } | Resolution::Discard { .. } => {
                SubRequestResult::Status(Status::INTERNAL_SERVER_ERROR.code()).encode()
            }
            other => {
                SubRequestResult::Status(Response::of(other).head.get().status.code()).encode()
            }
        }
    }
}

/// Encodes a script that was found, with its variables.
fn script_found(
    context: &RequestContext<'_, '_>,
    script: &Script,
    ruled: Option<&howdah_site::RuledRequest>,
) -> Vec<u8> {
    let mut owned: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    server_variables(&context.client(), script, ruled, &mut |name: &[u8], value: &[u8]| {
        owned.push((name.to_vec(), value.to_vec()));
    });
    SubRequestResult::Script {
        path: script.path().absolute().as_os_str().as_bytes(),
        variables: owned.iter().map(|(name, value)| (&**name, &**value)).collect(),
    }
    .encode()
}

/// Returns whether the scripts of a site find the functions of php-fpm. The others cannot ask for
/// its state, which takes a look at the site's counters in all threads.
fn is_named_as_fpm(thread: &FrontThread, site: usize) -> bool {
    let php = thread.config().sites.get(site).and_then(|site| site.php.as_ref());
    php.is_some_and(|php| php.sapi == Sapi::FpmFcgi)
}
