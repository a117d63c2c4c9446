//! env.

use crate::directive::Directive;
use crate::settings::Merge;

/// What the module's directives have set.
#[derive(Clone, Debug, Default)]
pub struct Config {}

impl Merge for Config {
    fn merge(_base: &Config, _add: &Config) -> Config {
        Config {}
    }
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive] = &[];
