//! `howdah check`: the mistakes in the configuration and in `.htaccess` files.

use std::path::PathBuf;
use std::process::ExitCode;

use howdah_config::{Config, FRONT_USER};
use howdah_htaccess::Severity;
use howdah_sys::credentials::{self, Identity};

use super::print::{complain, say, say_as_is};
use super::{CheckArguments, read_environment};
use crate::check::{self, Findings};
use crate::log;
use crate::supervisor::CommandError;
use crate::supervisor::generation_plan::{GenerationPlan, UnusableFiles};
use crate::supervisor::plan::{ServeOptions, ServePlan};
use crate::supervisor::sockets;
use crate::supervisor::survey::SurveyAnswers;
use crate::supervisor::upgrade;

impl CheckArguments {
    pub(super) fn run(self) -> ExitCode {
        let json = self.json;
        let CheckedConfig { name, config, found, for_server } = match self.look() {
            Ok(looked) => looked,
            Err(refusal) if json => {
                say_as_is(&check::json(&Findings::default(), &[], &[refusal.to_string()], &[]));
                return ExitCode::FAILURE;
            }
            Err(refusal) => {
                complain(&refusal.to_string());
                return ExitCode::FAILURE;
            }
        };
        let findings = match for_server {
            // A mistake of one site's owner, or a tree that takes long, must not keep all sites
            // from a new program.
            true => Findings::default(),
            false => match check::directives(&config, reader(&config, &found).as_ref()) {
                Ok(findings) => findings,
                Err(error) => {
                    complain(&format!("cannot read .htaccess files as the front's user: {error}"));
                    return ExitCode::FAILURE;
                }
            },
        };
        let is_good = found.is_ok() && findings.count(Severity::Error) == 0;
        match json {
            true => say_as_is(&report(&config, &findings, &found)),
            false => tell(&name, &config, &findings, &found),
        }
        if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn look(self) -> Result<CheckedConfig, CommandError> {
        let plan = ServePlan {
            source: self.sites.source()?,
            options: ServeOptions::default(),
        };
        let config = plan.load().map_err(CommandError::Config)?;
        let environment = read_environment()?;
        let former = upgrade::files_of_server()
            .map_err(|error| CommandError::Failed(format!("cannot check for a server: {error}")))?;
        let unusable_files = match &former {
            // A running server asks.
            Some(former) => UnusableFiles::KeepFormer(former),
            None => UnusableFiles::Refuse,
        };
        let answers = SurveyAnswers::ask(&GenerationPlan::paths(&config, &environment));
        let mut found =
            GenerationPlan::find(config.clone(), &environment, unusable_files, answers.into());
        // A running server has its logs open.
        let mut obstacles = former.as_ref().map_or_else(|| log::obstacles(&config), |_| Vec::new());
        obstacles.extend(sockets::mistakes(&config));
        if !obstacles.is_empty() {
            let others = found.err().unwrap_or_default();
            found = Err([others, obstacles].concat());
        }
        if let Ok(found) = &mut found {
            found.warnings.extend(sockets::obstacles(&config, &environment));
            found.warnings.extend(check::unused_pages(&config));
            found.warnings.extend(check::settings::doubts(&config));
            // A running server tells them when the pools start.
            if former.is_none() {
                let obstacles = check::pool_access::obstacles(found, &environment);
                let mistakes = check::php_ini::mistakes(found, &environment);
                found.warnings.extend(obstacles.into_iter().chain(mistakes));
            }
        }
        Ok(CheckedConfig {
            name: plan.source.to_string(),
            config,
            found,
            for_server: former.is_some(),
        })
    }
}

/// A configuration that was looked at.
struct CheckedConfig {
    name: String,
    config: Config,
    found: PlanResult,
    /// Whether a running server asks, which is about to be replaced.
    for_server: bool,
}

/// The plan of the configuration, or all errors in its users, programs and folders.
type PlanResult = Result<GenerationPlan, Vec<String>>;

/// Returns the user with whose rights `.htaccess` files are read, as the server reads them; `None`
/// for this process's own.
fn reader(config: &Config, found: &PlanResult) -> Option<Identity> {
    match found {
        Ok(plan) => plan.front.clone(),
        Err(_) if credentials::own_user() != 0 => None,
        // Mistakes elsewhere keep nobody's link from being followed as root.
        Err(_) => {
            let name = config.user.as_deref().unwrap_or(FRONT_USER);
            let known = Identity::of_user(name, None).ok().flatten();
            Some(known.unwrap_or(Identity {
                name: name.to_owned(),
                uid: NOBODY,
                gid: NOBODY,
                groups: vec![NOBODY],
            }))
        }
    }
}

/// The number of the user without rights on every Linux.
const NOBODY: u32 = 65534;

fn report(config: &Config, findings: &Findings, found: &PlanResult) -> String {
    let files = &config.include.files;
    match found {
        Ok(found) => {
            let warnings = [&found.warnings[..], &found.notices].concat();
            check::json(findings, files, &[], &warnings)
        }
        Err(errors) => check::json(findings, files, errors, &[]),
    }
}

fn tell(name: &str, config: &Config, findings: &Findings, found: &PlanResult) {
    let text = check::text(findings);
    if !text.is_empty() {
        say(&text);
    }
    match found {
        Ok(found) => {
            for warning in &found.warnings {
                complain(&format!("{name}: warning: {warning}"));
            }
            for notice in &found.notices {
                complain(&format!("{name}: notice: {notice}"));
            }
            if findings.count(Severity::Error) == 0 {
                let (sites, pools) = (config.sites.len(), found.pools.len());
                say(&format!("howdah: {name} is good: sites {sites}, of which with PHP {pools}"));
                for file in &config.include.files {
                    say(&format!("  includes {}", file.display()));
                }
                for rules in &findings.site_rules {
                    say(&format!("  {rules}"));
                }
                if !found.pools.is_empty() {
                    let shown = |path: &PathBuf| path.display().to_string();
                    let programs: Vec<_> = found.php_programs.iter().map(shown).collect();
                    say(&format!("  programs that run PHP: {}", programs.join(", ")));
                }
                for pool in &found.pools {
                    let (name, program) = (&pool.settings.pool, pool.program.display());
                    let summary = pool.isolation.summary();
                    say(&format!("  pool {name}: {summary}; {program}"));
                }
            }
        }
        Err(errors) => {
            for error in errors {
                // An error with its place in a file has the name already.
                let is_in = |file: &PathBuf| error.starts_with(&*file.to_string_lossy());
                match error.starts_with(name) || config.include.files.iter().any(is_in) {
                    true => complain(error),
                    false => complain(&format!("{name}: {error}")),
                }
            }
        }
    }
}
