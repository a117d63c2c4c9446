//! HTTP/3: requests and responses, streams beside each other, priorities, limits, moves, reloads,
//! and a foreign client.

mod bundles;
pub mod client;
mod client_certificates;
mod early_data;
mod foreign;
mod frames;
mod heads;
mod life;
pub mod limits;
mod priorities;
mod streams;

use self::client::Http3;
use crate::site::{Site, far_limits, far_php};
use crate::support::Folder;
use crate::tls::client::{Authority, files};

/// A site `a.example` with HTTP/3, and the authority that its clients trust.
pub struct Served {
    pub site: Site,
    pub authority: Authority,
    /// The certificate.
    _files: Folder,
}

/// The special settings of a test's server.
#[derive(Default)]
pub struct Special<'o> {
    /// Lines of `[limits]`.
    pub limits: &'o str,
    /// Lines of `[http3]`.
    pub http3: &'o str,
    /// Further text of the site's `tls`.
    pub tls: &'o str,
    /// Lines of the site.
    pub site: &'o str,
    /// Lines of `[site.php]`.
    pub php: &'o str,
}

impl Served {
    pub fn new(content: &[(&str, &str)]) -> Served {
        Served::with(content, &Special::default())
    }

    pub fn with(content: &[(&str, &str)], special: &Special<'_>) -> Served {
        let Special { limits, http3, tls, site, php } = special;
        let limits = format!("drain_timeout = \"5m\"\n{}{limits}", far_limits(limits));
        let authority = Authority::new();
        let pair = authority.certify(&["a.example", "localhost"]);
        let folder = files(&[("a", &pair)]);
        let php = match php.contains("workers") {
            true => (*php).to_owned(),
            false => format!("workers = 2\n{php}"),
        };
        let far_php = far_php(&php);
        let config = format!(
            "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\nthreads = 2\n\
                control = \"control\"\n[limits]\n{limits}\n\
             [http3]\n{http3}\n[log]\naccess = \"access.log\"\n[[site]]\nname = \"a\"\n\
             hosts = [\"a.example\", \"localhost\"]\nroot = \"public\"\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\"{tls} }}\n{site}\n[site.php]\n\
             {far_php}{php}\n\
             state_dir = \"state\"\n",
            folder.path().display()
        );
        Served {
            site: configured(content, &config),
            authority,
            _files: folder,
        }
    }

    /// A server with HTTP/3 of a test's own configuration. `files` has the certificate.
    pub fn of(site: Site, authority: Authority, files: Folder) -> Served {
        Served { site, authority, _files: files }
    }

    /// A new connection of a new client.
    pub fn connect(&self) -> Http3 {
        Http3::connect(self.site.server.address(), &self.authority)
    }
}

/// A server with this configuration, and with HTTP/3.
pub fn configured(content: &[(&str, &str)], config: &str) -> Site {
    // The port is free for TCP; another test's client may have it for UDP.
    let start = || Site::configured(content, config);
    let has_port = |site: &Site| site.log_lines("no HTTP/3 on").is_empty();
    let site = std::iter::repeat_with(start).take(20).find(has_port);
    site.expect("a free UDP port")
}
