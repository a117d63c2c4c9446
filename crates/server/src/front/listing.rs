//! Listing a folder.

use std::rc::Rc;

use howdah_files::Listed;
use howdah_htaccess::host::{Probe, ProbeKind};
use howdah_htaccess::modules::autoindex::Entry;
use howdah_htaccess::modules::core::EtagParts;
use howdah_http::{ResponseHead, Status, date, etag};
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
    ruled: Option<&mut Rc<Ruled>>,
    path: DocumentPath,
) -> Result<Answer, Failed> {
    let Some(ruled) = ruled else {
        return Err(Status::FORBIDDEN.into());
    };
    let mut host = connection.thread().host(site, arrival.started);
    let listed = host.store.list(&path);
    work.scratch.reuse(path);
    let Some(listed) = listed else {
        return Err(Status::FORBIDDEN.into());
    };
    let entries = listed.into_iter().map(entry).collect();
    let client = connection.client(&work.request, arrival.began);
    let page = howdah_site::list(
        site,
        &client,
        Rc::make_mut(ruled),
        entries,
        &mut host,
        &mut work.scratch,
    );
    drop(host);
    let mut head = ResponseHead::new(ruled.state.status);
    // A charset from a directive may hold anything.
    if head.push(b"Content-Type", &page.content_type).is_err() {
        head.fields.push(b"Content-Type", b"text/html");
    }
    if let Some(folder) = page.tracked {
        let parts = ruled.settings.core.as_ref().map(|core| core.etag_parts());
        push_date(&mut head, &folder, parts != Some(EtagParts::NONE));
    }
    let all = 0..page.content.len();
    let body = Body::Memory(page.content.into(), all);
    rules::dress(connection, work, site, arrival, Some(ruled), Answer::new(Head::Plain(head), body))
}

/// The folder's Last-Modified and ETag. It changes when an entry comes or goes, not when a file's
/// content does.
fn push_date(head: &mut ResponseHead, folder: &Probe, has_tag: bool) {
    let Ok(microseconds) = u64::try_from(folder.modified) else {
        return; // Before 1970 there is no date for it.
    };
    let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
    head.fields.push(b"Last-Modified", &date::format(seconds));
    if has_tag {
        let nanoseconds = u32::try_from(rest * 1000).unwrap_or_default();
        let tag = etag::of_file(folder.size, seconds, nanoseconds, b"");
        head.fields.push(b"ETag", &tag);
    }
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
