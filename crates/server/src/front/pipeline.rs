//! The way of a request, from its head to its last byte.

use std::time::Instant;

use howdah_http::Status;
use howdah_http::h1::Parsed;
use howdah_site::{Resolution, resolve};

use super::access::Record;
use super::answer::Answer;
use super::connection::{After, Connection};
use super::trouble::Trouble;
use super::workspace::Workspace;
use super::{file, script, send};

/// Serves the request that `work` holds. Who has read this function knows the server.
///
/// Before it the connection was accepted ([`thread`](super::thread)) and the head was read and checked
/// ([`connection`](super::connection)).
pub(super) async fn serve(connection: &mut Connection, work: &mut Workspace, parsed: Parsed) -> After {
    let thread = connection.thread().clone();
    let (began, started) = (thread.clock().now(), Instant::now());

    // Resolve: which site, and what the URL stands for there.
    thread.store().tick(began.seconds());
    let site = thread.sites().find(work.request.host());
    let resolution = match site {
        Some(site) => {
            let client = connection.client(&work.request, began);
            resolve(site, &client, &mut *thread.store(), &mut work.scratch).resolution
        }
        None => Resolution::Status(Status::MISDIRECTED_REQUEST),
    };

    // Answer: from a file, by a script, or with a status.
    let answer = match resolution {
        Resolution::File { path } => Ok(file::answer(&thread, work, path)),
        Resolution::Php(found) => match site {
            Some(site) => script::answer(connection, work, site, &found, began, parsed.expect_continue).await,
            None => Ok(Answer::error(Status::MISDIRECTED_REQUEST)),
        },
        Resolution::Directory { .. } | Resolution::Listing { .. } => Ok(Answer::error(Status::FORBIDDEN)),
        Resolution::Redirect { status, location } => Ok(Answer::redirect(status, &location)),
        Resolution::Allow { status, methods } => Ok(Answer::allow(status, methods)),
        // No directive is read yet, so none asks for these.
        Resolution::Page { .. } | Resolution::Verify { .. } => {
            Ok(Answer::error(Status::INTERNAL_SERVER_ERROR))
        }
        Resolution::Status(status) => Ok(Answer::error(status)),
    };
    let answer = answer.or_else(|trouble: Trouble| {
        if trouble.status.is_some() {
            thread.report(&trouble);
        }
        Answer::to_trouble(&trouble).ok_or(())
    });
    let Ok(answer) = answer else { return After::Close };

    // Encode and send.
    let status = answer.status();
    let sent = send::send(connection, work, answer, parsed.persistent).await;
    if let Some(trouble) = &sent.trouble {
        thread.report(trouble);
    }

    // Record.
    thread.record(&Record {
        site: site.map_or("-", |site| site.name()),
        client: connection.remote.ip(),
        began,
        took: started.elapsed(),
        request: &work.request,
        status,
        sent: sent.bytes,
        complete: sent.complete,
    });
    sent.after
}
