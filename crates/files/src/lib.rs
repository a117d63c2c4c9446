//! Static files: what is at a path, and the answer to a request for it.
//!
//! ```text
//! DocumentPath ── FileStore::look ────> DocumentLook   for `site`, which resolves
//! DocumentPath ── FileStore::answer ──> Answer         head as data, body in memory or in a file
//! ```
//!
//! A [`FileStore`] belongs to one thread of the front. It keeps what it has opened, and for files
//! up to [`StoreLimits::small`] their bytes. A second request for the same file makes no system
//! call and one look-up: the resolution carries the handle of the file that was found.
//!
//! # How the front uses it
//! ```no_run
//! # use howdah_files::{FileAnswer, FileStore, RequestedPart, StoreLimits};
//! # use howdah_site::{ClientRequest, DocumentPath, Resolution, Scratch, Site};
//! # fn example(
//! #     client: &ClientRequest<'_>, site: &Site, scratch: &mut Scratch, seconds_since_1970: u64,
//! # ) {
//! let mut store = FileStore::new(StoreLimits::default()); // one per thread
//! // The event loop waits for `store.changes()` to be readable, then calls `store.drain_events()`.
//!
//! store.tick(seconds_since_1970); // once per request, before it is resolved
//! let resolved = howdah_site::resolve(site, client, &mut store, scratch);
//! let Resolution::File { path, file } = resolved.resolution else { return };
//! match store.answer(client.request(), &path, file) {
//!     // The head is shared by all responses of the file.
//!     Ok(FileAnswer { asked: RequestedPart::Whole, representation, body, .. }) => {}
//!     // A part, or that nothing has changed: made of the head of the whole.
//!     Ok(answer) => {
//!         let mut head = answer.head();
//!         let body = answer.asked.select(&mut head, answer.body);
//!     }
//!     // An error page of the front's own.
//!     Err(status) => {}
//! }
//! # }
//! ```
//! [`FileBody`] says how the content is sent, and what to do when a file shrinks meanwhile.
//!
//! # How fresh an answer is
//! The folders on the way to a file, from the document root down and through links, are watched
//! with inotify. The kernel queues a change before the call that made it returns, so once
//! [`FileStore::drain_events`] has run, an edit, rename, removal, chmod or swapped link is seen.
//! Because the descriptor was readable before the request that follows the edit, an event loop that
//! handles what is ready in the order in which it became ready never answers from before.
//!
//! Changes that inotify does not report (another machine's write to NFS, a write through a memory
//! mapping or another hard link, a change above the root) are seen within a second: an entry that
//! was checked in an earlier second is compared with the disk before it is used. A folder that
//! cannot be watched (no watches left, no right to read it) has its entries compared at every
//! request.
//!
//! # Validators
//! The entity tag is strong: length, modification time in nanoseconds, and for files held in memory
//! a digest of their bytes, so that two edits within one tick of the kernel's clock differ as well.
//! For larger files such edits differ from Linux 6.13 on; before, only if the length does, or 10 ms
//! lie between them. It depends on nothing but the file, so every thread, every restart and every
//! machine with the same copy says the same. Last-Modified counts seconds: a client that sends it
//! alone, without the tag, may miss the second of two edits within one second, as with every server
//! (RFC 9110 §8.8.2.2).
//!
//! # What is opened
//! Only a [`DocumentPath`](howdah_site::DocumentPath), only below the root's descriptor, never
//! through a magic link of `/proc`, and through symbolic links as the site's rule says:
//!
//! | rule | a link that stays below the root | a link that leaves it |
//! |---|---|---|
//! | `inside` | followed | 403 |
//! | `owner` | followed | followed if it belongs to root or to the owner of what it leads to, else
//! 403 |
//! | `follow` | followed | followed |
//!
//! With `owner`, a link that does not belong to root is not followed into a folder of another site
//! ([`SiteFolders`]) either.
//!
//! Only regular files are sent; devices, pipes and sockets are 403 and never block. A file named
//! like a PHP source is never sent, whatever the caller asks.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod bounded;
mod changed_trees;
mod content;
mod directive_cache;
mod disk_access;
mod document;
mod entry;
mod entry_table;
mod fetch;
mod file_parts;
mod folders;
mod freed_memory;
mod host;
mod in_force;
mod limits;
mod load;
mod locate;
mod media_type;
mod named;
mod no_answer;
mod open_root;
mod passwords;
mod path_changes;
mod readable;
mod representation;
mod root_links;
mod site_folders;
mod site_shares;
mod store;
mod system_types;
mod tree;
mod variants;
mod watches;
mod write_watch;

pub use answer::{
    AnswerForm, FileAnswer, FilePart, NegotiatedForm, RequestedPart, ScriptManner, SentTag,
};
pub use body::{FileBody, FileChange, Hold, OpenFile};
pub use bounded::VoidReasons;
pub use directive_cache::{DirectiveCache, DirectiveFlaw, ReportFlaw};
pub use fetch::fetch;
pub use file_parts::FileParts;
pub use freed_memory::FreedMemory;
pub use limits::StoreLimits;
pub use media_type::media_type;
pub use named::ListedName;
pub use no_answer::NoAnswer;
pub use passwords::SiteUser;
pub use representation::{CompressedCache, Representation};
pub use root_links::{FolderPlace, LinkedPath, real_path};
pub use site_folders::{RootName, SiteFolders};
pub use store::{FileStore, StoreFigures};
pub use system_types::use_system_types;
pub use tree::{DocumentTree, TreeFolder};
pub use variants::CodedFile;
pub use write_watch::bound_write_watches;
