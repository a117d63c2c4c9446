//! `.htaccess` files in a running server: live, closed where they must be, and in nobody's way.

mod errors;
mod filters;
mod listing;
mod live;
mod passwords;
mod scripts;
mod upstreams;
