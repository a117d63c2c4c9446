//! Real PHP applications on the real server, used over HTTP as their users' browsers do.
//!
//! ```text
//! wordpress_mariadb   Debian's WordPress on a MariaDB of the test's own
//! wordpress_sqlite    the WordPress of npm's @wp-playground/wordpress-builds on SQLite
//! wordpress_https     the same over https, with HTTP/1.1, HTTP/2 and HTTP/3
//! dokuwiki            Debian's DokuWiki
//! symfony             a front controller on Debian's Symfony components
//! beside_apache       more of Debian's applications beside Apache; a target of its own
//! ```
//!
//! Each test has a folder, ports and daemons of its own, and leaves nothing behind. A test whose
//! application is not installed is skipped, and the reason printed; `scripts/install-packages.sh
//! build serve test` installs all applications.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A step that cannot be done fails the test.

mod assets;
mod beside_apache;
mod browser;
mod dokuwiki;
mod folder;
mod guide;
mod html;
mod http3;
mod mariadb;
mod npm;
mod packages;
mod picture;
mod server;
#[allow(unused_imports)] // Of what other test programs use.
#[path = "../support/mod.rs"]
mod support;
mod symfony;
mod wordpress;
mod wordpress_https;
mod wordpress_mariadb;
mod wordpress_sqlite;
