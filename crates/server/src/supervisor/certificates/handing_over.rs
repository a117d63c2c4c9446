//! Hands certificates, authorities and ticket keys to fronts that run already.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::super::Supervisor;
use super::super::front_protocol::{self, ToFront};
use super::super::generation::GenerationPhase;
use super::TlsFiles;
use super::authority_ends::AuthorityEnds;
use crate::tls::{PairText, TICKET_LIFETIME};

impl Supervisor {
    /// Gives session tickets another key, in every front that accepts connections.
    ///
    /// # Errors
    /// The system has no random numbers, or no more descriptors.
    pub(in crate::supervisor) fn rotate_ticket_keys(&mut self, now: Instant) -> Result<(), String> {
        self.ticket_keys_due = Some(now + TICKET_LIFETIME);
        self.ticket_keys = self.ticket_keys.rotated()?;
        let told = || -> std::io::Result<()> {
            let memory = front_protocol::write_ticket_keys(&self.ticket_keys)?;
            // A front of another program may not know the message.
            let own = self.generations.iter().filter(|generation| generation.config.is_some());
            for front in own.filter_map(|generation| generation.front.as_ref()) {
                front.tell(&ToFront::TicketKeys, &[memory.try_clone()?])?;
            }
            Ok(())
        };
        told().map_err(|error| format!("a front does not get the new key: {error}"))
    }

    /// Replaces the content of a site's files in the front that serves, and for fronts to come. A
    /// closed site is open then.
    pub(super) fn replace_files(&mut self, site: usize, files: TlsFiles) -> std::io::Result<()> {
        let (pairs, authorities) = files.into_content();
        if let Some(authorities) = authorities {
            let memory = front_protocol::write_memory(&authorities)?;
            let current = self.current.as_mut();
            if let Some(place) =
                current.and_then(|current| current.client_authorities.get_mut(site))
            {
                *place = Some(authorities);
            }
            let mut all = self.certificate_files.sites.iter_mut();
            if let Some(files) = all.find(|files| files.site == site) {
                files.ends = AuthorityEnds::from_now();
            }
            self.tell_serving(&ToFront::ClientAuthorities { site }, Some(&memory))?;
        }
        // Other certificates are not from files of the configuration.
        if !pairs.is_empty() {
            self.replace_certificates(site, pairs)?;
        }
        let current = self.current.as_mut();
        let reason = current.and_then(|current| current.closed.get_mut(site)?.take());
        match reason {
            Some(_) => self.tell_serving(&ToFront::Closed { site, why: None }, None),
            None => Ok(()),
        }
    }

    /// Replaces the certificates of a site in the front that serves, and for fronts to come.
    ///
    /// # Errors
    /// The front cannot be told: its channel is closed, or the system has no descriptors.
    pub(in crate::supervisor) fn replace_certificates(
        &mut self,
        site: usize,
        pairs: Vec<PairText>,
    ) -> std::io::Result<()> {
        let memory = front_protocol::write_pairs(&pairs)?;
        if let Some(current) = &mut self.current
            && let Some(place) = Arc::make_mut(&mut current.certificates).get_mut(site)
        {
            *place = pairs;
        }
        self.tell_serving(&ToFront::Certificates { site }, Some(&memory))
    }

    /// Puts one certificate of a site in the place of the one of the same name, or adds it, in the
    /// front that serves, and for fronts to come.
    ///
    /// # Errors
    /// The front cannot be told: its channel is closed, or the system has no descriptors.
    pub(in crate::supervisor) fn put_certificate(
        &mut self,
        site: usize,
        pair: PairText,
    ) -> std::io::Result<()> {
        let memory = front_protocol::write_pairs(std::slice::from_ref(&pair))?;
        if let Some(current) = &mut self.current
            && let Some(place) = Arc::make_mut(&mut current.certificates).get_mut(site)
        {
            let is_same = |one: &&mut PairText| one.certificate_name == pair.certificate_name;
            match place.iter_mut().find(is_same) {
                Some(former) => *former = pair,
                None => place.push(pair),
            }
        }
        self.tell_serving(&ToFront::OneCertificate { site }, Some(&memory))
    }

    /// Sends a message, with a memory file where it has one, to the front that serves.
    ///
    /// # Errors
    /// The memory file cannot be made, or the channel to the front is closed.
    pub(in crate::supervisor) fn tell_serving(
        &self,
        message: &ToFront,
        memory: Option<&OwnedFd>,
    ) -> std::io::Result<()> {
        let serving = |phase| phase == GenerationPhase::Serving;
        let fronts = self.generations.iter().filter(|generation| serving(generation.phase));
        for front in fronts.filter_map(|generation| generation.front.as_ref()) {
            let memory = memory.map(OwnedFd::try_clone).transpose()?;
            front.tell(message, memory.as_slice())?;
        }
        Ok(())
    }
}
