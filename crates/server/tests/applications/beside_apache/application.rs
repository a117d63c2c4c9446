//! The facts about an application: its package, its configuration, its use, and its differences.

use crate::browser::Browser;
use crate::server::Server;

use super::compare::Part;
use super::stage::Stage;

/// One of Debian's web applications.
pub(crate) struct Application {
    /// The name of Debian's package.
    pub(crate) name: &'static str,
    /// Files without which the application is left out.
    pub(crate) needs: &'static [&'static str],
    /// The document root; `@folder@` is the stage's folder.
    pub(crate) root: &'static str,
    /// Howdah's keys of the site besides `hosts` and `root`.
    pub(crate) site: &'static str,
    /// Apache's directives of the virtual host, which mean the same as `site`.
    pub(crate) virtual_host: &'static str,
    /// Whether it needs a database server.
    pub(crate) database: bool,
    /// The preparations of an administrator before the server is started.
    pub(crate) set_up: fn(&mut Stage),
    /// Installs and uses the application. Returns the browser of the user who is logged in.
    pub(crate) work: for<'s> fn(&Stage, &'s Server) -> Browser<'s>,
    /// The work that `work` has done, for the page.
    pub(crate) done: &'static str,
    /// Where the crawl begins.
    pub(crate) starts: &'static [&'static str],
    /// Pages of a crawl at most.
    pub(crate) most: usize,
    /// Parts of the URLs that the crawl leaves out, because they change something.
    pub(crate) leave: &'static [&'static str],
    /// Text of pages that is never the same twice: what is between two texts.
    pub(crate) volatile: &'static [(&'static str, &'static str)],
    /// The differences that belong to this application.
    pub(crate) explained: &'static [Explained],
    /// Texts of the errors that the application itself causes in the log.
    pub(crate) logged: &'static [&'static str],
}

/// A difference that is as it should be, and the reason.
pub(crate) struct Explained {
    pub(crate) part: Part,
    /// A text of the page's URL; empty is every page.
    pub(crate) url: &'static str,
    /// A text of Apache's answer.
    pub(crate) apache: &'static str,
    /// A text of Howdah's answer.
    pub(crate) howdah: &'static str,
    pub(crate) reason: &'static str,
}
