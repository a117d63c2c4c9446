//! Debian's web applications on Howdah and on Apache with its module of PHP.
//!
//! Each application is used as its package installs it: its document root, its links into other
//! packages, its settings in `/etc` and its data in `/var/lib`. Both servers get a copy of settings
//! and data, which they see in the place of the package's by a mount namespace of their own. On
//! both, a browser goes through the application's installer, logs in, writes and uploads. Then a
//! crawl follows every link of both sites, as a visitor and as the logged-in user, and compares
//! status, fields and content. Each difference must be among the explained ones.
//!
//! `make test-applications` runs all of it, and writes `docs/applications.md`.

mod adminer;
pub(crate) mod apache;
mod application;
mod cacti;
mod compare;
mod crawl;
mod dokuwiki;
mod explained;
mod mediawiki;
mod page;
mod phpmyadmin;
mod roundcube;
mod shaarli;
mod simplesamlphp;
mod stage;
mod tt_rss;
mod wordpress;

use std::io::Write;
use std::panic::resume_unwind;
use std::thread;

use crate::browser::Browser;
use crate::packages::installed;
use crate::support::is_root;
use application::Application;
use compare::Mask;
use crawl::{Findings, View};
use stage::{Engine, Stage};

/// Every application, in the order of the page.
const ALL: &[Application] = &[
    wordpress::WORDPRESS,
    mediawiki::MEDIAWIKI,
    dokuwiki::DOKUWIKI,
    phpmyadmin::PHPMYADMIN,
    adminer::ADMINER,
    shaarli::SHAARLI,
    simplesamlphp::SIMPLESAMLPHP,
    tt_rss::TT_RSS,
    roundcube::ROUNDCUBE,
    cacti::CACTI,
];

/// With `APPLICATION=NAME` only that one, and no page is written.
#[test]
#[ignore = "minutes long, and as root only: make test-applications"]
fn every_application_answers_as_on_apache() {
    assert!(is_root(), "only root can put folders into a server's view of the system");
    let only = std::env::var("APPLICATION").ok().filter(|name| !name.is_empty());
    let chosen = ALL
        .iter()
        .filter(|application| only.as_ref().is_none_or(|name| application.name == name));
    let mut results = Vec::new();
    for application in chosen {
        if installed(application.needs) {
            let findings = run(application);
            println!("{}", page::section(application, &findings));
            std::io::stdout().flush().unwrap();
            results.push((application, findings));
        }
    }
    assert!(!results.is_empty(), "no application is called {only:?}");
    let unexplained: Vec<_> = results.iter().flat_map(|(_, found)| found.unexplained()).collect();
    assert!(unexplained.is_empty(), "differences without a reason:\n{}", unexplained.join("\n"));
    if only.is_none() {
        page::write(&results);
    }
}

/// Installs and uses the application on both servers side by side, then crawls both.
fn run(application: &Application) -> Findings {
    let (apache, howdah) = both(|engine| Stage::new(application, engine));
    let (apache_server, howdah_server) = (apache.start(application), howdah.start(application));
    let sides = [(&apache, &apache_server), (&howdah, &howdah_server)];
    let users = thread::scope(|threads| {
        let work = sides.map(|(stage, server)| threads.spawn(|| (application.work)(stage, server)));
        work.map(|user| user.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let visitors = sides.map(|(_, server)| Browser::new(server));
    let masks = sides.map(|(stage, _)| Mask::new(stage, application.volatile));
    let mut findings = Findings::default();
    for browsers in [&visitors, &users] {
        let views = [0, 1].map(|side| View {
            browser: &browsers[side],
            mask: &masks[side],
        });
        findings.add(application, crawl::compare(application, &views));
    }
    drop(apache_server);
    howdah_server.stop_knowing(application.logged);
    findings
}

/// The results of `make` for Apache and for Howdah, made at the same time.
fn both<T: Send>(make: impl Fn(Engine) -> T + Sync) -> (T, T) {
    thread::scope(|threads| {
        let howdah = threads.spawn(|| make(Engine::Howdah));
        let apache = make(Engine::Apache);
        (apache, howdah.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
