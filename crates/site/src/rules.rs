//! What directives have in force in a folder.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::{Compiled, Settings};

/// What is in force in a folder: its own file of directives merged with those of the folders above, up to the site's own
/// rules. Made by the [`Disk`](crate::Disk), which keeps it for as long as none of these files changes.
#[derive(Debug)]
pub struct Rules {
    above: Option<Rc<Rules>>,
    own: Arc<Compiled>,
    settings: Arc<Settings>,
}

impl Rules {
    /// What is in force where `above` is and `own` is closer to the file. Folders without directives of their own have the
    /// rules of the folder above.
    pub fn below(above: Option<&Rc<Rules>>, own: Arc<Compiled>) -> Rc<Rules> {
        let settings = match above {
            Some(above) => above.settings.merge(&own.settings),
            None => own.settings.clone(),
        };
        Rc::new(Rules {
            above: above.cloned(),
            own,
            settings: Arc::new(settings),
        })
    }

    /// The rules of the next folder above that has any.
    pub fn above(&self) -> Option<&Rc<Rules>> {
        self.above.as_ref()
    }

    /// The file of directives that is closest.
    pub fn own(&self) -> &Arc<Compiled> {
        &self.own
    }

    /// Everything merged, without the sections that wait for a file's name or a condition.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }
}
