//! `.htaccess` files in a running server: live changes, closed folders, and no delays for other
//! requests.

mod costly;
mod errors;
mod filters;
mod growth;
mod listing;
mod live;
mod passwords;
mod scripts;
mod upstream_answers;
mod upstreams;
