//! Resolves a request's path.
//!
//! ```text
//! method ─ CONNECT: 405 · OPTIONS *: 200
//! path ─── normalise (400, 404) ─ names that are never served (403, 404)
//! try ──── $uri     file ─────── by its name: run, refused (403), or sent
//!                   folder ───── index file; without its final slash: 301
//!                   nothing ──── the longest prefix that is a script, the rest is PATH_INFO
//!          $uri/    folder ───── as above, and without an index file: 403
//!          /x.php   the script ─ for the URL that it answers for
//!          =404
//! ```

mod methods;
mod requested_file;

use howdah_config::TryStep;
use howdah_htaccess::work::{Exhausted, FOLDER, SHALLOW};
use howdah_htaccess::{ClientRequest, RequestReads};
use howdah_http::{Content, Method, Request, Status};
use memchr::{memchr_iter, memrchr};

pub(crate) use self::methods::{ALLOW_FILE, options};
use self::methods::{not_allowed, refuse_trace, without_path};
pub use self::requested_file::{logged_path, requested_file};
use crate::documents::{DocumentLook, FileHandle, PathKind, SiteHost};
use crate::error::error;
use crate::names::FileClass;
use crate::normal::normalize;
use crate::path::{DocumentPath, Scratch};
use crate::phases::{KnownPath, RequestEvaluation};
use crate::redirect;
use crate::resolution::{Resolution, Resolved, Script};
use crate::resolution_cache::{CacheKey, CachedResolution, ResolutionCache};
use crate::sites::Site;

/// Resolves the request of `client` on `site`. Where no directive applies, the usual request asks
/// `host` one question and allocates nothing: `scratch` lends the memory of a path that was [given
/// back](Scratch::reuse).
pub fn resolve(
    site: &Site,
    client: &ClientRequest<'_>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> Resolved {
    let resolved = match unruled(site, client, host, scratch) {
        Ok(WithoutRules::Resolved(resolution)) => Resolved { resolution, ruled: None },
        Ok(WithoutRules::Ruled(start)) => {
            RequestEvaluation::new(site, *client, host, scratch).run(start, None)
        }
        Err(status) => error(site, client, None, status, host, scratch),
    };
    refuse_trace(client, resolved)
}

/// Resolves the request of `client` as [`resolve`] does, from `cache` where an earlier request
/// agrees with this one.
pub fn resolve_cached<P: Default>(
    site: &Site,
    client: &ClientRequest<'_>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
    cache: &mut ResolutionCache<P>,
) -> CachedResolution<P> {
    let uncached = |resolved| CachedResolution { resolved, prepared: None };
    let reads_only =
        matches!(client.method(), Method::Get | Method::Head) && client.content() == Content::None;
    let Some(epoch) = host.epoch().filter(|_| reads_only) else {
        return uncached(resolve(site, client, host, scratch));
    };
    let mut asked = match PathSearch::new(site, client.request(), scratch) {
        Ok(asked) => asked,
        Err(status) => return uncached(error(site, client, None, status, host, scratch)),
    };
    let query = asked.query;
    let hash = cache.hash(&asked.path, query);
    let entry = hash.and_then(|hash| cache.find(hash, client, asked.cache_key(), epoch));
    if let Some(entry) = entry {
        return entry.resolved(&mut asked.path);
    }
    if asked.spend_on_depth(client).is_err() {
        return uncached(Resolved::EXHAUSTED);
    }
    let start = match asked.find(host, scratch) {
        WithoutRules::Ruled(start) => start,
        WithoutRules::Resolved(resolution) => {
            return uncached(Resolved { resolution, ruled: None });
        }
    };
    let hash = hash.or_else(|| {
        cache.begin();
        cache.hash(&again(site, client)?.path, query)
    });
    let Some(hash) = hash.filter(|hash| cache.wants(*hash)) else {
        return uncached(RequestEvaluation::new(site, *client, host, scratch).run(start, None));
    };
    let reads = RequestReads::default();
    let resolved =
        RequestEvaluation::new(site, client.noting(&reads), host, scratch).run(start, None);
    // Otherwise something changed meanwhile, or an answer holds for this moment only.
    let asked = again(site, client).filter(|_| host.epoch() == Some(epoch));
    let prepared = asked
        .and_then(|asked| cache.keep(hash, client, asked.cache_key(), &reads, epoch, &resolved));
    CachedResolution { resolved, prepared }
}

/// The path of the request once more: the evaluation has used up the first one.
#[cold]
fn again<'a>(site: &'a Site, client: &ClientRequest<'a>) -> Option<PathSearch<'a>> {
    PathSearch::new(site, client.request(), &mut Scratch::default()).ok()
}

/// Resolves the request of `client` as [`resolve`] does, and notes every step in the `trace` of
/// [`Resolved::ruled`].
pub fn explain(
    site: &Site,
    client: &ClientRequest<'_>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> Resolved {
    match without_path(client.request()) {
        Some(resolution) => Resolved { resolution, ruled: None },
        None => {
            let evaluation = RequestEvaluation::new(site, *client, host, scratch);
            refuse_trace(client, evaluation.run(None, Some(Box::default())))
        }
    }
}

/// The outcome of a search that ends where it meets a directive.
enum WithoutRules {
    Resolved(Resolution),
    /// Directives apply. Also holds what is known of the requested path, if that path was the first
    /// question.
    Ruled(Option<KnownPath>),
}

/// # Errors
/// The status of a path that has no meaning.
fn unruled(
    site: &Site,
    client: &ClientRequest<'_>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> Result<WithoutRules, Status> {
    if let Some(resolution) = without_path(client.request()) {
        return Ok(WithoutRules::Resolved(resolution));
    }
    let asked = PathSearch::new(site, client.request(), scratch)?;
    Ok(match asked.spend_on_depth(client) {
        Err(_) => WithoutRules::Resolved(Resolution::Exhausted),
        Ok(()) => asked.find(host, scratch),
    })
}

/// The search for a request's path below its site's root.
struct PathSearch<'a> {
    site: &'a Site,
    request: &'a Request,
    /// Grows and shrinks during the search. A step that finds nothing restores the path; a step
    /// that ends the search leaves the path that its verdict is about.
    path: DocumentPath,
    /// Whether the URL has a slash after the path.
    slash: bool,
    query: Option<&'a [u8]>,
    /// The first component that may not be served: where it starts, and its status.
    refusal: Option<(usize, Status)>,
    /// The URL for which a `try` step has chosen a script.
    redirect_url: Option<Vec<u8>>,
    /// Whether some component starts with a dot.
    dotted: bool,
    /// The answer of the host that named directives. Then the search counts for nothing.
    ruled: Option<DocumentLook>,
    /// The handle in the answer to the last question.
    file: FileHandle,
    /// Questions that the host has been asked.
    questions: u32,
}

/// The end of the search, about the path as it is then.
enum PathVerdict {
    File { path_info: Vec<u8> },
    Folder,
    AddSlash,
    Status(Status),
}

impl PathVerdict {
    const FILE: PathVerdict = PathVerdict::File { path_info: Vec::new() };
    const FORBIDDEN: PathVerdict = PathVerdict::Status(Status::FORBIDDEN);
}

impl<'a> PathSearch<'a> {
    fn new(site: &'a Site, request: &'a Request, scratch: &mut Scratch) -> Result<Self, Status> {
        let mut path = site.root(request.host(), scratch.take())?;
        let (encoded, query) = request.path_and_query();
        let shape =
            path.write_relative(|bytes| normalize(encoded, site.encoded_slashes(), bytes))?;
        let refusal = site.names.refusal(path.relative(), shape.dotted);
        Ok(PathSearch {
            site,
            request,
            path,
            slash: shape.slash,
            query,
            refusal,
            redirect_url: None,
            dotted: shape.dotted,
            ruled: None,
            file: FileHandle::NONE,
            questions: 0,
        })
    }

    #[inline]
    fn cache_key(&self) -> CacheKey<'_> {
        CacheKey {
            site: self.site.number(),
            path: &self.path,
            slash: self.slash,
            query: self.query,
        }
    }

    /// Counts the folders of a deep path as work.
    fn spend_on_depth(&self, client: &ClientRequest<'_>) -> Result<(), Exhausted> {
        let relative = self.path.relative();
        // A folder takes two bytes at least.
        if relative.len() <= 2 * SHALLOW {
            return Ok(());
        }
        let folders = memchr_iter(b'/', relative).count();
        match folders.checked_sub(SHALLOW) {
            None | Some(0) => Ok(()),
            Some(deep) => client.meter().spend(FOLDER * deep as u64),
        }
    }

    /// Runs the search.
    fn find(mut self, host: &mut impl SiteHost, scratch: &mut Scratch) -> WithoutRules {
        let length = self.path.relative().len();
        let verdict = self.verdict(host);
        let Some(look) = self.ruled else {
            return WithoutRules::Resolved(self.finish(verdict));
        };
        let steps = self.site.steps();
        let begins_with_uri = matches!(steps.first(), Some(TryStep::Uri | TryStep::UriDirectory));
        if self.questions == 1 && begins_with_uri && self.path.relative().len() == length {
            return WithoutRules::Ruled(Some(KnownPath {
                path: self.path,
                slash: self.slash,
                dotted: self.dotted,
                look,
            }));
        }
        scratch.reuse(self.path);
        WithoutRules::Ruled(None)
    }

    /// Asks what is at the path. A path with directives counts as forbidden, which ends every
    /// attempt.
    #[inline]
    fn kind(&mut self, host: &mut impl SiteHost) -> PathKind {
        if !self.path.fits() {
            return PathKind::Missing;
        }
        self.questions += 1;
        let look = host.look(&self.path);
        self.file = look.file;
        if look.rules.is_some() {
            self.ruled = Some(look);
            return PathKind::Forbidden;
        }
        look.kind
    }

    fn verdict(&mut self, host: &mut impl SiteHost) -> PathVerdict {
        if let Some((start, status)) = self.refusal {
            // An ErrorDocument may be in force where the refused name is, or would be.
            self.kind(host);
            // PATH_INFO may hold any name: `/wiki.php/.htaccess` is a page about that file.
            return self.script_before(start, host).unwrap_or(PathVerdict::Status(status));
        }
        let site = self.site;
        let mut bare_folder = false;
        for step in site.steps() {
            let verdict = match step {
                TryStep::Uri => self.uri(host, &mut bare_folder),
                TryStep::UriDirectory => self.uri_directory(host),
                TryStep::UriSuffix(suffix) => self.uri_suffix(suffix.as_bytes(), host),
                TryStep::Path(path) => self.fixed(path.as_bytes(), host),
                TryStep::Status(code) => {
                    Some(PathVerdict::Status(Status::new(*code).unwrap_or(Status::NOT_FOUND)))
                }
            };
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        // A root that was taken to be there may be missing, as for a host of mass hosting without a
        // folder.
        if bare_folder
            && (!self.path.relative().is_empty() || self.kind(host) == PathKind::Directory)
        {
            return self.folder();
        }
        PathVerdict::Status(Status::NOT_FOUND)
    }

    /// `$uri`.
    #[inline]
    fn uri(&mut self, host: &mut impl SiteHost, bare_folder: &mut bool) -> Option<PathVerdict> {
        if self.path.relative().is_empty() {
            // The root is nearly always there, so the front page asks for its index file at once.
            *bare_folder = true;
            return self.index(host);
        }
        match self.kind(host) {
            PathKind::File if !self.slash => Some(PathVerdict::FILE),
            // `/script.php/` has the PATH_INFO `/`; behind any other file there is nothing.
            PathKind::File if self.site.names.runs(self.path.file_name()) => {
                Some(PathVerdict::File { path_info: b"/".to_vec() })
            }
            PathKind::File => None,
            PathKind::Directory => {
                *bare_folder = true;
                self.index(host)
            }
            PathKind::Missing => self.script_before(self.path.relative().len(), host),
            PathKind::Forbidden => Some(PathVerdict::FORBIDDEN),
        }
    }

    /// The first index file of the folder that the path is.
    fn index(&mut self, host: &mut impl SiteHost) -> Option<PathVerdict> {
        let site = self.site;
        let length = self.path.relative().len();
        for name in site.index() {
            self.path.push_component(name.as_bytes());
            match self.kind(host) {
                PathKind::File if self.slash => return Some(PathVerdict::FILE),
                PathKind::File => {
                    self.path.truncate_relative(length);
                    return Some(PathVerdict::AddSlash);
                }
                PathKind::Forbidden => return Some(PathVerdict::FORBIDDEN),
                PathKind::Directory | PathKind::Missing => self.path.truncate_relative(length),
            }
        }
        None
    }

    /// The longest prefix of the path that exists, if it is a script: the rest is its PATH_INFO.
    /// Only components before `limit` that are named like a script are tried. Anything after
    /// another file is 404, as after nothing, so the host need not be asked about those.
    fn script_before(&mut self, limit: usize, host: &mut impl SiteHost) -> Option<PathVerdict> {
        let mut end = limit;
        while let Some(at) = memrchr(b'/', &self.path.relative()[..end]) {
            end = at;
            let prefix = &self.path.relative()[..at];
            let name = &prefix[memrchr(b'/', prefix).map_or(0, |slash| slash + 1)..];
            if !self.site.names.runs(name) {
                continue;
            }
            let mut rest = self.path.relative()[at..].to_vec();
            self.path.truncate_relative(at);
            match self.kind(host) {
                PathKind::File => {
                    if self.slash {
                        rest.push(b'/');
                    }
                    return Some(PathVerdict::File { path_info: rest });
                }
                PathKind::Forbidden => return Some(PathVerdict::FORBIDDEN),
                PathKind::Missing => self.path.push_suffix(&rest),
                PathKind::Directory => {
                    self.path.push_suffix(&rest);
                    return None;
                }
            }
        }
        None
    }

    /// `$uri/`.
    fn uri_directory(&mut self, host: &mut impl SiteHost) -> Option<PathVerdict> {
        match self.kind(host) {
            PathKind::Directory => Some(self.index(host).unwrap_or_else(|| self.folder())),
            PathKind::Forbidden => Some(PathVerdict::FORBIDDEN),
            PathKind::File | PathKind::Missing => None,
        }
    }

    /// A folder without an index file.
    fn folder(&self) -> PathVerdict {
        if self.slash {
            PathVerdict::Folder
        } else {
            PathVerdict::AddSlash
        }
    }

    /// `$uri.html`.
    fn uri_suffix(&mut self, suffix: &[u8], host: &mut impl SiteHost) -> Option<PathVerdict> {
        let length = self.path.relative().len();
        if self.slash || length == 0 {
            return None;
        }
        self.path.push_suffix(suffix);
        match self.kind(host) {
            // `/secret` must not reach a `secret.html` that is refused by its whole name.
            PathKind::File => match self.site.names.refusal(self.path.file_name(), false) {
                Some((_, status)) => Some(PathVerdict::Status(status)),
                None => Some(PathVerdict::FILE),
            },
            PathKind::Forbidden => Some(PathVerdict::FORBIDDEN),
            PathKind::Directory | PathKind::Missing => {
                self.path.truncate_relative(length);
                None
            }
        }
    }

    /// A file or script of a `try` step. `target` starts with `/`.
    fn fixed(&mut self, target: &[u8], host: &mut impl SiteHost) -> Option<PathVerdict> {
        let mut asked_for = self.path.url_path().to_vec();
        self.path.truncate_relative(0);
        self.path.push_suffix(&target[1..]);
        match self.kind(host) {
            PathKind::File => {
                if self.slash && asked_for != b"/" {
                    asked_for.push(b'/');
                }
                self.redirect_url = Some(asked_for);
                Some(PathVerdict::FILE)
            }
            PathKind::Forbidden => Some(PathVerdict::FORBIDDEN),
            PathKind::Directory | PathKind::Missing => {
                self.path.truncate_relative(0);
                self.path.push_suffix(&asked_for[1..]);
                None
            }
        }
    }

    fn finish(self, verdict: PathVerdict) -> Resolution {
        match verdict {
            PathVerdict::Status(Status::NOT_FOUND) => {
                self.plain(|_| Resolution::Status(Status::NOT_FOUND))
            }
            PathVerdict::Status(status) => Resolution::Status(status),
            // Apache answers TRACE before it looks for a file.
            PathVerdict::AddSlash if self.request.method == Method::Trace => {
                not_allowed(ALLOW_FILE)
            }
            PathVerdict::AddSlash => Resolution::Redirect {
                status: Status::MOVED_PERMANENTLY,
                location: redirect::to_directory(&self.path, self.query),
            },
            PathVerdict::Folder if self.request.method == Method::Post => {
                Resolution::Status(Status::NOT_FOUND)
            }
            PathVerdict::Folder => self.plain(|path| Resolution::Directory { path }),
            PathVerdict::File { path_info } => match self.site.names.class(self.path.file_name()) {
                FileClass::Php => Resolution::Php(Script {
                    path: self.path,
                    path_info,
                    redirect_url: self.redirect_url,
                }),
                FileClass::Plain => {
                    let file = self.file;
                    self.plain(|path| Resolution::File { path, file })
                }
                FileClass::Refused | FileClass::Backup => Resolution::Status(Status::FORBIDDEN),
            },
        }
    }

    /// Files, and what is not there, have only the methods that change nothing, as with Apache's
    /// `default_handler`. The answer to a POST, such as a payment service sends it, is the file.
    fn plain(self, resolution: impl FnOnce(DocumentPath) -> Resolution) -> Resolution {
        match self.request.method {
            Method::Get | Method::Head | Method::Post => resolution(self.path),
            Method::Options => match resolution(self.path) {
                Resolution::File { path, .. } => options(ALLOW_FILE, Some(path)),
                _ => options(ALLOW_FILE, None),
            },
            _ => not_allowed(ALLOW_FILE),
        }
    }
}

#[cfg(test)]
mod tests;
