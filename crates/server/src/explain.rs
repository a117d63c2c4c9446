//! `howdah explain`: the answer that a request would get, and the reason: every file, section,
//! directive and condition in the order in which they act. The request is resolved by the server's
//! code, against the same disk. Scripts are not run.

mod arrival;
mod encryption;
mod host;
mod on_demand;
mod pool_pages;
mod question;
mod resolving;
mod show;

use std::cell::RefCell;
use std::sync::Arc;

use howdah_config::Config;
use howdah_files::{DirectiveCache, DirectiveFlaw, FileStore, StoreLimits};
use howdah_htaccess::WorkBudget;
use howdah_htaccess::modules::auth::password;
use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::trace::TraceEvent;
use howdah_http::{Request, ResponseHead, Scheme};
use howdah_site::{Scratch, Site, Sites};

pub(crate) use self::arrival::Arrival;
use self::host::pool_user;
pub(crate) use self::question::ExplainRequest;
use self::question::{peer, request};
use self::resolving::{ResolvingState, now};
pub(crate) use self::show::{json, text};
use crate::front::use_media_types;
use crate::host::{ComparedPasswords, Passwords};
use crate::supervisor::isolation::site_folders;

/// The answer that a request would get, with every step that led to it.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) request: Request,
    /// The listeners on which the request arrives; `None` for a request of a trusted proxy.
    pub(crate) arrival: Option<Arrival>,
    pub(crate) site: String,
    /// The document root.
    pub(crate) root: String,
    pub(crate) events: Vec<TraceEvent>,
    /// The variables that directives have set.
    pub(crate) set: Vec<String>,
    /// The lines for the error log.
    pub(crate) complaints: Vec<String>,
    /// Remarks on the answer. No log has these lines.
    pub(crate) notes: Vec<String>,
    pub(crate) outcome: ExplainedOutcome,
    /// The lane of the pool that the request waits in; `None` without lanes, and for other
    /// requests.
    pub(crate) lane: Option<String>,
    /// The head of the response, as far as the server makes it.
    pub(crate) head: ResponseHead,
    /// The filters that the content passes.
    pub(crate) filters: Vec<Filter>,
    /// The work that the directives took.
    pub(crate) work: ExplainedWork,
}

/// The work that directives took, in the steps of `htaccess_work`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplainedWork {
    /// For the request.
    pub(crate) request: u64,
    /// For the response's head.
    pub(crate) response: u64,
    /// The limit of each.
    pub(crate) most: u64,
}

/// The source of the response's content.
#[derive(Debug)]
pub(crate) enum ExplainedOutcome {
    /// A file.
    File(String),
    /// The output of a script: its path, the variables that directives have set, and PHP's
    /// settings.
    Script {
        path: String,
        variables: NamesAndValues,
        settings: NamesAndValues,
    },
    /// A folder's list.
    Listing(String),
    /// The response of an upstream: the URL there.
    Proxy(String),
    /// The page of a pool: the key that names its path.
    PoolPage(&'static str),
    /// An error, a redirect, or a text of the directives.
    Page,
}

/// Names and values.
pub(crate) type NamesAndValues = Vec<(String, String)>;

/// Explains the request for the sites of `config`.
///
/// # Errors
/// The question cannot be asked, such as with a host that no site answers for. Says why.
pub(crate) fn explain(config: &Config, question: &ExplainRequest) -> Result<Explanation, String> {
    let sites = Sites::compile(config);
    let mut request = request(config, question)?;
    let arrival = arrival::find(config, &sites, question, &request);
    let listener = arrival.as_ref().and_then(|arrival| arrival.listener);
    let peer = peer(config, question, (&mut request, listener))?;
    let host = String::from_utf8_lossy(request.host()).into_owned();
    let site = match listener {
        Some(listener) => sites.find_on(listener, request.host()),
        None => sites.find_anywhere(request.host()),
    };
    let site =
        site.ok_or_else(|| format!("no site answers for the host {host}: it would get 421"))?;
    if request.scheme == Scheme::Https && !config.trusted_proxies.contains(question.from) {
        encryption::check_handshake(config, site, &host)?;
    }
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    if let Err(warning) = use_media_types(config) {
        told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(warning);
    }
    let directives = {
        let told = Arc::clone(&told);
        let tell = move |_: &Site, flaw: &DirectiveFlaw| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            told.push(flaw.to_string());
        };
        let directives = DirectiveCache::new(&sites, config.limits.htaccess_size, Box::new(tell));
        directives.with_site_folders(site_folders::of_config(config))
    };
    let store =
        RefCell::new(FileStore::with_directives(StoreLimits::default(), Arc::new(directives)));
    let budget = || WorkBudget::new(config.limits.htaccess_work).with_jit(config.pcre_jit);
    let budgets = [budget(), budget()];
    let mut state = ResolvingState {
        site,
        store,
        passwords: Passwords::start(password::fits, 1).map_err(|error| error.to_string())?,
        compared: ComparedPasswords::default(),
        pool_user: pool_user(site),
        scratch: Scratch::default(),
        client: peer.client(&request, now()),
        budgets: &budgets,
    };
    let mut explanation = state.run();
    explanation.arrival = arrival;
    let flaws =
        std::mem::take(&mut *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    explanation.complaints.splice(0..0, flaws);
    // The file and the failing request report the same mistake.
    explanation.complaints.dedup();
    pool_pages::answer(config, site, peer.remote.ip(), &mut explanation);
    let redirected = encryption::redirect(config, site, &request, &mut explanation);
    explanation.notes.extend(redirected.map(str::to_owned));
    explanation.notes.extend(on_demand::note(config, site, &host));
    Ok(explanation)
}

#[cfg(test)]
mod tests;
