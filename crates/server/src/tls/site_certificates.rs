//! The choice of a site's certificate in a handshake.

use std::cell::Cell;
use std::sync::Arc;

use howdah_http::CertificateVariables;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificates::Certificates;

/// Chooses the certificate for a handshake with a site.
#[derive(Debug)]
pub(super) struct SiteCertificates {
    pub(super) certificates: Arc<Certificates>,
    pub(super) site: usize,
    /// Whether certificates are shown for names that they are not for.
    pub(super) shows_others: bool,
}

impl ResolvesServerCert for SiteCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (name, schemes) = (hello.server_name(), hello.signature_schemes());
        let asked = (name, self.shows_others);
        let pair = self.certificates.choose(self.site, asked, schemes)?;
        CHOSEN.set(Some(Arc::clone(&pair.variables)));
        Some(Arc::clone(&pair.certified))
    }
}

thread_local! {
    /// The variables of the certificate that this thread has chosen last.
    static CHOSEN: Cell<Option<Arc<CertificateVariables>>> = const { Cell::new(None) };
}

/// Returns the variables of the certificate that this thread has chosen last, once. The library
/// does not tell which certificate it was given: this is for the caller of the function of the
/// library that makes the choice. `None`: the thread has chosen none since the last call.
pub(super) fn take_chosen() -> Option<Arc<CertificateVariables>> {
    CHOSEN.take()
}
