//! The methods of `<Limit>` and `<LimitExcept>` (`ap_limit_section`).

use crate::language::word;
use crate::method_names::NAMES;
use crate::mistake::Complaint;

/// The methods of `<Limit>` or `<LimitExcept>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Methods {
    /// The methods that are named; `GET` means `HEAD` as well.
    pub names: Vec<Box<str>>,
    /// Whether the set is all other methods.
    pub except: bool,
}

impl Methods {
    /// Returns whether a request's method is among them.
    pub fn covers(&self, method: &[u8]) -> bool {
        let method = if method == b"HEAD" { b"GET" } else { method };
        self.names.iter().any(|name| name.as_bytes() == method) != self.except
    }

    /// Returns the methods that are in both sets.
    fn within(self, outer: &Methods) -> Methods {
        let (names, except) = match (self.except, outer.except) {
            (true, true) => ([self.names, outer.names.clone()].concat(), true),
            (true, false) => (without(&outer.names, &self), false),
            (false, _) => (without(&self.names, outer), false),
        };
        Methods { names, except }
    }

    fn is_nothing(&self) -> bool {
        self.names.is_empty() && !self.except
    }

    fn same(&self, other: &Methods) -> bool {
        NAMES
            .iter()
            .chain(&["another"])
            .all(|method| self.covers(method.as_bytes()) == other.covers(method.as_bytes()))
    }
}

/// Returns those of `names` that `methods` covers.
fn without(names: &[Box<str>], methods: &Methods) -> Vec<Box<str>> {
    names.iter().filter(|name| methods.covers(name.as_bytes())).cloned().collect()
}

/// Returns the methods of `<Limit GET POST>` within `outer`. `list` is the text before the `>`.
///
/// # Errors
/// A method is not known, or is TRACE in `<Limit>`.
pub(crate) fn limit(
    section: &str,
    list: &[u8],
    outer: Option<&Methods>,
) -> Result<Methods, Complaint> {
    let except = section == "<LimitExcept";
    let mut names: Vec<Box<str>> = Vec::new();
    let mut rest = list;
    let mut index = 0;
    while !rest.is_empty() {
        let method = word(&mut rest);
        let method = if method == b"HEAD" { b"GET".to_vec() } else { method };
        if method == b"TRACE" && !except {
            return Err(Complaint::about(
                index,
                "TRACE cannot be controlled by <Limit>, see TraceEnable",
            ));
        }
        let Some(known) = NAMES.iter().find(|known| known.as_bytes() == method) else {
            let message = format!(
                "Could not register method '{}' for {section} from .htaccess configuration",
                method.escape_ascii()
            );
            let complaint = Complaint::about(index, message);
            let upper = method.to_ascii_uppercase();
            return Err(match NAMES.iter().find(|known| known.as_bytes() == upper) {
                Some(known) => complaint.hint(format!("methods are told apart by case: `{known}`")),
                None => complaint,
            });
        };
        if !names.iter().any(|name| &**name == *known) {
            names.push((*known).into());
        }
        index += 1;
    }
    let all = Methods { names: Vec::new(), except: true };
    let outer = outer.unwrap_or(&all);
    let both = Methods { names, except }.within(outer);
    if both.is_nothing() {
        return Err(Complaint::new(format!("{section}> directive excludes all methods")));
    }
    if both.same(outer) {
        return Err(Complaint::new(format!(
            "{section}> directive specifies methods already excluded"
        )));
    }
    Ok(both)
}
