//! The handler: which one answers, and whether the method and the file allow it
//! (`ap_invoke_handler`).

use howdah_htaccess::modules::core::{AcceptPathInfo, Options};
use howdah_http::{Method, Status};

use super::content;
use super::folder::FOLDER;
use super::sub_request::each_once;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, target};
use crate::documents::{PathKind, SiteHost};
use crate::names::FileClass;
use crate::resolution::{Resolution, Script};
use crate::resolve::{ALLOW_FILE, options};

/// The result of a handler.
pub(super) enum HandlerResult {
    Answer(Resolution),
    /// The phases begin again with this URL, path and query.
    Internal(Vec<u8>),
}

/// The handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    Php,
    /// A file is sent as it is; a folder is listed.
    Default,
    /// A program that cannot be run here, or a list of variants that is not read here: its text is
    /// not sent.
    Refused,
}

impl Handler {
    /// The handler of this name: Apache's names, and those that hosting providers use:
    /// `application/x-httpd-php`, `x-httpd-php5`, `php7-script`, `application/x-httpd-ea-php82`,
    /// `proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost`.
    fn named(name: &[u8]) -> Handler {
        const REFUSED: [&[u8]; 7] = [
            b"cgi-script",
            b"fcgid-script",
            b"fastcgi-script",
            b"wsgi-script",
            b"perl-script",
            b"mod_python",
            b"type-map",
        ];
        let lower = name.to_ascii_lowercase();
        let is_upstream = lower.starts_with(b"proxy:unix:") || lower.starts_with(b"proxy:fcgi:");
        if lower.ends_with(b"source") || lower.ends_with(b"phps") || REFUSED.contains(&&lower[..]) {
            Handler::Refused
        } else if is_upstream || memchr::memmem::find(&lower, b"php").is_some() {
            Handler::Php
        } else {
            Handler::Default
        }
    }

    fn of(request: &PhaseRequest<'_>) -> Handler {
        let state = &request.tx.state;
        match (&state.handler, &state.content_type) {
            (Some(name), _) => Handler::named(name),
            // `AddType application/x-httpd-php .html` is the old way to name a handler; of other
            // media types only `x-type-map` is one.
            (None, Some(name)) if name == b"application/x-type-map" => Handler::Refused,
            (None, Some(name)) if name.starts_with(b"application/x-httpd-") => Handler::named(name),
            _ => Handler::Default,
        }
    }
}

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Runs the handler.
    ///
    /// # Errors
    /// The status of the error: mostly 403 or 404.
    pub(super) fn handle(
        &mut self,
        request: &mut PhaseRequest<'r>,
    ) -> Result<HandlerResult, PhaseEnd> {
        if let Some((uri, args)) = request.internal.take() {
            return Ok(HandlerResult::Internal(target::join(&uri, args.as_deref())));
        }
        if let Some((upstream, target)) = request.proxied.take() {
            return Ok(HandlerResult::Answer(Resolution::Proxy { upstream, target }));
        }
        let resolution = match Handler::of(request) {
            Handler::Php => self.run_script(request),
            Handler::Default => self.send_file(request),
            Handler::Refused if request.kind != PathKind::File => self.send_file(request),
            Handler::Refused => {
                let handler = request.tx.state.handler.as_deref().unwrap_or_default();
                let text = format!(
                    "{}: its handler {} is refused",
                    shown(&request.tx.state.filename),
                    shown(handler)
                );
                request.tx.complain(None, text);
                Err(PhaseEnd::FORBIDDEN)
            }
        };
        resolution.map(HandlerResult::Answer)
    }

    fn run_script(&mut self, request: &mut PhaseRequest<'r>) -> Result<Resolution, PhaseEnd> {
        match request.kind {
            PathKind::File => {}
            PathKind::Missing => return Err(PhaseEnd::Status(Status::NOT_FOUND)),
            PathKind::Directory | PathKind::Forbidden => return Err(PhaseEnd::FORBIDDEN),
        }
        if !request.tx.state.path_info.is_empty()
            && accepts_path_info(request) == AcceptPathInfo::Off
        {
            return Err(PhaseEnd::Status(Status::NOT_FOUND));
        }
        if is_switched_off(request) {
            // Apache would send the source.
            let text = format!("{}: php_flag engine is off", shown(&request.tx.state.filename));
            request.tx.complain(None, text);
            return Err(PhaseEnd::FORBIDDEN);
        }
        // Values of SetEnv or of another request come last, and a script sees the last
        // (`ap_add_common_vars`); from here on fields of the response do as well.
        if request.has_become_other || request.settings.env.is_some() {
            request.tx.state.env = each_once(&request.tx.state.env);
        }
        Ok(Resolution::Php(Script {
            path: request.take_path(),
            path_info: request.tx.state.path_info.clone(),
            redirect_url: request.redirect_url.take(),
        }))
    }

    /// `default_handler`, and mod_autoindex before it.
    fn send_file(&mut self, request: &mut PhaseRequest<'r>) -> Result<Resolution, PhaseEnd> {
        let handler = request.tx.state.handler.as_deref();
        let is_listed = handler.is_none_or(|name| name == FOLDER || name.is_empty());
        if request.kind == PathKind::Directory && is_listed && request.reads() {
            return self.list(request);
        }
        self.discard_content(request)?;
        match request.tx.state.method {
            Method::Get | Method::Head | Method::Post => {}
            Method::Options => {
                let path = (request.kind == PathKind::File).then(|| request.take_path());
                return Ok(options(ALLOW_FILE, path));
            }
            _ => return Err(PhaseEnd::Status(Status::METHOD_NOT_ALLOWED)),
        }
        if request.kind != PathKind::File {
            return Err(PhaseEnd::Status(Status::NOT_FOUND));
        }
        if has_stray_path_info(request) {
            return Err(PhaseEnd::Status(Status::NOT_FOUND));
        }
        match self.site.names.class(request.path.file_name()) {
            FileClass::Plain => Ok(Resolution::File {
                path: request.take_path(),
                file: request.file,
            }),
            class => {
                let what = match class {
                    FileClass::Backup => {
                        "a back-up of a PHP program is not sent (`refuse_backups`)"
                    }
                    _ => "the source of a program is not sent",
                };
                let text = format!("{}: {what}", shown(&request.tx.state.filename));
                request.tx.complain(None, text);
                Err(PhaseEnd::FORBIDDEN)
            }
        }
    }

    fn list(&mut self, request: &mut PhaseRequest<'r>) -> Result<Resolution, PhaseEnd> {
        if options_of(request).has(Options::INDEXES) {
            self.discard_content(request)?;
            return Ok(Resolution::Listing { path: request.take_path() });
        }
        let text =
            format!("{}: no index file, and Options -Indexes", shown(&request.tx.state.filename));
        request.tx.complain(None, text);
        Err(PhaseEnd::FORBIDDEN)
    }

    /// Returns whether the file of a request is a program, or a back-up of one, that would neither
    /// run nor be sent.
    pub(super) fn withholds(&self, request: &PhaseRequest<'r>) -> bool {
        request.kind == PathKind::File
            && Handler::of(request) != Handler::Php
            && self.site.names.class(request.path.file_name()) != FileClass::Plain
    }

    fn discard_content(&mut self, request: &PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        content::discard(request)?;
        self.is_content_gone = true;
        Ok(())
    }
}

/// The options in force.
pub(super) fn options_of(request: &PhaseRequest<'_>) -> Options {
    let core = request.settings.core.as_ref();
    core.map_or(ABOVE, |core| core.options(ABOVE))
}

/// The options at the top of a site: those of a Debian Apache without its listings.
pub(crate) const ABOVE: Options = Options::FOLLOW_SYM_LINKS;

fn accepts_path_info(request: &PhaseRequest<'_>) -> AcceptPathInfo {
    let core = request.settings.core.as_ref();
    core.and_then(|core| core.accept_path_info).unwrap_or(AcceptPathInfo::Default)
}

/// Returns whether the URL goes on behind the name of a file that is no script.
pub(super) fn has_stray_path_info(request: &PhaseRequest<'_>) -> bool {
    !request.tx.state.path_info.is_empty()
        && Handler::of(request) != Handler::Php
        && accepts_path_info(request) != AcceptPathInfo::On
}

/// `php_flag engine off`.
fn is_switched_off(request: &PhaseRequest<'_>) -> bool {
    let php = request.settings.php.as_ref();
    let values = php.map_or(&[][..], |php| &php.values);
    let engine = values.iter().find(|(name, _)| **name == *b"engine");
    engine.is_some_and(|(_, value)| {
        matches!(&value.to_ascii_lowercase()[..], b"" | b"0" | b"off" | b"no" | b"false" | b"none")
    })
}

#[cfg(test)]
mod tests {
    use super::Handler::{self, *};

    #[test]
    fn handlers_by_name() {
        let rows = [
            ("application/x-httpd-php", Php),
            ("application/x-httpd-php5", Php),
            ("application/x-httpd-ea-php82", Php),
            ("application/x-httpd-alt-php74___lsphp", Php),
            ("php5-script", Php),
            ("x-httpd-php", Php),
            ("PHP-Script", Php),
            ("proxy:unix:/run/php.sock|fcgi://localhost", Php),
            ("proxy:fcgi://127.0.0.1:9000", Php),
            ("application/x-httpd-php-source", Refused),
            ("x-httpd-phps", Refused),
            ("cgi-script", Refused),
            ("CGI-Script", Refused),
            ("fcgid-script", Refused),
            ("default-handler", Default),
            ("server-parsed", Default),
            ("", Default),
        ];
        for (name, expected) in rows {
            assert_eq!(Handler::named(name.as_bytes()), expected, "{name}");
        }
    }
}
