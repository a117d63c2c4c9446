//! The names of methods.

/// The methods that httpd knows (`ap_method_number_of`); in a `.htaccess` no other may be named.
/// GET and POST are first because [`MethodSet::of`](crate::method_set::MethodSet::of) knows their
/// positions.
pub(crate) const NAMES: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];
