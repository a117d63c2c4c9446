//! The plan of the process that orders certificates: names, state folder and user.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use howdah_acme::storage::CertificateFolder;
use howdah_acme::{AcmeSettings, ChallengeKind, names, read_roots};
use howdah_config::{Acme, AcmeChallenge, CertificateSource, Config, HostPattern, SiteSettings};
use howdah_sys::credentials::Identity;

use crate::supervisor::environment::Environment;
use crate::tls::PairText;

/// The user of the process if the server is started as root.
pub(crate) const ACME_USER: &str = "howdah-acme";
/// The state folder if the server is started as root.
const STATE: &str = "/var/lib/howdah-acme";

/// The parameters for starting the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderPlan {
    pub(crate) settings: AcmeSettings,
    /// The user that the process runs as; `None` for the supervisor's user.
    pub(crate) identity: Option<Identity>,
    /// Whether the process confines itself.
    pub(crate) is_confined: bool,
    /// Names that no certificate is ordered for, with the reasons.
    pub(crate) left_out: Vec<(String, String)>,
    /// The hosts of the configuration whose names get certificates on demand.
    pub(crate) on_demand: Vec<String>,
}

impl OrderPlan {
    /// Returns the plan for the sites whose certificates are ordered; `None` if there is no such
    /// site. `front` is the front's user.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(crate) fn find(
        config: &Config,
        environment: &Environment,
        front: Option<&Identity>,
    ) -> Result<Option<OrderPlan>, String> {
        let sites: Vec<&SiteSettings> =
            config.sites.iter().filter(|site| is_ordered(site)).collect();
        if sites.is_empty() {
            return Ok(None);
        }
        let acme = &config.acme;
        let (names, left_out) = names_of(&sites, acme);
        let on_demand = on_demand(&sites, acme);
        let on_demand_sites = sites.iter().filter(|site| acme.is_on_demand(site)).count();
        let roots = acme.ca_file.as_deref().map_or(Ok(Vec::new()), read_roots);
        let state = acme.state_dir.clone().or_else(|| usual_state(environment));
        let state = state.ok_or_else(|| {
            "no folder is known for certificates: HOME is not set; set `state_dir` in [acme]"
                .to_owned()
        })?;
        let identity = front.map(|front| identity(environment, &state, front)).transpose()?;
        let mut challenges = challenges_of(config);
        if !acme.dns_hook.is_empty() && !challenges.contains(&ChallengeKind::Dns01) {
            challenges.push(ChallengeKind::Dns01);
        }
        Ok(Some(OrderPlan {
            settings: AcmeSettings {
                directories: acme.directory.clone(),
                roots,
                email: acme.email.clone(),
                binding: acme.eab_kid.clone().zip(acme.eab_hmac.clone()),
                state,
                challenges,
                dns_hook: acme.dns_hook.clone(),
                names,
                on_demand_per_hour: if on_demand.is_empty() {
                    0
                } else {
                    acme.on_demand_per_hour
                },
                on_demand_sites,
                ask: acme.ask.clone(),
            },
            identity,
            is_confined: config.sandbox,
            left_out,
            on_demand,
        }))
    }

    /// Looks at the program of `dns_hook`. One without a folder is looked for when it is called.
    ///
    /// # Errors
    /// It cannot be executed, with advice.
    pub(crate) fn look_at_hook(&self) -> Result<(), String> {
        let program = self.settings.dns_hook.first().map(Path::new);
        let Some(program) = program.filter(|program| program.is_absolute()) else {
            return Ok(());
        };
        let why = match fs::metadata(program) {
            Ok(found) if found.is_file() && found.mode() & 0o111 != 0 => return Ok(()),
            Ok(_) => "it is no file that may be executed".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(format!("`acme.dns_hook`: {}: {why}; name a program", program.display()))
    }

    /// Returns the stored certificates of a site, and what is wrong with the others.
    pub(crate) fn stored(
        &self,
        config: &Config,
        site: &SiteSettings,
    ) -> (Vec<PairText>, Vec<String>) {
        let (mut pairs, mut mistakes) = (Vec::new(), Vec::new());
        let wanted = |name: &String| self.settings.names.contains(name);
        let mut names: Vec<String> =
            site.hosts.iter().map(ToString::to_string).filter(wanted).collect();
        if config.acme.is_on_demand(site) {
            match CertificateFolder::new(&self.settings.state).valid_names(SystemTime::now()) {
                Ok(found) => names.extend(
                    found.into_iter().filter(|name| self.is_for_on_demand(config, site, name)),
                ),
                // Before the first start there is no folder.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => mistakes.push(error.to_string()),
            }
        }
        for name in names {
            match self.stored_one(&name) {
                Ok(pair) => pairs.extend(pair),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        (pairs, mistakes)
    }

    /// Returns the stored certificate of a name; `None` if there is none.
    ///
    /// # Errors
    /// The mistake in the certificate, for the operator.
    pub(crate) fn stored_one(&self, name: &str) -> Result<Option<PairText>, String> {
        let stored = match CertificateFolder::new(&self.settings.state).certificate(name) {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let text = stored.pem.into_bytes();
        let file = format!("the stored certificate of {name}");
        let pair = PairText {
            certificate_name: file.clone(),
            key_name: file,
            certificate: text.clone(),
            key: text,
        };
        pair.parse()?;
        Ok(Some(pair))
    }

    /// Returns whether the site uses the certificate of `name`.
    pub(crate) fn is_for(&self, config: &Config, site: &SiteSettings, name: &str) -> bool {
        site.hosts.iter().any(|host| host.to_string() == name)
            || self.is_for_on_demand(config, site, name)
    }

    /// Returns whether the site uses the certificate of `name`, which is in no configuration.
    fn is_for_on_demand(&self, config: &Config, site: &SiteSettings, name: &str) -> bool {
        let is_its = |host: &HostPattern| {
            let is_listed = *host == HostPattern::Default || host.lists(name);
            is_listed && config.acme.stands_for_names(host)
        };
        config.acme.is_on_demand(site)
            && site.hosts.iter().any(is_its)
            && !names::is_wildcard(name)
            && !self.settings.names.iter().any(|own| own == name)
    }

    /// The way names get their certificates on demand, for a person.
    pub(crate) fn about_demand(&self) -> String {
        let condition = match self.settings.ask {
            Some(_) => "if its folder exists or `ask` allows the name",
            None => "if its folder exists",
        };
        let sites = match self.settings.on_demand_sites {
            0 | 1 => "",
            _ => "site, ",
        };
        format!(
            "on demand: the first visit of a name orders its certificate, {condition}; at most {} \
             in an hour, of which each {sites}owner of folders and domain leaves a part to others",
            self.settings.on_demand_per_hour
        )
    }
}

/// Returns whether certificates are ordered for the site.
pub(crate) fn is_ordered(site: &SiteSettings) -> bool {
    site.tls.source == CertificateSource::Auto
}

/// Returns the names of the sites that certificates are ordered for, and the other names with the
/// reasons.
fn names_of(sites: &[&SiteSettings], acme: &Acme) -> (Vec<String>, Vec<(String, String)>) {
    let (mut wanted, mut left_out) = (BTreeSet::new(), BTreeSet::new());
    let all = sites.iter().flat_map(|site| site.hosts.iter().map(move |host| (site, host)));
    for (site, pattern) in all {
        let name = pattern.to_string();
        let reason = match pattern {
            _ if acme.is_on_demand(site) && acme.stands_for_names(pattern) => continue,
            HostPattern::Default => "certificates are for names: list the names in `hosts`",
            HostPattern::Wildcard(_) if acme.dns_hook.is_empty() => {
                "a certificate for a wildcard needs the DNS: set `dns_hook` in [acme]"
            }
            _ => match names::check_for(&name, acme.ca_file.is_some()) {
                Ok(()) => {
                    wanted.insert(name);
                    continue;
                }
                Err(reason) => reason,
            },
        };
        left_out.insert((name, reason.to_owned()));
    }
    (wanted.into_iter().collect(), left_out.into_iter().collect())
}

/// Returns the hosts of the sites whose names get certificates on demand.
fn on_demand(sites: &[&SiteSettings], acme: &Acme) -> Vec<String> {
    let hosts = sites.iter().filter(|site| acme.is_on_demand(site)).flat_map(|site| &site.hosts);
    let hosts: BTreeSet<String> = hosts
        .filter(|host| acme.stands_for_names(host))
        .map(ToString::to_string)
        .collect();
    hosts.into_iter().collect()
}

/// Returns the configured challenges without those that no listener can answer, if others are left.
/// Where none is, another server may pass requests on.
fn challenges_of(config: &Config) -> Vec<ChallengeKind> {
    let all: Vec<_> = config.acme.challenges.iter().map(|challenge| kind(*challenge)).collect();
    let is_plain = config.listen.iter().any(|listener| !listener.tls);
    let can_succeed = |kind: &ChallengeKind| is_plain || *kind != ChallengeKind::Http01;
    let left: Vec<_> = all.iter().copied().filter(can_succeed).collect();
    if left.is_empty() { all } else { left }
}

fn kind(challenge: AcmeChallenge) -> ChallengeKind {
    match challenge {
        AcmeChallenge::Http01 => ChallengeKind::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
        AcmeChallenge::Dns01 => ChallengeKind::Dns01,
    }
}

fn usual_state(environment: &Environment) -> Option<PathBuf> {
    if environment.identity.is_root() {
        return Some(PathBuf::from(STATE));
    }
    let variable = |wanted: &str| {
        let found = environment.variables.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
    };
    let below = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))?;
    Some(below.join("howdah-acme"))
}

/// The user [`ACME_USER`], or a number without a user: the present owner of the folder where that
/// is such a number, so that the folder changes its owner seldom.
fn identity(environment: &Environment, state: &Path, front: &Identity) -> Result<Identity, String> {
    let failed = |error: std::io::Error| format!("cannot look up the user {ACME_USER}: {error}");
    if let Some(found) = Identity::of_user(ACME_USER, None).map_err(failed)? {
        return Ok(found);
    }
    let owner = std::fs::symlink_metadata(state).map(|found| found.uid()).ok();
    let uid = environment.spare_user_but(front.uid, owner).map_err(failed)?;
    Ok(Identity {
        name: format!("user number {uid}"),
        uid,
        gid: uid,
        groups: vec![uid],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(hosts: &str, acme: &str) -> Config {
        config_with("[\":443\"]", hosts, acme)
    }

    fn config_with(listen: &str, hosts: &str, acme: &str) -> Config {
        let text = format!(
            "listen = {listen}\n[acme]\nterms_agreed = true\n{acme}[[site]]\nhosts = [{hosts}]\n\
             root = \"/tmp\"\nphp = false\n"
        );
        Config::parse(&text, "howdah.toml").unwrap()
    }

    #[test]
    fn real_names_get_certificates_and_the_others_a_reason() {
        let hosts = "\"example.org\", \"*.example.org\", \"localhost\", \"127.0.0.1\"";
        let environment = Environment::read().unwrap();
        let found = |acme: &str| {
            let config = config(hosts, acme);
            OrderPlan::find(&config, &environment, None).unwrap().unwrap()
        };
        let plan = found("state_dir = \"/srv/acme\"\n");
        assert_eq!(plan.settings.names, ["example.org"]);
        assert_eq!(plan.settings.state, Path::new("/srv/acme"));
        let reasons: Vec<&str> = plan.left_out.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(reasons, ["*.example.org", "127.0.0.1", "localhost"]);
        let plan = found("dns_hook = [\"/bin/hook\", \"zone\"]\nstate_dir = \"acme\"\n");
        assert_eq!(plan.settings.names, ["*.example.org", "example.org"]);
        assert_eq!(plan.settings.challenges.last(), Some(&ChallengeKind::Dns01));
    }

    #[test]
    fn a_challenge_that_no_listener_can_answer_is_left_out() {
        use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
        use ChallengeKind as K;
        let found = |listen: &str, challenges: &[AcmeChallenge]| {
            let mut config = config_with(listen, "\"example.org\"", "");
            config.acme.challenges = challenges.to_vec();
            challenges_of(&config)
        };
        let (tls, both) = ("[\":443\"]", "[\":80\", \":443\"]");
        assert_eq!(found(both, &[Http01, TlsAlpn01]), [K::Http01, K::TlsAlpn01]);
        assert_eq!(found(tls, &[Http01, TlsAlpn01]), [K::TlsAlpn01]);
        assert_eq!(found(tls, &[Http01, Dns01]), [K::Dns01]);
        assert_eq!(found(tls, &[Http01]), [K::Http01]);
    }

    #[test]
    fn a_missing_file_with_roots_is_named() {
        let config = config("\"example.org\"", "ca_file = \"/no/such.pem\"\n");
        let environment = Environment::read().unwrap();
        let plan = OrderPlan::find(&config, &environment, None).unwrap().unwrap();
        let error = plan.settings.roots.unwrap_err();
        assert!(error.contains("/no/such.pem"), "{error}");
    }
}
