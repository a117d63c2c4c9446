//! mod_autoindex: the page that lists a folder. Each entry is resolved as a sub-request, so that
//! the page reveals nothing that the client may not see.

mod folder_page;

use howdah_htaccess::host::Probe;
use howdah_htaccess::modules::autoindex::{self, FolderEntry, Insert, Listing};
use howdah_htaccess::modules::core::ServerSignature;
use howdah_htaccess::{ClientRequest, RequestState, Transaction};
use howdah_http::{Fields, Status};

use self::folder_page::{EntryOrder, FolderPage, wants_json};
use super::evaluation_context::PhaseContext;
use super::{RequestEvaluation, target};
use crate::documents::{PathKind, SiteHost};
use crate::names::FileClass;
use crate::path::{DocumentPath, Scratch};
use crate::ruled_request::RuledRequest;
use crate::sites::Site;

/// A page that lists a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPage {
    /// Its media type, with its charset.
    pub content_type: Vec<u8>,
    /// Its content.
    pub content: Vec<u8>,
    /// The folder, where the page is to have its date (`IndexOptions TrackModified`).
    pub tracked: Option<Probe>,
    /// Whether a client that accepts other media types gets another page.
    pub varies: bool,
}

/// Makes the page for the folder that `ruled` was resolved to. `entries` are the names in the
/// folder, in any order.
pub fn list(
    site: &Site,
    client: &ClientRequest<'_>,
    ruled: &mut RuledRequest,
    entries: Vec<FolderEntry>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> ListingPage {
    if has_own_page(site, ruled) {
        return own_page(site, client, ruled, entries, host, scratch);
    }
    let config = ruled.settings.autoindex.clone().unwrap_or_default();
    let mut evaluation = RequestEvaluation::new(site, *client, host, scratch);
    let state = &mut ruled.state;
    let listing = Listing {
        entries: evaluation.visible(state, entries, config.shows_forbidden()),
        header: config.header_name().and_then(|name| evaluation.insert(state, name)),
        readme: config.readme_name().and_then(|name| evaluation.insert(state, name)),
        signature: signature(client, ruled),
    };
    let nowhere = DocumentPath::nowhere();
    let mut context = PhaseContext::new(&mut evaluation, &nowhere, PathKind::Forbidden);
    let tx = Transaction {
        client: *client,
        state: std::mem::take(&mut ruled.state),
    };
    let content = autoindex::page(&tx, ruled.settings.autoindex.as_deref(), &mut context, &listing);
    ruled.state = tx.state;
    let filename = &ruled.state.filename;
    ListingPage {
        content_type: config.content_type(),
        content,
        tracked: config.tracks_modified().then(|| evaluation.probe(filename)).flatten(),
        varies: false,
    }
}

/// Returns the media type of the page that [`list`] makes for this client.
pub fn listing_type(site: &Site, client: &ClientRequest<'_>, ruled: &RuledRequest) -> Vec<u8> {
    match has_own_page(site, ruled) {
        true if wants_json(request_fields(client, &ruled.state)) => JSON.to_vec(),
        true => HTML.to_vec(),
        false => ruled.settings.autoindex.clone().unwrap_or_default().content_type(),
    }
}

/// Returns whether the page is the site's own (`listing`), and not that of mod_autoindex.
fn has_own_page(site: &Site, ruled: &RuledRequest) -> bool {
    site.config().listing && ruled.settings.autoindex.is_none()
}

fn own_page(
    site: &Site,
    client: &ClientRequest<'_>,
    ruled: &mut RuledRequest,
    entries: Vec<FolderEntry>,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> ListingPage {
    let mut evaluation = RequestEvaluation::new(site, *client, host, scratch);
    let entries = evaluation.visible(&mut ruled.state, entries, false);
    let content_type = listing_type(site, client, ruled);
    let state = &ruled.state;
    let path = match state.uri.ends_with(b"/") {
        true => state.uri.clone(),
        false => [&state.uri[..], b"/"].concat(),
    };
    let order = EntryOrder::of(state.args.as_deref());
    let folder = FolderPage { path: &path, entries, order };
    ListingPage {
        content: if content_type == JSON {
            folder.json()
        } else {
            folder.html()
        },
        content_type,
        tracked: None,
        varies: true,
    }
}

fn request_fields<'f>(client: &ClientRequest<'f>, state: &'f RequestState) -> &'f Fields {
    state.request_fields.as_ref().unwrap_or(&client.request().fields)
}

const HTML: &[u8] = b"text/html; charset=utf-8";
const JSON: &[u8] = b"application/json";

impl<H: SiteHost> RequestEvaluation<'_, '_, H> {
    fn visible(
        &mut self,
        state: &mut RequestState,
        entries: Vec<FolderEntry>,
        shows_forbidden: bool,
    ) -> Vec<FolderEntry> {
        let mut visible = Vec::with_capacity(entries.len());
        for mut entry in entries {
            // A name that its own URL would not reveal is left out.
            if self.site.names.refusal(&entry.name, entry.name.starts_with(b".")).is_some() {
                continue;
            }
            let mut uri = Vec::new();
            target::escape(&entry.name, &mut uri);
            let before = self.lookups;
            let (found, status) = self.sub_request(state, &uri, None);
            if self.lookups == before + 1 {
                // Only nested sub-requests are limited: a folder may have many entries.
                self.lookups = before;
            }
            let status = match status == Status::OK && self.withholds(&found) {
                true => Status::FORBIDDEN,
                false => status,
            };
            let seen = found.tx.state;
            self.scratch.reuse(found.path);
            let is_shown = match status {
                Status::UNAUTHORIZED | Status::FORBIDDEN => shows_forbidden,
                status => status == Status::OK || status.is_redirection(),
            };
            if !is_shown {
                continue;
            }
            if !entry.is_directory {
                entry.content_type = seen.content_type.or_else(|| media_type::<H>(&entry.name));
                entry.encoding = seen.encoding;
            }
            visible.push(entry);
        }
        visible
    }

    /// HeaderName and ReadmeName: a text in the folder, or elsewhere on the site.
    fn insert(&mut self, state: &mut RequestState, name: &[u8]) -> Option<Insert> {
        let (found, status) = self.sub_request(state, name, None);
        let (kind, seen, path) = (found.kind, found.tx.state, found.path);
        // The path is read as the site's files are sent, whatever has taken the file's place.
        let content = (status == Status::OK && kind == PathKind::File)
            .then(|| self.insert_at(&seen, &path))
            .flatten();
        self.scratch.reuse(path);
        content
    }

    fn insert_at(&mut self, seen: &RequestState, path: &DocumentPath) -> Option<Insert> {
        let name =
            &seen.filename[memchr::memrchr(b'/', &seen.filename).map_or(0, |slash| slash + 1)..];
        let content_type = seen.content_type.clone().or_else(|| media_type::<H>(name))?;
        // The source of a script is not sent.
        if seen.handler.is_some()
            || self.site.names.class(name) != FileClass::Plain
            || !content_type.starts_with(b"text/")
        {
            return None;
        }
        let content = self.host.read_document(path)?.to_vec();
        Some(match content_type.starts_with(b"text/html") {
            true => Insert::Html(content),
            false => Insert::Text(content),
        })
    }
}

/// The media type of the last extension, where no directive says more.
fn media_type<H: SiteHost>(name: &[u8]) -> Option<Vec<u8>> {
    let dot = memchr::memrchr(b'.', name)?;
    let media_type = H::media_type(&name[dot + 1..].to_ascii_lowercase())?;
    Some(media_type.as_bytes().to_vec())
}

/// ServerSignature.
fn signature(client: &ClientRequest<'_>, ruled: &RuledRequest) -> Vec<u8> {
    let core = ruled.settings.core.as_ref();
    match core.and_then(|core| core.server_signature) {
        None | Some(ServerSignature::Off) => Vec::new(),
        // There is no administrator's address to tell.
        Some(ServerSignature::On | ServerSignature::Email) => {
            let request = client.request();
            let port = client.server_port();
            // The authority was checked: it holds nothing that HTML would interpret.
            let host = String::from_utf8_lossy(request.host()).into_owned();
            format!("<address>Howdah Server at {host} Port {port}</address>\n").into_bytes()
        }
    }
}
