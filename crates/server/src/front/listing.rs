//! Listing a folder.

use howdah_files::Listed;
use howdah_htaccess::modules::autoindex::Entry;
use howdah_htaccess::world::ProbeKind;
use howdah_http::{ResponseHead, Status};
use howdah_site::{DocumentPath, Ruled, Site};

use super::answer::{Answer, Body, Head};
use super::connection::Connection;
use super::rules::{self, Arrival};
use super::trouble::Failed;
use super::workspace::Workspace;

/// What the request in `work` gets of the folder at `path`.
pub(super) fn answer(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<&mut Ruled>,
    path: DocumentPath,
) -> Result<Answer, Failed> {
    let Some(ruled) = ruled else {
        return Err(Status::FORBIDDEN.into());
    };
    let mut outside = connection.thread().outside(site, arrival.started);
    let listed = outside.store.list(&path);
    work.scratch.reuse(path);
    let Some(listed) = listed else {
        return Err(Status::FORBIDDEN.into());
    };
    let entries = listed.into_iter().map(entry).collect();
    let client = connection.client(&work.request, arrival.began);
    let page = howdah_site::list(site, &client, ruled, entries, &mut outside, &mut work.scratch);
    drop(outside);
    let mut head = ResponseHead::new(ruled.state.status);
    // A charset from a directive may hold anything.
    if head.push(b"Content-Type", &page.content_type).is_err() {
        head.fields.push(b"Content-Type", b"text/html");
    }
    let all = 0..page.content.len();
    let body = Body::Memory(page.content.into(), all);
    rules::dress(
        connection,
        work,
        site,
        arrival,
        Some(ruled),
        Answer::new(Head::Plain(head), body),
    )
}

fn entry(listed: Listed) -> Entry {
    Entry {
        name: listed.name.into_vec(),
        is_directory: listed.probe.kind == ProbeKind::Directory,
        size: listed.probe.size,
        modified: listed.probe.modified,
        content_type: None,
        encoding: None,
    }
}
