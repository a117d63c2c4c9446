//! The keys of `[log]`.

use std::path::PathBuf;

use super::SiteSettings;
use crate::kinds::{AccessLogTarget, ErrorLogTarget, FilePath, Format, LevelName};
use crate::section::section;
use crate::system_log::{LogDaemon, SystemLog};
use crate::values::{AccessFormat, AccessTarget, ErrorTarget, LogLevel};

section! {
    /// The destination of logs.
    pub struct Log {
        /// The access log: `"off"`, `"-"` for standard output, a file that lines are added to, or
        /// the system's log. `"syslog:FACILITY:TAG"` sends the lines to `/dev/log`,
        /// `"journald:TAG"` to systemd's journal; both parts may be left out (`"syslog:"` is
        /// `"syslog:local7:howdah"`). While the system's log does not run, lines are lost and
        /// counted.
        access ("access"): AccessTarget as AccessLogTarget = AccessTarget::Stdout,
            "journald and Docker collect standard output, and a server without a log is hard to \
             operate.";
        /// The form of a line of the access log: the name of a format, or a format of your own in
        /// the words of Apache's `LogFormat`: `'%h %l %u %t "%r" %>s %b %D'`. `%{c}a` is the
        /// address of the proxy, `%v` the site. `%U` is the decoded path, of a folder that of its
        /// index file, `%q` the query that rules have left, `%f` the file that the request is for,
        /// also where it is missing or not sent, or the URL of a redirect by a RewriteRule. `%u` is
        /// also a user whose password was wrong, and for a script the name that nobody has checked.
        /// `%p` is the port of the listener, as that of a virtual host, whatever port the client
        /// names. `%b` and `%B` are bytes of content; `%I` and `%O` are all bytes of the request
        /// and of the response. Of a script, `%^pt` is the time that it ran, `%^pq` the time that
        /// its request waited for a worker and `%^pc` its time on a processor, all in microseconds,
        /// `%^pm` the most bytes of memory that PHP had for it, and `%^pw` the process of its
        /// worker; each is `-` where it is not known. Times are in UTC and in English:
        /// `%{PATTERN}t` takes every pattern of `strftime(3)`, and `begin:` or `end:` before it,
        /// `sec`, `msec`, `usec`, `msec_frac` and `usec_frac`. `%{NAME}x` is a variable `SSL_…` of
        /// mod_ssl or `HTTPS`, `%{NAME}n` what a script has set with `apache_note()` before its
        /// first output, `%^FB` the microseconds until the head of the response was there.
        /// `%400,501{User-Agent}i` is written for these statuses only, `%!200,304{Referer}i` for
        /// all others, and `-` otherwise. Always `-` are `%l`, `%L`, and trailers: `%{NAME}^ti`,
        /// `%{NAME}^to`. A value of more than 8 KB, as it is written, is cut, and `...` follows.
        format ("format"): AccessFormat as Format = AccessFormat::Combined,
            "The format that all log analysers read.";
        /// The error log: `"-"` for standard error, a file that lines are added to, or the system's
        /// log as in `access`. PHP's errors go there too.
        error ("error"): ErrorTarget as ErrorLogTarget = ErrorTarget::Stderr,
            "Visible in a terminal, and collected by service managers.";
        /// The socket of the system's log, for `"syslog:…"`.
        syslog_socket ("syslog_socket"): PathBuf as FilePath = PathBuf::from("/dev/log"),
            "Where every syslog daemon listens.";
        /// The socket of systemd's journal, for `"journald:…"`.
        journald_socket ("journald_socket"): PathBuf as FilePath =
            PathBuf::from("/run/systemd/journal/socket"),
            "Where the journal listens for its own protocol.";
        /// The least serious lines that the error log gets: `"error"` (a request, a process or a
        /// site failed), `"warning"` (something needs attention), `"notice"` (a start, a reload) or
        /// `"info"` (mistakes of clients and other ordinary events). Ten lines of one kind are
        /// written within ten seconds for each site, and for each client; further ones are counted,
        /// and the count is written.
        level ("level"): LogLevel as LevelName = LogLevel::Info,
            "Everything that helps to find a mistake; floods of one kind are counted, not written.";
    }
}

impl Log {
    /// Returns the format of a site's access log.
    pub fn format_of<'l>(&'l self, site: &'l SiteSettings) -> &'l AccessFormat {
        site.access_log_format.as_ref().unwrap_or(&self.format)
    }

    /// Returns the path of the socket that a daemon listens at.
    pub fn daemon_socket(&self, daemon: LogDaemon) -> PathBuf {
        match daemon {
            LogDaemon::Syslog => self.syslog_socket.clone(),
            LogDaemon::Journald => self.journald_socket.clone(),
        }
    }

    /// Returns the system's logs that `sites` or the server write to, each with the path of its
    /// daemon's socket.
    pub fn daemon_sockets<'l>(
        &'l self,
        sites: &'l [SiteSettings],
    ) -> impl Iterator<Item = (&'l SystemLog, PathBuf)> {
        let access = sites.iter().filter_map(|site| site.access_log.as_ref());
        let access = access.chain([&self.access]).filter_map(|target| match target {
            AccessTarget::System(log) => Some(log),
            AccessTarget::Off | AccessTarget::Stdout | AccessTarget::File(_) => None,
        });
        let error = match &self.error {
            ErrorTarget::System(log) => Some(log),
            ErrorTarget::Stderr | ErrorTarget::File(_) => None,
        };
        access.chain(error).map(|log| (log, self.daemon_socket(log.daemon)))
    }
}
