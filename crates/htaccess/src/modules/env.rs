//! mod_env: SetEnv, UnsetEnv, PassEnv.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use howdah_http::{Fields, Status};

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::evaluation_context::EvaluationContext;
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::{Complaint, DirectivePlace};
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::{NoVariableRoom, Transaction};
use crate::work;

/// The module's configuration. Names are compared without case. Adding a variable takes no longer
/// where there are many.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The variables in their order, which their keys give.
    variables: BTreeMap<u32, EnvVariable>,
    /// The keys of each name, in lower case.
    known: HashMap<Arc<[u8]>, VariableKeys>,
    /// The key of the next variable.
    next: u32,
    /// The variables of folders further out that this folder unsets.
    unset: Vec<Arc<[u8]>>,
}

#[derive(Clone, Debug)]
struct EnvVariable {
    name: Arc<[u8]>,
    place: Arc<DirectivePlace>,
    /// `None` passes on the server's own variable, where it has one.
    value: Option<Arc<[u8]>>,
    /// Whether the server's own variable, where it has one, comes later and replaces this one.
    is_replaced: bool,
}

/// The keys of a name's variables.
#[derive(Clone, Copy, Debug)]
struct VariableKeys {
    first: u32,
    /// The one that is passed on after the first.
    passed: Option<u32>,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let mut merged = Config { unset: Vec::new(), ..base.clone() };
        add.unset.iter().for_each(|name| merged.remove(name));
        for variable in add.variables.values() {
            merged.set(variable.clone());
        }
        merged
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }

    /// The names that a folder unsets are not part of the result.
    fn copied(base: &Config, add: &Config) -> usize {
        base.variables.len() + add.variables.len()
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_env.c", "env_module", Some("SetEnv"), Presence::Debian)];

impl Config {
    /// Adds a variable. The first of a name decides its spelling. A variable that is passed on
    /// keeps an earlier one of that name, which is in force where the server has none.
    fn set(&mut self, mut variable: EnvVariable) {
        let name = Arc::<[u8]>::from(variable.name.to_ascii_lowercase());
        let Some(keys) = self.known.get_mut(&name) else {
            variable.is_replaced = false;
            self.known.insert(name, VariableKeys { first: self.next, passed: None });
            return self.push(variable);
        };
        let Some(first) = self.variables.get_mut(&keys.first) else {
            return;
        };
        match variable.value {
            Some(value) => {
                (first.value, first.is_replaced) = (Some(value), false);
                if let Some(passed) = keys.passed.take() {
                    self.variables.remove(&passed);
                }
            }
            None if first.value.is_none() || keys.passed.is_some() => {}
            None => {
                first.is_replaced = true;
                keys.passed = Some(self.next);
                self.push(variable);
            }
        }
    }

    fn push(&mut self, variable: EnvVariable) {
        self.variables.insert(self.next, variable);
        self.next += 1;
    }

    fn remove(&mut self, name: &[u8]) {
        if let Some(keys) = self.known.remove(&*name.to_ascii_lowercase()) {
            self.variables.remove(&keys.first);
            keys.passed.map(|passed| self.variables.remove(&passed));
        }
    }
}

/// Adds the variables to those of the request, in the fixups. Variables that other modules have set
/// before stay before them: conditions see the former, scripts see the latter
/// (`apr_table_overlay`).
///
/// # Errors
/// 500 where there is no room for them.
pub fn fixup(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
) -> Result<(), Status> {
    let meter = tx.client.meter();
    for variable in config.variables.values() {
        if meter.spend(work::RULE).is_err() {
            tx.complain(Some(&variable.place), "SetEnv: too much work on this request");
            return Ok(());
        }
        let passed = match &variable.value {
            Some(_) if !variable.is_replaced => None,
            _ => context.host().variable(&variable.name),
        };
        let value = match (&variable.value, passed) {
            (Some(value), None) => value.to_vec(),
            (None, Some(value)) => value,
            (Some(_), Some(_)) | (None, None) => continue,
        };
        meter.note(work::bytes(variable.name.len() + value.len()));
        if tx.state.room_for(Fields::size_of_line(&variable.name, &value)).is_err() {
            tx.complain(Some(&variable.place), format!("SetEnv: {NoVariableRoom}"));
            return Err(Status::INTERNAL_SERVER_ERROR);
        }
        tx.state.env.push(&variable.name, &value);
        tx.trace(|| event(variable, &value));
    }
    Ok(())
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
        is_replaced: false,
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
            is_replaced: false,
        });
    }
    Ok(())
}
