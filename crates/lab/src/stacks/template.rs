//! Configuration templates.

use std::path::Path;
use std::process::Command;

use crate::stack::StackEnvironment;

/// Replaces `@name@` with values. Most configurations use `$` and braces themselves.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// Connections that one worker must have room for: it may get most of the clients, and each may
/// need a second connection to PHP.
pub(super) fn places(environment: &StackEnvironment) -> usize {
    (environment.connections + environment.connections / 4).max(4096)
}

/// Returns the text if the condition holds, otherwise nothing.
pub(super) fn only_if(condition: bool, text: String) -> String {
    if condition { text } else { String::new() }
}

/// Seconds for which connections are kept: as the setting says, the distribution's default for a
/// stack as installed, otherwise the laboratory's value.
pub(super) fn keep_alive(environment: &StackEnvironment, usual: u32, installed: u32) -> u32 {
    let default = if environment.is_as_installed() {
        installed
    } else {
        usual
    };
    environment.keep_alive().unwrap_or(default)
}

/// Fills the part of a configuration that is for encrypted connections; nothing without TLS.
pub(super) fn if_tls(environment: &StackEnvironment, template: &str) -> String {
    environment.tls.as_ref().map_or(String::new(), |pair| {
        let (certificate, key) = (pair.certificate.display(), pair.key.display());
        fill(template, &[("certificate", &certificate.to_string()), ("key", &key.to_string())])
    })
}

/// Runs the program with an argument and returns the word that begins with `prefix`, such as
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
