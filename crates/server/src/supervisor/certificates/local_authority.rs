//! The certificates that an authority of the server's own makes, for development.

use std::os::fd::AsFd;
use std::sync::Arc;

use howdah_config::{CertificateSource, Config};

use super::super::Supervisor;
use super::super::change::ChangeCause;
use super::super::generation_plan::GenerationPlan;
use super::super::state;
use crate::tls::{LocalAuthority, PairText};

impl Supervisor {
    /// Makes the certificates of the local authority, where sites want them. Where that fails at
    /// the start, these sites are closed and the others served.
    ///
    /// # Errors
    /// The authority's files cannot be read or made, and there is no other site.
    pub(in crate::supervisor) fn certify(
        &self,
        generation_plan: &mut GenerationPlan,
        cause: ChangeCause,
    ) -> Result<(), String> {
        let config = Arc::clone(&generation_plan.config);
        let sites = || config.sites.iter().enumerate();
        let (internal, others): (Vec<_>, Vec<_>) =
            sites().partition(|(_, site)| site.tls.source == CertificateSource::Internal);
        if internal.is_empty() {
            return Ok(());
        }
        let made = self.server_authority(&config).and_then(|authority| {
            let pairs = internal.iter().map(|(_, site)| authority.certify(&config, site));
            Ok((authority.advice(), pairs.collect::<Result<Vec<PairText>, String>>()?))
        });
        match made {
            Ok((advice, pairs)) => {
                let all = Arc::make_mut(&mut generation_plan.certificates);
                for ((number, _), pair) in internal.iter().zip(pairs) {
                    all[*number] = vec![pair];
                }
                generation_plan.notices.push(advice);
            }
            Err(why) => {
                let is_open = |(number, _): &(usize, _)| generation_plan.closed[*number].is_none();
                if cause != ChangeCause::Start || !others.iter().any(is_open) {
                    return Err(why);
                }
                for (number, site) in internal {
                    let name = &site.name;
                    generation_plan.warnings.push(format!("site {name} is closed: {why}"));
                    generation_plan.closed[number] = Some(why.clone());
                }
            }
        }
        Ok(())
    }

    fn server_authority(&self, config: &Config) -> Result<LocalAuthority, String> {
        let path = self.environment.server_state(config)?.join("authority");
        let folder = state::own_folder(&path, &self.environment.identity)
            .map_err(|(path, error)| LocalAuthority::failure(&path, &error))?;
        LocalAuthority::open(&path, folder.as_fd())
    }
}
