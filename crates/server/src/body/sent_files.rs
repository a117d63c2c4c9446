//! The places of files that are being sent. A response keeps its file open until the client has
//! taken it, and a client may take its time: files of one site, or of one client, leave descriptors
//! to all others.

use std::net::IpAddr;
use std::sync::Arc;

use howdah_files::{Hold, OpenFile};

use crate::budget::{Budget, BudgetUnit, BudgetUsedUp};
use crate::net::{Clients, FilterMemory};

/// The files that may be open because they are being sent. A site takes half of those that are
/// left, and so does a client. A file that several responses of a thread send at a time counts
/// once, for the first one's site and client.
#[derive(Debug)]
pub(crate) struct SentFiles {
    sites: Budget,
    /// By the number of the client's account.
    clients: Budget,
}

/// The thing that a response for a file holds until it is sent.
#[derive(Debug)]
pub(crate) enum SentFile {
    /// The place of its descriptor, with other responses.
    Place(#[allow(dead_code, reason = "dropping it matters")] Arc<dyn Hold>),
    /// The memory of its content.
    Memory(#[allow(dead_code, reason = "dropping it matters")] Arc<FilterMemory>),
}

/// A file's place, until dropped.
#[derive(Debug)]
struct FilePlace {
    files: Arc<SentFiles>,
    site: usize,
    account: usize,
}

impl Hold for FilePlace {
    fn site(&self) -> Option<usize> {
        Some(self.site)
    }
}

impl SentFiles {
    /// Places for `most` files, of that number of sites.
    pub(crate) fn new(most: u64, sites: usize) -> SentFiles {
        let budget =
            |takers| Budget::of_descriptors(BudgetUnit::SentFiles, most, &vec![true; takers]);
        SentFiles {
            sites: budget(sites),
            clients: budget(Clients::ACCOUNTS),
        }
    }

    /// Takes a place for a file that the site with this number sends to `client`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn take(
        self: &Arc<Self>,
        file: &OpenFile,
        site: usize,
        (clients, client): (&Clients, IpAddr),
    ) -> Result<SentFile, BudgetUsedUp> {
        if let Some(place) = file.hold() {
            return Ok(SentFile::Place(place));
        }
        let account = clients.account_number(client);
        self.clients.reserve(account, 1).map_err(|no_room| match no_room {
            BudgetUsedUp::Site(unit) => BudgetUsedUp::Client(unit),
            other => other,
        })?;
        if let Err(no_room) = self.sites.reserve(site, 1) {
            self.clients.give_back(account, 1);
            return Err(no_room);
        }
        let place: Arc<dyn Hold> = Arc::new(FilePlace { files: Arc::clone(self), site, account });
        file.set_hold(&place);
        Ok(SentFile::Place(place))
    }
}

impl Drop for FilePlace {
    fn drop(&mut self) {
        self.files.sites.give_back(self.site, 1);
        self.files.clients.give_back(self.account, 1);
    }
}
