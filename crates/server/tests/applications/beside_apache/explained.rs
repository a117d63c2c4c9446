//! The differences that every application shows, with their reasons.

use super::application::{Application, Explained};
use super::compare::{Difference, Part};

/// The reason of a difference, if it has one.
pub(crate) fn reason(application: &Application, difference: &Difference) -> Option<&'static str> {
    let all = application.explained.iter().chain(EVERYWHERE);
    let mut fitting = all.filter(|explained| {
        explained.part.is(&difference.part)
            && difference.url.contains(explained.url)
            && difference.apache.contains(explained.apache)
            && difference.howdah.contains(explained.howdah)
    });
    fitting.next().map(|explained| explained.reason)
}

const EVERYWHERE: &[Explained] = &[
    Explained {
        part: Part::Field("server"),
        url: "",
        apache: "Apache",
        howdah: "",
        reason: "`Server` names the server.",
    },
    Explained {
        part: Part::Field("connection"),
        url: "",
        apache: "",
        howdah: "",
        reason: "Apache announces `Connection: Keep-Alive`, which is the default of HTTP/1.1.",
    },
    Explained {
        part: Part::Field("keep-alive"),
        url: "",
        apache: "timeout",
        howdah: "",
        reason: "Apache announces how long a connection stays open.",
    },
    Explained {
        part: Part::ErrorPage,
        url: "",
        apache: "",
        howdah: "",
        reason: "The servers' own pages about errors look different. `error_pages` replaces them.",
    },
    Explained {
        part: Part::Field("location"),
        url: "",
        apache: "http://HOST/",
        howdah: "/",
        reason: "A redirect to a folder's address with a slash names the path alone. Apache writes \
            the whole address, with the scheme and the host as it knows them.",
    },
    Explained {
        part: Part::Field("content-length"),
        url: "",
        apache: "",
        howdah: "",
        reason: LENGTH,
    },
    Explained {
        part: Part::Field("transfer-encoding"),
        url: "",
        apache: "",
        howdah: "",
        reason: LENGTH,
    },
];

const LENGTH: &str = "A script that has ended before its output was sent gets a `Content-Length`. \
                      Apache sends one for short output alone, and longer output in chunks.";
