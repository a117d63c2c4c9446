//! The last word of the directives: what becomes of a response's head.

use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::response::{self, About};
use howdah_htaccess::{Client, Transaction};
use howdah_http::{ResponseHead, Status};

use super::Walk;
use super::outside::Outside;
use crate::disk::{Disk, Kind};
use crate::path::{DocumentPath, Scratch};
use crate::ruled::Ruled;
use crate::sites::Site;

/// Makes the head of a response what directives want, and tells which filters its content passes, the first one first. `ruled` is
/// what came with the resolution.
///
/// # Errors
/// The status of the error that is to be sent instead.
pub fn respond(
    site: &Site,
    client: &Client<'_>,
    ruled: &mut Ruled,
    head: &mut ResponseHead,
    about: About,
    disk: &mut impl Disk,
    scratch: &mut Scratch,
) -> Result<Vec<Filter>, Status> {
    let mut walk = Walk::new(site, *client, disk, scratch);
    let nowhere = DocumentPath::nowhere();
    let mut outside = Outside::new(&mut walk, &nowhere, Kind::Forbidden);
    let mut tx = Transaction {
        client: *client,
        state: std::mem::take(&mut ruled.state),
    };
    let filters = response::respond(&mut tx, &ruled.settings, &mut outside, head, about);
    ruled.state = tx.state;
    filters
}
