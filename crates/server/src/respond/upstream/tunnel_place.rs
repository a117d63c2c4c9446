//! A tunnel's place among those that the site and the client may have.

use std::net::IpAddr;
use std::sync::Arc;

use howdah_site::Site;

use crate::front::FrontShared;
use crate::observe::RequestError;
use crate::pipeline::RequestContext;

/// A place, until dropped.
#[derive(Debug)]
pub(super) struct TunnelPlace {
    shared: Arc<FrontShared>,
    client: IpAddr,
    site: usize,
}

impl TunnelPlace {
    /// Takes a place for the client of the request.
    ///
    /// # Errors
    /// The site or the client has as many tunnels as it may have.
    pub(super) fn take(
        context: &RequestContext<'_, '_>,
        site: &Site,
    ) -> Result<TunnelPlace, RequestError> {
        let client = context.peer.remote.ip();
        let site = site.number();
        match context.thread.clients().begin_tunnel(client, site) {
            Ok(()) => Ok(TunnelPlace {
                shared: Arc::clone(&context.thread.shared),
                client,
                site,
            }),
            Err(refused) => Err(RequestError::too_many_tunnels(context.situation(), refused)),
        }
    }
}

impl Drop for TunnelPlace {
    fn drop(&mut self) {
        self.shared.clients.end_tunnel(self.client, self.site);
    }
}
