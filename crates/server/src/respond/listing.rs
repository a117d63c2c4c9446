//! Listing a folder.

use std::rc::Rc;

use howdah_files::ListedName;
use howdah_htaccess::host::{Probe, ProbeKind};
use howdah_htaccess::modules::autoindex::FolderEntry;
use howdah_htaccess::modules::core::EtagParts;
use howdah_http::{ResponseHead, Status, date, etag};
use howdah_site::{DocumentPath, RuledRequest, Site};

use crate::body::ResponseBody;
use crate::observe::RespondError;
use crate::pipeline::{RequestContext, Response, ResponseHeadSource, adjust, list};

/// Lists the folder at `path`.
///
/// # Errors
/// 403 where the folder may not be listed, 503 where too many listings are made already.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    path: DocumentPath,
) -> Result<Response, RespondError> {
    let Some(ruled) = ruled else {
        return Err(Status::FORBIDDEN.into());
    };
    let page = list(context, site, ruled, path).await?;
    let mut head = ResponseHead::new(ruled.state.status);
    // A charset from a directive may hold anything.
    if head.push(b"Content-Type", &page.content_type).is_err() {
        head.fields.push(b"Content-Type", b"text/html");
    }
    if page.varies {
        head.fields.push(b"Vary", b"Accept");
    }
    if let Some(folder) = page.tracked {
        let parts = ruled.settings.core.as_ref().map(|core| core.etag_parts());
        push_date(&mut head, &folder, parts != Some(EtagParts::NONE));
    }
    let mut response =
        Response::new(ResponseHeadSource::Own(head), ResponseBody::whole(page.content.into()));
    adjust(context, site, Some(ruled), &mut response).await?;
    Ok(response)
}

/// Adds the folder's Last-Modified and ETag. They change when an entry is added or removed, not
/// when a file's content changes.
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

/// Returns what a listing says of a name in the folder.
pub(crate) fn entry(listed: ListedName) -> FolderEntry {
    FolderEntry {
        name: listed.name.into_vec(),
        is_directory: listed.probe.kind == ProbeKind::Directory,
        size: listed.probe.size,
        modified: listed.probe.modified,
        content_type: None,
        encoding: None,
    }
}
