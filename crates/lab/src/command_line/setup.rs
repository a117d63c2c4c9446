//! `howdah-lab setup`.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;

use super::{done, watch_for_interrupts};
use crate::loads::Wrong;
use crate::{environment, frankenphp, setup, stacks, unit, zts};

#[derive(Debug, Args)]
pub(super) struct SetupArguments {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Build a thread-safe PHP from Debian's source package as well, for Apache's worker MPM with
    /// mod_php (takes minutes)
    #[arg(long)]
    zts: bool,
    /// Build FrankenPHP's library as well, which Debian does not have, with a thread-safe PHP of
    /// its own (takes minutes; needs Go 1.25 or newer)
    #[arg(long)]
    frankenphp: bool,
    /// Build nginx Unit as well, which Debian does not have
    #[arg(long)]
    unit: bool,
    /// The git repository that nginx Unit's source is fetched from
    #[arg(long, value_name = "URL", default_value = unit::SOURCE)]
    unit_source: String,
}

impl SetupArguments {
    /// Installs packages and builds what was asked for.
    ///
    /// # Errors
    /// A package cannot be installed, a build fails, or the user has interrupted it.
    pub(super) fn install(self) -> Result<ExitCode, Wrong> {
        let php = environment::php_version().unwrap_or_else(|| "8.2".to_owned());
        let mut missing = setup::missing(&stacks::all(), &php);
        if self.zts || self.frankenphp {
            missing.extend(
                zts::PACKAGES
                    .iter()
                    .map(|name| (*name).to_owned())
                    .filter(|name| !setup::is_installed(name)),
            );
        }
        if self.unit {
            let packages = unit::packages(&php).into_iter();
            missing.extend(packages.filter(|name| !setup::is_installed(name)));
        }
        // After an interrupt apt ends, and the policy that keeps services from starting is removed.
        let interrupted = watch_for_interrupts("stopping")?;
        let absent = self.install_packages(&missing)?;
        if interrupted.load(Ordering::Relaxed) {
            return Err(Wrong("interrupted".to_owned()));
        }
        if self.zts && zts::built(&php).is_none() {
            zts::build(&php, |step| println!("howdah-lab: {step}")).map_err(Wrong)?;
        }
        if self.frankenphp && frankenphp::built().is_none() {
            frankenphp::build(&php, |step| println!("howdah-lab: {step}")).map_err(Wrong)?;
        }
        if self.unit && unit::built().is_none() {
            unit::build(&php, &self.unit_source, |step| println!("howdah-lab: {step}"))
                .map_err(Wrong)?;
        }
        if absent.is_empty() {
            return Ok(done("howdah-lab: everything is installed"));
        }
        Err(Wrong(format!(
            "could not be installed: {}; what needs them is left out of runs",
            absent.join(" ")
        )))
    }

    fn install_packages(&self, missing: &[String]) -> Result<Vec<String>, Wrong> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        println!("howdah-lab: to be installed: {}", missing.join(" "));
        println!(
            "No service is started by this, and nothing that runs is stopped. After the machine's \
             next start, Debian's packages start their services, unless you `systemctl disable` \
             those that are new."
        );
        if !self.yes && !setup::ask("Install them?") {
            return Err(Wrong("nothing was installed".to_owned()));
        }
        setup::install(missing).map_err(Wrong)
    }
}
