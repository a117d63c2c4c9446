//! PHP: the requests that scripts get, their responses, and their failures.

mod children;
mod failures;
mod figures;
mod functions;
mod growth;
mod headers;
mod held_releases;
mod output;
mod preload;
mod ranges;
mod releases;
mod request;
mod response;
mod sessions;
mod settings;
mod slow_log;
mod streaming;
mod sub_requests;
mod versions;
