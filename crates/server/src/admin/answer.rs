//! The answers of the admin listener.

use howdah_http::{Request, Status};

use super::Admin;
use crate::status::metrics::{MetricsFormat, metrics};

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) content: String,
}

const TEXT: &str = "text/plain; charset=utf-8";
const PAGE: &str = include_str!("page.html");

impl Answer {
    fn new(content_type: &'static str, content: String) -> Answer {
        Answer {
            status: Status::OK,
            content_type,
            content,
        }
    }

    /// An answer that names its status.
    pub(super) fn error(status: Status) -> Answer {
        let content = format!("{} {}\n", status.code(), status.reason());
        Answer { status, content_type: TEXT, content }
    }
}

/// Answers a request whose method and origin were checked.
pub(super) fn of(admin: &Admin, request: &Request) -> Answer {
    match request.path() {
        b"/" => Answer::new("text/html; charset=utf-8", PAGE.to_owned()),
        b"/metrics" => {
            let format = MetricsFormat::of_accept(request.fields.value(b"accept"));
            Answer::new(format.content_type(), metrics(&admin.snapshot(), format))
        }
        b"/status" => match serde_json::to_string(&admin.snapshot()) {
            Ok(json) => Answer::new("application/json", json + "\n"),
            Err(_) => Answer::error(Status::INTERNAL_SERVER_ERROR),
        },
        b"/healthz" => Answer::new(TEXT, "ok\n".to_owned()),
        b"/readyz" => ready(admin),
        _ => Answer::error(Status::NOT_FOUND),
    }
}

/// 200 if visitors get answers; 503 while the server stops, or while a pool has no worker.
fn ready(admin: &Admin) -> Answer {
    let missing = match admin.is_draining() {
        true => Some("the server is stopping".to_owned()),
        false => {
            let pools = admin.shared.pools.iter().flatten();
            let empty: Vec<&str> =
                pools.filter(|pool| !pool.is_ready()).map(|pool| pool.name()).collect();
            (!empty.is_empty()).then(|| format!("no worker is ready: {}", empty.join(", ")))
        }
    };
    match missing {
        None => Answer::new(TEXT, "ready\n".to_owned()),
        Some(reason) => Answer {
            content: format!("{reason}\n"),
            ..Answer::error(Status::SERVICE_UNAVAILABLE)
        },
    }
}
