//! Answering with a file that a script has named (`X-Sendfile`, `X-Accel-Redirect`).
//!
//! The script has decided that the client may have the file, so directives about access do not
//! count. The fields that the script has set are kept, and take the place of the file's own;
//! conditions and ranges of the request are answered as for any file.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use howdah_files::{FileAnswer, FileBody, NoAnswer, RequestedPart, ScriptManner, real_path};
use howdah_http::{Fields, ResponseHead, Status};
use howdah_site::{DocumentPath, RuledRequest, Script, Site};
use howdah_sys::descriptor;
use howdah_sys::open::{self, Lookup};

use super::file::{microseconds, named_tag, select};
use crate::body::ResponseBody;
use crate::observe::{RequestError, RespondError};
use crate::pipeline::{RequestContext, Response, ResponseHeadSource, adjust, look_at};

/// Responds with the file that `head`, the head of the script's response, names.
///
/// # Errors
/// 404 if the file is missing, 403 if it may not be sent. The log tells the script and the reason.
pub(super) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    script: &Script,
    mut head: ResponseHead,
) -> Result<Response, RespondError> {
    let path = find(context, site, script, &head).await?;
    let content_type = take_content_type(&mut head.fields);
    take_framing(&mut head.fields);
    let own = ScriptFields {
        content_type: content_type.as_deref(),
        head: &head,
        path: &path,
    };
    let (made, answer) =
        own.answer(context, site).map_err(|none| own.refused(context, script, none))?;
    let named = named_tag(&answer, &context.request.fields);
    let modified = microseconds(answer.representation.modified());
    if let RequestedPart::Failed(failed) = answer.asked {
        let mut response = own.response(*failed, FileBody::None, modified);
        adjust(context, site, ruled, &mut response).await?;
        response.drop_filters();
        return Ok(response);
    }
    let mut response = own.response(made, answer.body, modified);
    if let RequestedPart::NotModified = answer.asked {
        response.representation = Some(answer.representation);
    }
    adjust(context, site, ruled, &mut response).await?;
    Ok(select(response, answer.asked, named))
}

/// Returns the path of the file that the script names. A file that is not in the kernel's memory is
/// looked at outside the event loop first: it may be on a file system that hangs.
async fn find(
    context: &RequestContext<'_, '_>,
    site: &Site,
    script: &Script,
    head: &ResponseHead,
) -> Result<DocumentPath, RespondError> {
    let (mut far, lacks_descriptors) = (Vec::new(), Cell::new(false));
    let real_path = |folder: &Path| {
        let noted = |error| lacks_descriptors.set(descriptor::is_exhausted(&error));
        real_path(folder).map_err(noted).ok()
    };
    let mut found = named(context, site, script, head, |folder| match is_at_hand(folder) {
        true => real_path(folder),
        false => {
            far.push(folder.to_owned());
            None
        }
    });
    if !far.is_empty() {
        look_at(context, site, far).await?;
        found = named(context, site, script, head, real_path);
    }
    if found.is_err() && lacks_descriptors.get() {
        return Err(RequestError::no_descriptors(context.situation()).into());
    }
    let path = found?;
    if !is_at_hand(path.absolute()) {
        look_at(context, site, vec![path.absolute().to_owned()]).await?;
    }
    Ok(path)
}

/// Returns whether the kernel can tell from its memory what is at a path, on a file system that
/// cannot hang.
fn is_at_hand(path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes());
    let found = path.map(|path| open::stat(&path, true, Lookup::Cached));
    !found.is_ok_and(|found| found.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
}

/// Returns the path of the file that the script names. `real_path` is that of a folder.
fn named(
    context: &RequestContext<'_, '_>,
    site: &Site,
    script: &Script,
    head: &ResponseHead,
    real_path: impl FnMut(&Path) -> Option<PathBuf>,
) -> Result<DocumentPath, RespondError> {
    let Some(named) = site.sendfile(&head.fields) else {
        return Err(Status::INTERNAL_SERVER_ERROR.into());
    };
    site.sendfile_path(context.request.host(), script, named, real_path)
        .map_err(|why| {
            let (field, value) = named;
            let what = format!("{}: {} is not sent: {why}", field.name(), value.escape_ascii());
            RequestError::sendfile(context.situation(), script, Status::FORBIDDEN, &what).into()
        })
}

/// The script's part in the response.
struct ScriptFields<'s> {
    content_type: Option<&'s [u8]>,
    /// Without the fields that describe content which is not sent.
    head: &'s ResponseHead,
    path: &'s DocumentPath,
}

impl ScriptFields<'_> {
    /// Returns the answer for the file, and the head of the plain 200 with what the script has set.
    fn answer(
        &self,
        context: &RequestContext<'_, '_>,
        site: &Site,
    ) -> Result<(ResponseHead, FileAnswer), NoAnswer> {
        let manner = ScriptManner {
            is_whole: self.head.status != Status::OK,
            content_type: self.content_type,
            last_modified: self.head.fields.value(b"last-modified"),
            tag: self.head.fields.value(b"etag"),
        };
        let thread = context.thread;
        let user = thread.pool_user(site.number());
        thread.store().answer_for_script(context.request, self.path, user, manner)
    }

    /// Returns the response with that content. `head` is that of the file's answer; the script's
    /// status takes the place of 200, and its fields are added.
    fn response(&self, mut head: ResponseHead, body: FileBody, modified: Option<i64>) -> Response {
        if head.status == Status::OK {
            head.status = self.head.status;
            head.reason.clone_from(&self.head.reason);
        }
        let made = std::mem::take(&mut head.fields);
        for (name, value) in self.head.fields.iter() {
            if !made.contains(name) {
                head.fields.push(name, value);
            }
        }
        for (name, value) in made.iter() {
            head.fields.push(name, value);
        }
        let mut response = Response::new(ResponseHeadSource::Own(head), ResponseBody::from(body));
        response.modified = modified;
        response.is_own = response.status() == Status::RANGE_NOT_SATISFIABLE;
        response
    }

    fn refused(
        &self,
        context: &RequestContext<'_, '_>,
        script: &Script,
        none: NoAnswer,
    ) -> RespondError {
        let NoAnswer::Status(status) = none else {
            return RequestError::no_answer(context.situation(), none);
        };
        let why = match status {
            Status::NOT_FOUND => "it does not exist".to_owned(),
            Status::FORBIDDEN => {
                "it is not a regular file, or the user of the site's scripts or the \
                                  server's user may not read it"
                    .to_owned()
            }
            other => other.to_string(),
        };
        let what = format!("{} is not sent: {why}", self.path.absolute().display());
        RequestError::sendfile(context.situation(), script, status, &what).into()
    }
}

/// Takes the media type that the script has set. PHP adds its default type as the last line and
/// spells the name as here; that type describes a page, and the script has made none.
fn take_content_type(fields: &mut Fields) -> Option<Vec<u8>> {
    let is_default = fields.iter().last().is_some_and(|(name, value)| {
        name == b"Content-type" && !value.windows(9).any(|part| part == b";charset=")
    });
    let set = fields.value(b"content-type").map(<[u8]>::to_vec);
    fields.remove(b"content-type");
    set.filter(|_| !is_default)
}

/// Removes the fields that name the file, and those that describe the content which the script has
/// not made.
fn take_framing(fields: &mut Fields) {
    for name in [
        "X-Sendfile",
        "X-Accel-Redirect",
        "Accept-Ranges",
        "Content-Encoding",
        "Content-Length",
        "Content-Range",
        "Transfer-Encoding",
    ] {
        fields.remove(name.as_bytes());
    }
}
