//! The directives of all modules, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::directive::{Apply, Directive, DirectiveCall};
use crate::merge::SharedConfig;
use crate::mistake::Complaint;
use crate::modules::{self, all_modules};
use crate::settings::DirectiveSettings;

/// A directive, applied to the settings of all modules.
pub type Registered = Directive<Box<ApplyToSettings>>;

/// Reads the arguments of a directive into the configuration of its module.
pub type ApplyToSettings =
    dyn Fn(&DirectiveCall<'_>, &mut DirectiveSettings) -> Result<(), Complaint> + Send + Sync;

/// Returns every directive, module by module.
pub fn all() -> &'static [Registered] {
    &ALL
}

/// Returns the directive of that name, in any case; a section's begins with `<`. `None` if there is
/// no such directive.
pub fn find(name: &str) -> Option<&'static Registered> {
    static INDEX: LazyLock<HashMap<String, &'static Registered>> = LazyLock::new(|| {
        let mut index = HashMap::new();
        for directive in all() {
            index.entry(directive.name.to_ascii_lowercase()).or_insert(directive);
        }
        index
    });
    INDEX.get(&name.to_ascii_lowercase()).copied()
}

macro_rules! registry {
    ($($(#[$doc:meta])* $field:ident: $module:ident,)*) => {
        static ALL: LazyLock<Vec<Registered>> = LazyLock::new(|| {
            let mut all = Vec::new();
            $(for directive in modules::$module::DIRECTIVES {
                all.push(registered(directive, |settings| &mut settings.$field));
            })*
            all
        });
    };
}

all_modules!(registry);

/// Returns a module's directive, with the field of the settings that holds the module's
/// configuration.
fn registered<C: 'static>(
    directive: &Directive<Apply<C>>,
    field: fn(&mut DirectiveSettings) -> &mut SharedConfig<C>,
) -> Registered {
    let apply = directive.apply;
    Directive {
        name: directive.name,
        module: directive.module,
        overrides: directive.overrides,
        arguments: directive.arguments,
        summary: directive.summary,
        support: directive.support,
        apply: Box::new(move |call, settings| apply(call, field(settings))),
    }
}
