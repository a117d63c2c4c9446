//! The answers of the admin listener.

use howdah_http::{Request, Status};

use super::Admin;
use crate::status::metrics::{MetricsFormat, metrics};

/// An answer.
#[derive(Debug)]
pub(super) struct AdminAnswer {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) content: String,
}

const TEXT: &str = "text/plain; charset=utf-8";
const PAGE: &str = include_str!("page.html");

impl AdminAnswer {
    fn new(content_type: &'static str, content: String) -> AdminAnswer {
        AdminAnswer {
            status: Status::OK,
            content_type,
            content,
        }
    }

    /// An answer that names its status.
    pub(super) fn error(status: Status) -> AdminAnswer {
        let content = format!("{} {}\n", status.code(), status.reason());
        AdminAnswer { status, content_type: TEXT, content }
    }
}

/// Answers a request whose method and origin were checked.
pub(super) fn of(admin: &Admin, request: &Request) -> AdminAnswer {
    match request.path() {
        b"/" => AdminAnswer::new("text/html; charset=utf-8", PAGE.to_owned()),
        b"/metrics" => {
            let format = MetricsFormat::of_accept(request.fields.value(b"accept"));
            AdminAnswer::new(format.content_type(), metrics(&admin.snapshot(), format))
        }
        b"/status" => match serde_json::to_string(&admin.snapshot()) {
            Ok(json) => AdminAnswer::new("application/json", json + "\n"),
            Err(_) => AdminAnswer::error(Status::INTERNAL_SERVER_ERROR),
        },
        b"/healthz" => AdminAnswer::new(TEXT, "ok\n".to_owned()),
        b"/readyz" => ready(admin),
        _ => AdminAnswer::error(Status::NOT_FOUND),
    }
}

/// 200 if visitors get answers; 503 while the server stops, while a pool has no worker, or while an
/// address cannot be listened on. A site whose certificate cannot be used is named, but the others
/// stay reachable: one site's mistake must not take the machine away from all.
fn ready(admin: &Admin) -> AdminAnswer {
    let shared = &admin.shared;
    let mut obstacles = Vec::new();
    if admin.is_draining() {
        obstacles.push("the server is stopping".to_owned());
    }
    let pools = shared.pools.iter().flatten();
    let empty: Vec<&str> = pools.filter(|pool| !pool.is_ready()).map(|pool| pool.name()).collect();
    if !empty.is_empty() {
        obstacles.push(format!("no worker is ready: {}", empty.join(", ")));
    }
    let missing = &shared.facts.missing_listeners;
    obstacles.extend(missing.iter().map(|missing| missing.reason.clone()));
    if !obstacles.is_empty() {
        return AdminAnswer {
            content: obstacles.join("\n") + "\n",
            ..AdminAnswer::error(Status::SERVICE_UNAVAILABLE)
        };
    }
    let sites = shared.config.sites.iter().enumerate();
    let closed = sites.filter_map(|(number, site)| {
        let why = shared.tls.as_ref()?.closed(number)?;
        Some(format!("site {} has no https: {why}\n", site.name))
    });
    AdminAnswer::new(TEXT, "ready\n".to_owned() + &closed.collect::<String>())
}
