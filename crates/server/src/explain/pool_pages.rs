//! The pages of `status_path` and `ping_path`, which stand before a script or a file at their path.

use std::net::IpAddr;

use howdah_config::Config;
use howdah_http::{ResponseHead, Status};
use howdah_site::Site;

use super::{ExplainedOutcome, Explanation};
use crate::respond::pool_status;
use crate::status::FpmQuery;

/// Puts such a page in the place of the answer, if the request is for one, as
/// [`pool_status::respond`] does. `client` is the one that `status_allow` is asked about.
pub(super) fn answer(config: &Config, site: &Site, client: IpAddr, told: &mut Explanation) {
    let php = config.sites.get(site.number()).and_then(|site| site.php.as_ref());
    let Some(php) = php else { return };
    let Some(is_ping) = pool_status::page_of(php, &told.request) else {
        return;
    };
    let is_open = match &told.outcome {
        ExplainedOutcome::File(_)
        | ExplainedOutcome::Script { .. }
        | ExplainedOutcome::Listing(_) => !told.head.status.is_redirection(),
        ExplainedOutcome::Page => told.head.status == Status::NOT_FOUND,
        ExplainedOutcome::Proxy(_) | ExplainedOutcome::PoolPage(_) => false,
    };
    if !is_open {
        return;
    }
    told.lane = None;
    told.filters.clear();
    let key = if is_ping { "ping_path" } else { "status_path" };
    if !php.status_allow.contains(client) {
        told.outcome = ExplainedOutcome::Page;
        told.head = ResponseHead::new(Status::FORBIDDEN);
        told.notes
            .push(format!("`status_allow` keeps {client} from the page of `{key}`"));
        return;
    }
    told.outcome = ExplainedOutcome::PoolPage(key);
    told.head = pool_status::head_of(match is_ping {
        true => pool_status::PING_TYPE,
        false => FpmQuery::of(told.request.query()).content_type(),
    });
}
