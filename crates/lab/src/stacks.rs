//! The stacks: the configuration of each server, with the reason beside every setting that is not
//! its default.
//!
//! Each stack writes its configuration into a folder of its own, listens on a free port of
//! 127.0.0.1, keeps no access log, and runs its workers as the same user. Nothing below `/etc` is
//! changed and no system service is touched.

mod apache;
mod caddy;
mod fpm;
mod frankenphp;
mod h2o;
mod howdah;
mod installed;
mod lighttpd;
mod nginx;
mod template;
mod unit;

use std::rc::Rc;

use crate::stack::Stack;

pub use howdah::binary as howdah_binary;
pub use installed::{as_installed, tuned};
pub use template::fill;

/// Every stack, in the order of a round.
pub fn all() -> Vec<Rc<dyn Stack>> {
    let mut stacks: Vec<Rc<dyn Stack>> = Vec::new();
    stacks.extend(howdah::all().into_iter().map(|stack| Rc::new(stack) as Rc<dyn Stack>));
    stacks.extend(apache::all().into_iter().map(|stack| Rc::new(stack) as Rc<dyn Stack>));
    stacks.extend(nginx::all().into_iter().map(|stack| Rc::new(stack) as Rc<dyn Stack>));
    stacks.extend(lighttpd::all().into_iter().map(|stack| Rc::new(stack) as Rc<dyn Stack>));
    stacks.push(Rc::new(unit::Unit));
    stacks.push(Rc::new(frankenphp::FrankenPhp));
    stacks.push(Rc::new(h2o::H2o));
    stacks.push(Rc::new(caddy::Caddy));
    stacks
}

/// Finds stacks by name, in that order; the error lists the known ones.
///
/// # Errors
///
/// No stack has one of the names.
pub fn named(names: &[&str]) -> Result<Vec<Rc<dyn Stack>>, String> {
    let all = all();
    let find = |name: &&str| {
        let known =
            || all.iter().map(|stack| stack.name().to_owned()).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|stack| stack.name() == *name).cloned();
        found.ok_or_else(|| format!("there is no stack {name}; there are {}", known()))
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_files() {
        let names: Vec<String> = all().iter().map(|stack| stack.name().to_owned()).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
                "{name}"
            );
        }
    }

    #[test]
    fn an_unknown_stack_is_answered_with_the_known() {
        let error = named(&["howdah", "iis"]).unwrap_err();
        assert!(error.starts_with("there is no stack iis; there are howdah, "), "{error}");
    }
}
