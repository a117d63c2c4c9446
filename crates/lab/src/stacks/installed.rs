//! Stacks as their packages install them: with the defaults of the distribution instead of the
//! laboratory's settings.

use std::path::Path;
use std::rc::Rc;

use crate::process::StartFailed;
use crate::stack::{AS_INSTALLED, Running, Stack, StackEnvironment};

/// A stack under another name, with or without the distribution's defaults.
#[derive(Debug)]
pub struct RenamedStack {
    name: String,
    title: String,
    is_as_installed: bool,
    inner: Rc<dyn Stack>,
}

/// The stack with the distribution's defaults.
pub fn as_installed(name: &str, inner: Rc<dyn Stack>) -> RenamedStack {
    RenamedStack {
        name: name.to_owned(),
        title: format!("{}, as installed", inner.title()),
        is_as_installed: true,
        inner,
    }
}

/// The stack with settings that were searched for.
pub fn tuned(name: &str, inner: Rc<dyn Stack>) -> RenamedStack {
    RenamedStack {
        name: name.to_owned(),
        title: format!("{}, tuned", inner.title()),
        is_as_installed: false,
        inner,
    }
}

impl Stack for RenamedStack {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn serves_php(&self) -> bool {
        self.inner.serves_php()
    }

    fn unequal(&self) -> Option<&str> {
        self.inner.unequal()
    }

    fn packages(&self, php: &str) -> Vec<String> {
        self.inner.packages(php)
    }

    fn missing(&self, environment: &StackEnvironment) -> Option<String> {
        self.inner.missing(environment)
    }

    fn version(&self, environment: &StackEnvironment) -> String {
        self.inner.version(environment)
    }

    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed> {
        let mut environment = environment.clone();
        if self.is_as_installed {
            environment.settings.insert(AS_INSTALLED.to_owned(), String::new());
        }
        self.inner.start(&environment, folder)
    }
}
