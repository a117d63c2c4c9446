//! The way of a request, from its head to its last byte.

use std::time::Instant;

use howdah_http::Status;
use howdah_http::h1::Parsed;
use howdah_site::{Resolution, Resolved, Site};

use super::access::Record;
use super::answer::Answer;
use super::connection::{After, Connection};
use super::rules::{self, Arrival};
use super::trouble::Trouble;
use super::workspace::Workspace;
use super::{file, listing, script, send, upstream};

/// Serves the request that `work` holds. Who has read this function and the next knows the server.
///
/// Before it the connection was accepted ([`thread`](super::thread)) and the head was read and
/// checked ([`connection`](super::connection)).
pub(super) async fn serve(
    connection: &mut Connection,
    work: &mut Workspace,
    parsed: Parsed,
) -> After {
    let thread = connection.thread().clone();
    let arrival = Arrival {
        began: thread.clock().now(),
        started: Instant::now(),
        expects_continue: parsed.expect_continue,
    };

    // Resolve: which site, and what the URL stands for there. Answer: from a file, by a script, or
    // with a status.
    let site = thread.sites().find(work.request.host());
    let (answer, user) = match site {
        Some(site) => {
            let resolved = rules::resolve(connection, work, site, &arrival).await;
            answer(connection, work, site, &arrival, resolved).await
        }
        None => (Some(Answer::error(Status::MISDIRECTED_REQUEST)), None),
    };
    let Some(answer) = answer else {
        return After::Close;
    };

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
        user: user.as_deref(),
        began: arrival.began,
        took: arrival.started.elapsed(),
        request: &work.request,
        status,
        sent: sent.bytes,
        complete: sent.complete,
    });
    sent.after
}

/// What a request gets that stands for `resolved`, and who sent it, as far as a password has told.
/// An error is answered as the site's directives want it. No answer: nobody is left to get one.
async fn answer(
    connection: &mut Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    mut resolved: Resolved,
) -> (Option<Answer>, Option<Vec<u8>>) {
    let mut errors = 0;
    loop {
        let is_error = errors > 0;
        let Resolved { resolution, mut ruled } = resolved;
        let rules = ruled.as_mut();
        let made = match resolution {
            Resolution::File { path, file } => {
                file::answer(connection, work, site, arrival, rules, (path, file))
            }
            Resolution::Php(found) => {
                let made =
                    script::answer(connection, work, site, arrival, rules, &found, is_error).await;
                work.scratch.reuse(found.into_path());
                made
            }
            Resolution::Proxy { upstream, target } => {
                let to = (upstream, &target[..]);
                upstream::answer(connection, work, site, arrival, rules, to, is_error).await
            }
            Resolution::Discard { most } => {
                let wait = arrival.expects_continue;
                match connection.discard_body(work, wait, most).await {
                    Ok(()) => {
                        resolved = rules::resolve(connection, work, site, arrival).await;
                        continue;
                    }
                    Err(error) => {
                        Err(Trouble::body(connection, &work.request, site, &error).into())
                    }
                }
            }
            Resolution::Listing { path } => {
                listing::answer(connection, work, site, arrival, rules, path)
            }
            other => rules::dress(connection, work, site, arrival, rules, Answer::of(other)),
        };
        let user = ruled.as_ref().and_then(|ruled| ruled.state.user.clone());
        rules::complain(connection, work, site, ruled.as_mut());
        let failed = match made {
            Ok(answer) if is_error => return (Some(answer.of_trouble()), user),
            Ok(answer) => return (Some(answer), user),
            Err(failed) => failed,
        };
        let Some(status) = connection.thread().report_failed(&failed) else {
            return (None, user);
        };
        if ruled.is_none() || errors == MOST_ERRORS {
            return (Some(Answer::error(status).of_trouble()), user);
        }
        errors += 1;
        resolved = rules::error(connection, work, site, arrival, ruled, status);
    }
}

/// An error's page may fail itself; then the first error is answered without it.
const MOST_ERRORS: u32 = 2;
