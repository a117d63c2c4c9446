//! Status codes (RFC 9110 §15).

use std::fmt;

/// A status code between 100 and 999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal;)*) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Status = Status($code);)*

            /// Returns the registered reason phrase of the code; empty for an unregistered one.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }

            /// Returns the whole status line of HTTP/1.1 with its CRLF, for a registered code.
            /// `None` for another code.
            pub(crate) fn line(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n")),)*
                    _ => None,
                }
            }

            #[cfg(test)]
            const REGISTERED: &[(u16, &str)] = &[$(($code, $reason),)*];
        }
    };
}

statuses! {
    200 OK "OK";
    100 CONTINUE "Continue";
    101 SWITCHING_PROTOCOLS "Switching Protocols";
    102 PROCESSING "Processing";
    103 EARLY_HINTS "Early Hints";
    201 CREATED "Created";
    202 ACCEPTED "Accepted";
    203 NON_AUTHORITATIVE_INFORMATION "Non-Authoritative Information";
    204 NO_CONTENT "No Content";
    205 RESET_CONTENT "Reset Content";
    206 PARTIAL_CONTENT "Partial Content";
    207 MULTI_STATUS "Multi-Status";
    208 ALREADY_REPORTED "Already Reported";
    226 IM_USED "IM Used";
    300 MULTIPLE_CHOICES "Multiple Choices";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    303 SEE_OTHER "See Other";
    304 NOT_MODIFIED "Not Modified";
    305 USE_PROXY "Use Proxy";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    402 PAYMENT_REQUIRED "Payment Required";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    411 LENGTH_REQUIRED "Length Required";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    423 LOCKED "Locked";
    424 FAILED_DEPENDENCY "Failed Dependency";
    425 TOO_EARLY "Too Early";
    426 UPGRADE_REQUIRED "Upgrade Required";
    428 PRECONDITION_REQUIRED "Precondition Required";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large";
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    506 VARIANT_ALSO_NEGOTIATES "Variant Also Negotiates";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
    508 LOOP_DETECTED "Loop Detected";
    510 NOT_EXTENDED "Not Extended";
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required";
}

impl Status {
    /// nginx's status of a request whose client was gone before there was a response. It appears in
    /// logs and is never sent.
    pub const CLIENT_CLOSED_REQUEST: Status = Status(499);

    /// Returns the status of that code. `None` outside 100..=999, which no status line can carry.
    pub const fn new(code: u16) -> Option<Status> {
        if code >= 100 && code <= 999 {
            Some(Status(code))
        } else {
            None
        }
    }

    /// Returns whether the code is registered.
    pub fn is_registered(self) -> bool {
        !self.reason().is_empty()
    }

    /// The three-digit code.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns whether the status is 1xx: an interim response, which another one follows.
    pub const fn is_informational(self) -> bool {
        self.0 < 200
    }

    /// Returns whether the status is 2xx.
    pub const fn is_success(self) -> bool {
        self.0 >= 200 && self.0 < 300
    }

    /// Returns whether the status is 3xx.
    pub const fn is_redirection(self) -> bool {
        self.0 >= 300 && self.0 < 400
    }

    /// Returns whether the status is 5xx or above.
    pub const fn is_server_error(self) -> bool {
        self.0 >= 500
    }

    /// Returns whether a response of this status never has content, whatever the method (RFC 9112
    /// §6.3).
    pub const fn forbids_content(self) -> bool {
        self.is_informational() || self.0 == 204 || self.0 == 304
    }

    /// The code's three ASCII digits.
    pub(crate) fn digits(self) -> [u8; 3] {
        let digit = |value: u16| b'0' + (value % 10) as u8;
        [digit(self.0 / 100), digit(self.0 / 10), digit(self.0)]
    }
}

impl Default for Status {
    fn default() -> Status {
        Status::OK
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.0, self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_status_knows_its_line() {
        for &(code, reason) in Status::REGISTERED {
            let status = Status::new(code).unwrap();
            assert_eq!(status.reason(), reason);
            assert_eq!(status.line().unwrap(), format!("HTTP/1.1 {code} {reason}\r\n"));
        }
    }

    #[test]
    fn only_three_digits_are_a_status() {
        assert_eq!(
            [99, 100, 999, 1000].map(|code| Status::new(code).is_some()),
            [false, true, true, false]
        );
        assert_eq!(Status::new(299).unwrap().line(), None);
        assert_eq!(Status::new(299).unwrap().digits(), *b"299");
    }

    #[test]
    fn classes() {
        let class = |code| {
            let status = Status::new(code).unwrap();
            [
                status.is_informational(),
                status.is_success(),
                status.is_redirection(),
                status.is_server_error(),
            ]
        };
        for (code, at) in [
            (100, Some(0)),
            (199, Some(0)),
            (200, Some(1)),
            (299, Some(1)),
            (300, Some(2)),
            (399, Some(2)),
            (400, None),
            (499, None),
            (500, Some(3)),
            (999, Some(3)),
        ] {
            let expected: [bool; 4] = std::array::from_fn(|class| at == Some(class));
            assert_eq!(class(code), expected, "{code}");
        }
    }

    #[test]
    fn statuses_without_content() {
        let without: Vec<u16> =
            (100..1000).filter(|&code| Status(code).forbids_content()).collect();
        assert_eq!(without, (100..200).chain([204, 304]).collect::<Vec<u16>>());
    }
}
