//! Configurations with places for values.

use std::path::Path;
use std::process::Command;

use crate::stack::Environment;

/// Puts values for `@name@` into a configuration; `$` and braces mean something in most of them
/// already.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// Connections that one worker must have room for: it may get most of a crowd, and each may need a
/// second one to PHP.
pub(super) fn places(environment: &Environment) -> usize {
    (environment.connections + environment.connections / 4).max(4096)
}

/// The text where the condition holds, else nothing.
pub(super) fn only_if(condition: bool, text: String) -> String {
    if condition { text } else { String::new() }
}

/// The word that begins with `prefix` in what a program says of its version, such as
/// `nginx/1.22.1`.
pub(super) fn version(program: Option<&Path>, argument: &str, prefix: &str) -> String {
    let Some(program) = program else {
        return "not installed".to_owned();
    };
    let Ok(output) = Command::new(program).arg(argument).output() else {
        return "unknown".to_owned();
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let Some(at) = text.find(prefix) else {
        return text.lines().next().unwrap_or("unknown").trim().to_owned();
    };
    let rest = &text[at..];
    let end = rest[prefix.len()..]
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .map_or(rest.len(), |end| prefix.len() + end);
    rest[..end].to_owned()
}
