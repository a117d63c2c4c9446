//! Certificates and keys that the supervisor sends while the front serves.

use std::os::fd::OwnedFd;

use super::control::Control;
use crate::log::Level;
use crate::supervisor::front_protocol;
use crate::tls::PairText;

impl Control {
    /// Uses other certificates of a site for the handshakes to come.
    pub(super) fn replace_certificates(&self, site: usize, file: Option<OwnedFd>) {
        let (Some(tls), Some(file)) = (&self.shared.tls, file) else {
            return;
        };
        let replaced = front_protocol::read_pairs(file)
            .map_err(|error| error.to_string())
            .and_then(|pairs| tls.certificates.replace(site, &pairs));
        if let Err(why) = replaced {
            let what = format!("a new certificate cannot be used, and the former one stays: {why}");
            self.shared.log.say(Level::Error, None, &what);
        }
    }

    /// Uses other authorities of a site's clients for the handshakes to come.
    pub(super) fn replace_authorities(&self, site: usize, file: Option<OwnedFd>) {
        let (Some(tls), Some(file)) = (&self.shared.tls, file) else {
            return;
        };
        let replaced = front_protocol::read_memory(file)
            .map_err(|error| error.to_string())
            .and_then(|text| tls.replace_authorities(&self.shared.config, site, &text));
        if let Err(why) = replaced {
            let what = format!(
                "new authorities of clients cannot be used, and the former ones stay: {why}"
            );
            self.shared.log.say(Level::Error, None, &what);
        }
    }

    /// Notes why a site is closed; `None`: it is open.
    pub(super) fn set_closed(&self, site: usize, why: Option<String>) {
        if let Some(tls) = &self.shared.tls {
            tls.set_closed(site, why);
        }
    }

    /// Uses another certificate of one name for the handshakes to come.
    pub(super) fn put_certificate(&self, site: usize, file: Option<OwnedFd>) {
        let (Some(tls), Some(file)) = (&self.shared.tls, file) else {
            return;
        };
        let put = |pairs: Vec<PairText>| {
            pairs.iter().try_for_each(|pair| tls.certificates.put(site, pair))
        };
        let pairs = front_protocol::read_pairs(file).map_err(|error| error.to_string());
        if let Err(why) = pairs.and_then(put) {
            let what = format!("a new certificate cannot be used, and the former one stays: {why}");
            self.shared.log.say(Level::Error, None, &what);
        }
    }

    /// Uses other keys for session tickets.
    pub(super) fn replace_ticket_keys(&self, file: Option<OwnedFd>) {
        let (Some(tls), Some(file)) = (&self.shared.tls, file) else {
            return;
        };
        match front_protocol::read_ticket_keys(file) {
            Ok(keys) => tls.tickets.replace(&keys),
            Err(error) => {
                let what = format!("session tickets keep their former keys: {error}");
                self.shared.log.say(Level::Error, None, &what);
            }
        }
    }
}
