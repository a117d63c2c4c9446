//! Answering from a file.

use howdah_files::{self as files, FileBody};
use howdah_site::DocumentPath;

use super::answer::{Answer, Body, Head};
use super::thread::Thread;
use super::workspace::Workspace;

/// What the request in `work` gets of the file at `path`.
pub(super) fn answer(thread: &Thread, work: &mut Workspace, path: DocumentPath) -> Answer {
    let answer = thread.store().answer(&work.request, &path);
    work.scratch.reuse(path);
    match answer {
        files::Answer::Prepared { head, body } => Answer {
            head: Head::Prepared(head),
            body: body.into(),
        },
        files::Answer::Composed { head, body, .. } => Answer {
            head: Head::Plain(head),
            body: body.into(),
        },
        files::Answer::Status(status) => Answer::error(status),
    }
}

impl From<FileBody> for Body {
    fn from(body: FileBody) -> Body {
        match body {
            FileBody::None => Body::none(),
            FileBody::Memory(bytes, range) => Body::Memory(bytes, range),
            FileBody::File { file, offset, length } => Body::File { file, offset, length },
            FileBody::Multipart(parts) => Body::Pieces(parts.into_iter().map(Body::from).collect()),
        }
    }
}
