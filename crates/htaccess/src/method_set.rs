//! The request methods that a directive is for: `<Limit>`, `<LimitExcept>`, `Require method`.

use howdah_http::Method;

use crate::method_names::NAMES;
use crate::scope::Scope;

/// A set of methods, as httpd numbers them: HEAD is GET, and all methods that httpd does not know
/// are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodSet(u32);

impl MethodSet {
    /// Every method, unknown ones as well.
    pub const ALL: MethodSet = MethodSet(u32::MAX);
    const UNKNOWN: MethodSet = MethodSet(1 << 31);

    /// Returns the method of that name; `None` where httpd does not know it.
    pub fn named(name: &[u8]) -> Option<MethodSet> {
        let name: &[u8] = if name == b"HEAD" { b"GET" } else { name };
        let place = NAMES.iter().position(|known| known.as_bytes() == name)?;
        Some(MethodSet(1 << place))
    }

    /// Returns the method of a request.
    pub fn of(method: &Method) -> MethodSet {
        match method {
            Method::Get | Method::Head => MethodSet(1),
            Method::Post => MethodSet(2),
            other => MethodSet::named(other.as_str().as_bytes()).unwrap_or(MethodSet::UNKNOWN),
        }
    }

    /// Returns the methods that a directive in this scope is for.
    pub(crate) fn within(scope: &Scope<'_>) -> MethodSet {
        let Some(methods) = &scope.methods else {
            return MethodSet::ALL;
        };
        let named = methods
            .names
            .iter()
            .filter_map(|name| MethodSet::named(name.as_bytes()))
            .fold(MethodSet(0), MethodSet::with);
        if methods.except { MethodSet(!named.0) } else { named }
    }

    /// Returns the union of both sets.
    pub const fn with(self, other: MethodSet) -> MethodSet {
        MethodSet(self.0 | other.0)
    }

    /// Returns the methods of this set that are not in the other.
    pub const fn without(self, other: MethodSet) -> MethodSet {
        MethodSet(self.0 & !other.0)
    }

    /// Returns whether both sets have a method in common.
    pub const fn meets(self, other: MethodSet) -> bool {
        self.0 & other.0 != 0
    }
}
