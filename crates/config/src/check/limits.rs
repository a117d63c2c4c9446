//! Checks of the limits for clients.

use super::SettingPositions;
use crate::diagnostic::MistakeCollector;
use crate::settings::Config;
use crate::values::Rate;

/// Reports each `client_burst` of which no request is counted, because there is no limit of
/// requests that it belongs to. A limit that is `"off"` in words may be turned on again.
pub(super) fn bursts(
    config: &Config,
    places: &SettingPositions<'_, '_>,
    report: &mut MistakeCollector<'_>,
) {
    let mut add = |place, what: &str| {
        report.add_at(
            place,
            format!("`client_burst` has no effect without `client_requests`{what}"),
            Some(
                "give the requests in the long run as well, such as `client_requests = \"10/s\"`, \
                 or leave `client_burst` out"
                    .to_owned(),
            ),
        );
    };
    let uses_usual = config.sites.iter().any(|site| {
        site.client_burst.is_none() && site.client_requests.is_some_and(|rate| rate != Rate::OFF)
    });
    let is_unsaid = places.limit("client_requests").is_none();
    if let Some(place) = places.limit("client_burst")
        && is_unsaid
        && !uses_usual
    {
        add(place, "");
    }
    for (number, site) in config.sites.iter().enumerate() {
        if site.client_burst.is_some() && site.client_requests.is_none() && is_unsaid {
            add(places.key(number, "client_burst"), " of the site or of `[limits]`");
        }
    }
}
