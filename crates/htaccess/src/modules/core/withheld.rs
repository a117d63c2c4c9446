//! Directives that Apache knows and takes in the server's own configuration only. They are listed so that a site's author
//! reads "not allowed here" and not that there is no such directive.

use crate::directive::{Arguments, Call, Directive, Overrides, Support};
use crate::mistake::Complaint;
use crate::settings::Settings;

/// None of these may stand in `.htaccess`, whatever AllowOverride says.
pub(crate) const DIRECTIVES: &[Directive] = &[
    withheld(
        "core",
        "AllowOverride",
        "Says which directives `.htaccess` may hold.",
    ),
    withheld(
        "core",
        "AllowOverrideList",
        "Says which directives `.htaccess` may hold, by name.",
    ),
    withheld(
        "core",
        "UseCanonicalName",
        "Says which name the server calls itself by in redirects.",
    ),
    withheld(
        "core",
        "UseCanonicalPhysicalPort",
        "Says which port the server calls its own in redirects.",
    ),
    withheld(
        "core",
        "HostnameLookups",
        "Says whether clients' names are looked up.",
    ),
    withheld(
        "core",
        "ReadBufferSize",
        "Sets how much is read from a file at once.",
    ),
    withheld(
        "core",
        "MaxRanges",
        "Limits how many ranges a request may ask for.",
    ),
    withheld(
        "core",
        "MaxRangeOverlaps",
        "Limits how many ranges of a request may overlap.",
    ),
    withheld(
        "core",
        "MaxRangeReversals",
        "Limits how often ranges of a request may go back.",
    ),
    withheld("core", "LogLevel", "Sets what is written to the error log."),
    withheld("core", "Include", "Reads another file of directives."),
    withheld(
        "core",
        "IncludeOptional",
        "Reads another file of directives where there is one.",
    ),
    withheld("core", "Define", "Defines a variable of the configuration."),
    withheld("core", "UnDefine", "Forgets a variable of the configuration."),
    withheld("core", "DocumentRoot", "Names the folder of a site."),
    withheld("core", "ServerName", "Names a site."),
    withheld("core", "ServerAlias", "Gives a site more names."),
    withheld(
        "core",
        "ServerAdmin",
        "Gives the address of who looks after the server.",
    ),
    withheld("core", "ServerTokens", "Sets what the Server field says."),
    withheld(
        "core",
        "ServerPath",
        "Gives a site a path for clients without Host.",
    ),
    withheld("core", "ErrorLog", "Names the error log."),
    withheld(
        "core",
        "AccessFileName",
        "Names the files of directives in folders.",
    ),
    withheld(
        "core",
        "AllowEncodedSlashes",
        "Says whether a path may hold an encoded slash.",
    ),
    withheld(
        "core",
        "LimitInternalRecursion",
        "Limits how often a request may be redirected internally.",
    ),
    withheld(
        "core",
        "LimitRequestFields",
        "Limits the number of fields of a request.",
    ),
    withheld(
        "core",
        "LimitRequestFieldSize",
        "Limits the length of a field of a request.",
    ),
    withheld("core", "LimitRequestLine", "Limits the length of a request line."),
    withheld("core", "KeepAlive", "Says whether connections are kept."),
    withheld("core", "Timeout", "Limits how long a client may be silent."),
    withheld("core", "TraceEnable", "Says whether TRACE is answered."),
    withheld("core", "Protocols", "Names the protocols that are spoken."),
];

const fn withheld(module: &'static str, name: &'static str, summary: &'static str) -> Directive {
    Directive {
        name,
        module,
        overrides: Overrides::NONE,
        arguments: Arguments::Raw,
        summary,
        support: Support::Refused("it belongs to the server's own configuration"),
        apply: not_allowed,
    }
}

fn not_allowed(call: &Call<'_>, _: &mut Settings) -> Result<(), Complaint> {
    Err(Complaint::new(format!("{} is not allowed here", call.name)))
}
