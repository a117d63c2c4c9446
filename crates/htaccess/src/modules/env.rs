//! mod_env: SetEnv, UnsetEnv, PassEnv.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::evaluation_context::EvaluationContext;
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::{Complaint, Place};
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::work;

/// The module's configuration. Names are compared without case.
#[derive(Clone, Debug, Default)]
pub struct Config {
    variables: Vec<EnvVariable>,
    /// The variables of folders further out that this folder unsets.
    unset: Vec<Box<[u8]>>,
}

#[derive(Clone, Debug)]
struct EnvVariable {
    name: Box<[u8]>,
    place: Arc<Place>,
    /// `None` passes on the server's own variable, where it has one.
    value: Option<Box<[u8]>>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let mut merged = Config {
            variables: base.variables.clone(),
            unset: Vec::new(),
        };
        add.unset.iter().for_each(|name| merged.remove(name));
        for variable in &add.variables {
            merged.set(variable.clone());
        }
        merged
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_env.c", "env_module", Some("SetEnv"), Presence::Debian)];

impl Config {
    /// Adds a variable. The first of a name decides its spelling. A variable that is passed on
    /// keeps an earlier one of that name, which is in force where the server has none.
    fn set(&mut self, variable: EnvVariable) {
        let known = self.variables.iter().position(|known| known.is(&variable.name));
        match (known, variable.value) {
            (Some(known), Some(value)) => {
                self.variables[known].value = Some(value);
                let mut at = 0;
                self.variables.retain(|other| {
                    at += 1;
                    at == known + 1 || !other.is(&variable.name)
                });
            }
            (Some(_), None) if self.passes_on(&variable.name) => {}
            (_, value) => self.variables.push(EnvVariable { value, ..variable }),
        }
    }

    fn passes_on(&self, name: &[u8]) -> bool {
        self.variables.iter().any(|known| known.value.is_none() && known.is(name))
    }

    fn remove(&mut self, name: &[u8]) {
        self.variables.retain(|variable| !variable.is(name));
    }
}

impl EnvVariable {
    fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Adds the variables to those of the request, in the fixups. Variables that other modules have set
/// before stay before them: conditions see the former, scripts see the latter
/// (`apr_table_overlay`).
pub fn fixup(tx: &mut Transaction<'_>, config: &Config, context: &mut dyn EvaluationContext) {
    let meter = tx.client.meter();
    for (at, variable) in config.variables.iter().enumerate() {
        // The later variables are searched for one that replaces this one.
        let later = (config.variables.len() - at) as u64;
        if meter.spend(work::RULE + later / 2).is_err() {
            return tx.complain(Some(&variable.place), "SetEnv: too much work on this request");
        }
        let passed =
            |variable: &EnvVariable, context: &mut dyn EvaluationContext| match variable.value {
                None => context.host().variable(&variable.name),
                Some(_) => None,
            };
        let value = match &variable.value {
            // A variable that is passed on comes later, and replaces this one.
            Some(_)
                if config.variables[at + 1..]
                    .iter()
                    .any(|later| later.is(&variable.name) && passed(later, context).is_some()) =>
            {
                continue;
            }
            Some(value) => value.to_vec(),
            None => match context.host().variable(&variable.name) {
                Some(value) => value,
                None => continue,
            },
        };
        tx.state.env.push(&variable.name, &value);
        tx.trace(|| event(variable, &value));
    }
}

fn event(variable: &EnvVariable, value: &[u8]) -> TraceEvent {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let directive = if variable.value.is_some() { "SetEnv" } else { "PassEnv" };
    TraceEvent {
        step: "variable",
        place: Some(Arc::clone(&variable.place)),
        text: format!("{directive} {}", lossy(&variable.name)),
        facts: Vec::new(),
        outcome: format!("sets {}={}", lossy(&variable.name), lossy(value)),
    }
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "SetEnv",
        module: "mod_env",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Words(1, 2),
        summary: "Sets a variable for scripts; without a value, to nothing.",
        support: Support::Full,
        apply: set_env,
    },
    Directive {
        name: "UnsetEnv",
        module: "mod_env",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::SOME,
        summary: "Takes variables back that SetEnv and PassEnv have set before or further out.",
        support: Support::Full,
        apply: unset_env,
    },
    Directive {
        name: "PassEnv",
        module: "mod_env",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::SOME,
        summary: "Passes variables of the server's own environment to scripts: those that \
            `pass_env` in `[site.php]` names, and PATH.",
        support: Support::Full,
        apply: pass_env,
    },
];

fn set_env(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    edit(shared).set(EnvVariable {
        name: call.word(0).into(),
        place: call.kept_place(),
        value: Some(call.word(1).into()),
    });
    Ok(())
}

fn unset_env(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let config = edit(shared);
    for name in call.words {
        config.remove(name);
        config.unset.push(name[..].into());
    }
    Ok(())
}

fn pass_env(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let (config, place) = (edit(shared), call.kept_place());
    for name in call.words {
        config.set(EnvVariable {
            name: name[..].into(),
            place: Arc::clone(&place),
            value: None,
        });
    }
    Ok(())
}
