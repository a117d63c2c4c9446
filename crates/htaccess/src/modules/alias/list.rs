//! The redirects of a folder, in order, found without trying one after the other.

use std::sync::Arc;

use super::redirect::{Failure, Redirect};

/// Redirects in the order in which they are tried: the first that matches counts.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    redirects: Vec<Arc<Redirect>>,
}

impl List {
    /// Adds one at the end, while a file is read.
    pub fn push(list: &mut Arc<List>, redirect: Redirect) {
        Arc::make_mut(list).redirects.push(Arc::new(redirect));
    }

    /// First the one, then the other.
    pub fn joined(first: &Arc<List>, second: &Arc<List>) -> Arc<List> {
        match (first.redirects.is_empty(), second.redirects.is_empty()) {
            (_, true) => first.clone(),
            (true, _) => second.clone(),
            _ => Arc::new(List {
                redirects: [&first.redirects[..], &second.redirects].concat(),
            }),
        }
    }

    /// The first redirect for a path, and where it leads.
    pub fn find(&self, path: &[u8]) -> Result<Option<(&Redirect, Vec<u8>)>, (&Redirect, Failure)> {
        for redirect in &self.redirects {
            match redirect.location(path) {
                Ok(None) => {}
                Ok(Some(location)) => return Ok(Some((redirect, location))),
                Err(failure) => return Err((redirect, failure)),
            }
        }
        Ok(None)
    }
}
