//! mod_php: settings of PHP for the scripts of a folder. The server hands them to the worker, which
//! takes those that PHP lets a folder change (`PHP_INI_PERDIR`) and undoes them after the request.

use std::collections::HashMap;
use std::sync::Arc;

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::Complaint;
use crate::module::{ApacheModule, ModuleConfig, Presence};

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Names and values, in the order in which the names first occur; each name once.
    pub values: Box<[Setting]>,
}

/// Name and value of a setting of PHP.
pub type Setting = (Arc<[u8]>, Arc<[u8]>);

impl Config {
    fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.values.iter_mut().find(|(other, _)| **other == *name) {
            Some((_, old)) => *old = value.into(),
            None => {
                let mut values = std::mem::take(&mut self.values).into_vec();
                values.push((name.into(), value.into()));
                self.values = values.into();
            }
        }
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let mut values = base.values.to_vec();
        let places: HashMap<&[u8], usize> = base
            .values
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (&**name, place))
            .collect();
        for (name, value) in &add.values {
            match places.get(&**name) {
                Some(place) => values[*place].1 = value.clone(),
                None => values.push((name.clone(), value.clone())),
            }
        }
        Config { values: values.into() }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        base.values.len() + add.values.len()
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_php.c", "php_module", Some("php_value"), Presence::Debian)];

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "php_value",
        module: "mod_php",
        overrides: Overrides::OPTIONS,
        arguments: Arguments::TWO,
        summary: "Sets a setting of PHP; `none` makes it empty.",
        support: Support::Full,
        apply: php_value,
    },
    Directive {
        name: "php_flag",
        module: "mod_php",
        overrides: Overrides::OPTIONS,
        arguments: Arguments::TWO,
        summary: "Sets a setting of PHP to on (`on` or `1`) or off (anything else).",
        support: Support::Full,
        apply: php_flag,
    },
    Directive {
        name: "php_admin_value",
        module: "mod_php",
        overrides: Overrides::NONE,
        arguments: Arguments::TWO,
        summary: "Sets a setting of PHP that scripts cannot change.",
        support: Support::Refused(
            "it belongs to the server's own configuration, as in Apache: set it for the pool",
        ),
        apply: not_allowed,
    },
    Directive {
        name: "php_admin_flag",
        module: "mod_php",
        overrides: Overrides::NONE,
        arguments: Arguments::TWO,
        summary: "Sets a setting of PHP to on or off so that scripts cannot change it.",
        support: Support::Refused(
            "it belongs to the server's own configuration, as in Apache: set it for the pool",
        ),
        apply: not_allowed,
    },
    Directive {
        name: "PHPINIDir",
        module: "mod_php",
        overrides: Overrides::NONE,
        arguments: Arguments::ONE,
        summary: "Names the folder of php.ini.",
        support: Support::Refused(
            "it belongs to the server's own configuration, as in Apache: set it for the pool",
        ),
        apply: not_allowed,
    },
];

fn php_value(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let value = match call.word(1) {
        word if word.eq_ignore_ascii_case(b"none") => b"",
        word => word,
    };
    let config: &mut Config = edit(shared);
    config.set(call.word(0), value);
    few_enough(config)
}

fn php_flag(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let word = call.word(1);
    let is_on = word.eq_ignore_ascii_case(b"on") || word == b"1";
    let config: &mut Config = edit(shared);
    config.set(call.word(0), if is_on { b"1" } else { b"0" });
    few_enough(config)
}

/// The settings that a file may make at most; PHP itself knows a few hundred. More are a mistake.
const MOST_SETTINGS: usize = 1000;

/// Adds a setting. A file with too many settings is a mistake, which bounds the time of reading it.
fn few_enough(config: &mut Config) -> Result<(), Complaint> {
    if config.values.len() <= MOST_SETTINGS {
        return Ok(());
    }
    config.values = Box::default();
    Err(Complaint::new(format!("more than {MOST_SETTINGS} settings of PHP")))
}

fn not_allowed(call: &DirectiveCall<'_>, _: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    Err(Complaint::new(format!("{} is not allowed here", call.name)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{settings, try_settings};

    fn values(text: &str) -> Vec<(String, String)> {
        let config = settings(text).php.unwrap();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = config.values.iter();
        pairs.map(|(name, value)| (shown(name), shown(value))).collect()
    }

    #[test]
    fn values_are_as_mod_php_takes_them() {
        let rows = [
            ("php_value memory_limit 256M", "memory_limit", "256M"),
            ("php_value include_path \".:/a b\"", "include_path", ".:/a b"),
            ("php_value auto_prepend_file none", "auto_prepend_file", ""),
            ("php_value auto_prepend_file NONE", "auto_prepend_file", ""),
            ("php_value x nonesuch", "x", "nonesuch"),
            ("php_flag display_errors On", "display_errors", "1"),
            ("php_flag display_errors 1", "display_errors", "1"),
            ("php_flag display_errors yes", "display_errors", "0"),
            ("php_flag display_errors off", "display_errors", "0"),
            ("php_flag a on\nphp_value a 7", "a", "7"),
        ];
        for (text, name, value) in rows {
            assert_eq!(values(text), [(name.into(), value.into())], "{text}");
        }
    }

    #[test]
    fn the_closer_folder_sets_the_value() {
        let above = settings("php_value a 1\nphp_value b 2");
        let below = settings("php_value c 3\nphp_value a 4");
        let php = above.merge(&below).php.unwrap();
        let names: Vec<_> =
            php.values.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(names, [(&b"a"[..], &b"4"[..]), (b"b", b"2"), (b"c", b"3")]);
    }

    #[test]
    fn settings_have_a_limit() {
        let lines = |count: usize| -> String {
            (0..count).map(|number| format!("php_value v{number} 1\n")).collect()
        };
        assert!(try_settings(&lines(1000)).is_ok());
        assert!(try_settings(&lines(1001)).is_err());
    }

    #[test]
    fn what_only_the_server_may_set_is_refused() {
        for text in
            ["php_admin_value open_basedir /", "php_admin_flag engine off", "PHPINIDir /etc"]
        {
            assert!(try_settings(text).unwrap_err().message.contains("not allowed here"), "{text}");
        }
    }
}
