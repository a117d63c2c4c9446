//! The arguments of each command, and the forms that their values have.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use howdah_config::{
    AccessTarget, Count, ListenAddress, ListenerSettings, MOST_WORKERS, listen_addresses,
};

/// A server for PHP sites.
#[derive(Debug, Parser)]
#[command(name = "howdah", version)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) task: CliTask,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliTask {
    /// Serve a folder, or the sites of a configuration file
    Serve(ServeArguments),
    /// Find the mistakes in a configuration and in every .htaccess below its sites; exit status 1
    /// if there are any
    Check(CheckArguments),
    /// Show how a request is resolved, and why: each file, directive and condition in the order in
    /// which they act
    Explain(ExplainArguments),
    /// Write the configuration that is equal to another server's, and say what has no equal
    Import(ImportArguments),
    /// Show the state of the running server: its processes, and its sites as a table
    Status(StatusArguments),
    /// Make the running server read its configuration again and start PHP anew; no request is lost
    Reload(ServerArguments),
    /// Let the running server finish its requests and end
    Stop(ServerArguments),
    /// Print a shell's script that completes this program's arguments
    Completion(CompletionArguments),
    /// Order certificates for the server that has started this process
    #[command(hide = true)]
    OrderCertificates,
}

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    pub(super) sites: SiteArguments,
    // Not a doc comment: rustdoc would take the address in brackets for a link.
    #[arg(
        long,
        value_name = "ADDR",
        value_parser = listen,
        help = "Address to accept connections on: 127.0.0.1:8080, [::1]:8080, :80 for every \
                address, or unix:/run/howdah/web.sock; with http:// or https:// before it, in the \
                clear or over TLS; may be repeated"
    )]
    pub(super) listen: Vec<ListenAddresses>,
    /// Serve over TLS with certificates of the local authority, for development
    #[arg(long, value_name = "internal", value_parser = ["internal"])]
    pub(super) tls: Option<String>,
    /// PHP workers per site: a number, or auto for four per processor
    #[arg(long, value_name = "N|auto", value_parser = count_of_workers)]
    pub(super) workers: Option<Count>,
    /// Event-loop threads: a number, or auto for one per processor
    #[arg(long, value_name = "N|auto", value_parser = count)]
    pub(super) threads: Option<Count>,
    /// Serve files only; PHP files are refused
    #[arg(long)]
    pub(super) no_php: bool,
    /// Read no .htaccess files
    #[arg(long)]
    pub(super) no_htaccess: bool,
    /// Where the access log goes: a file, - for standard output, or off
    #[arg(long, value_name = "FILE|-|off", value_parser = access_log)]
    pub(super) access_log: Option<AccessTarget>,
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    pub(super) sites: SiteArguments,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// A method, unless it is GET, and a URL or its path
    #[arg(value_name = "[METHOD] URL", num_args = 1..=2, required = true)]
    pub(super) asked: Vec<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub(super) config: Option<PathBuf>,
    /// Folder of a single site [default: .]
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// A line of the request's head, such as 'Cookie: a=b'; may be repeated
    #[arg(long, value_name = "Name: value")]
    pub(super) header: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(super) from: IpAddr,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SiteArguments {
    /// Folder of a single site [default: .]
    #[arg(value_name = "DIR", conflicts_with = "config")]
    pub(super) folder: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ServerArguments {
    /// The configuration file that the server runs with
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub(super) config: Option<PathBuf>,
    /// The server's control socket
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    #[command(subcommand)]
    pub(super) from: ImportSource,
}

#[derive(Debug, Subcommand)]
pub(super) enum ImportSource {
    /// Pools of php-fpm, such as /etc/php/8.2/fpm/pool.d/*.conf
    Fpm {
        /// The files of the pools
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    pub(super) server: ServerArguments,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    pub(super) json: bool,
    /// Show sites and workers on the terminal, brought up to date every second; q ends it
    #[arg(long)]
    pub(super) watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompletionArguments {
    /// The shell
    pub(super) shell: Shell,
}

/// The addresses of one `--listen` option.
#[derive(Debug, Clone)]
pub(super) struct ListenAddresses {
    addresses: Vec<ListenAddress>,
    /// Whether the scheme before them is https; `None` if there is no scheme.
    is_https: Option<bool>,
}

impl ListenAddresses {
    /// The listeners. Those without a scheme are for TLS if `tls` says so, or by their port.
    pub(super) fn listeners(self, tls: bool) -> impl Iterator<Item = ListenerSettings> {
        let ListenAddresses { addresses, is_https } = self;
        addresses.into_iter().map(move |address| {
            let listener = ListenerSettings::new(absolute_address(address));
            let is_tcp = matches!(listener.address, ListenAddress::Tcp(_));
            let tls = is_https.unwrap_or(listener.tls || (tls && is_tcp));
            ListenerSettings { tls, ..listener }
        })
    }
}

fn absolute_address(address: ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Unix(path) => {
            ListenAddress::Unix(std::path::absolute(&path).unwrap_or(path))
        }
        other => other,
    }
}

fn listen(text: &str) -> Result<ListenAddresses, String> {
    // The advice is written for the configuration file, where addresses are in quotes.
    let (is_https, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (Some(true), rest),
        (None, Some(rest)) => (Some(false), rest),
        (None, None) => (None, text),
    };
    if is_https == Some(true) && rest.starts_with("unix:") {
        return Err("a Unix socket has no TLS; leave https:// out".to_owned());
    }
    listen_addresses(rest)
        .map(|addresses| ListenAddresses { addresses, is_https })
        .map_err(|(what, help)| format!("{what}; {}", help.replace(['`', '"'], "")))
}

fn count(text: &str) -> Result<Count, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Count::Auto),
        (_, Ok(number)) if number > 0 => Ok(Count::Exactly(number)),
        _ => Err("give a number from 1, or auto".to_owned()),
    }
}

fn count_of_workers(text: &str) -> Result<Count, String> {
    match count(text)? {
        Count::Exactly(number) if number > MOST_WORKERS => {
            Err(format!("give a number from 1 to {MOST_WORKERS}, or auto"))
        }
        count => Ok(count),
    }
}

fn access_log(text: &str) -> Result<AccessTarget, String> {
    // The advice is written for the configuration file, where values are in quotes.
    AccessTarget::parse(text)
        .map_err(|(what, help)| format!("{what}; {}", help.replace(['`', '"'], "")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn serve(arguments: &[&str]) -> Result<ServeArguments, String> {
        let line = CommandLine::try_parse_from([&["howdah", "serve"], arguments].concat());
        match line.map_err(|error| error.to_string())?.task {
            CliTask::Serve(serve) => Ok(serve),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clap_finds_no_fault() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn what_serve_understands() {
        let all = "/srv --listen 127.0.0.1:1 --listen :2 --listen https://127.0.0.1:3 --tls \
            internal --workers 3 --threads auto --no-php --no-htaccess --access-log off";
        let serve = serve(&all.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(serve.sites.folder, Some("/srv".into()));
        let listen: Vec<String> = serve
            .listen
            .iter()
            .flat_map(|one| &one.addresses)
            .map(ListenAddress::to_string)
            .collect();
        assert_eq!(listen, ["127.0.0.1:1", "0.0.0.0:2", "[::]:2", "127.0.0.1:3"]);
        assert_eq!(serve.tls.as_deref(), Some("internal"));
        assert_eq!((serve.workers, serve.threads), (Some(Count::Exactly(3)), Some(Count::Auto)));
        assert!(serve.no_php && serve.no_htaccess);
        assert_eq!(serve.access_log, Some(AccessTarget::Off));
    }

    #[test]
    fn a_pool_has_at_most_1024_workers() {
        let told = serve(&["/srv", "--workers", "1025"]).unwrap_err();
        assert!(told.contains("give a number from 1 to 1024, or auto"), "{told}");
        assert!(serve(&["/srv", "--workers", "1024", "--threads", "1025"]).is_ok());
    }

    #[test]
    fn listeners_are_for_tls_by_scheme_option_and_port() {
        for (text, internal, expected) in [
            ("127.0.0.1:1", false, false),
            ("127.0.0.1:1", true, true),
            ("127.0.0.1:443", false, true),
            ("http://127.0.0.1:443", true, false),
            ("https://127.0.0.1:1", false, true),
            ("unix:/run/a.sock", true, false),
        ] {
            let listeners: Vec<ListenerSettings> =
                listen(text).unwrap().listeners(internal).collect();
            assert_eq!(listeners[0].tls, expected, "{text} {internal}");
        }
    }

    #[test]
    fn what_serve_refuses() {
        for (arguments, why) in [
            (&["--workers", "0"][..], "a number from 1"),
            (&["--listen", "8080"], "write :8080 or 127.0.0.1:8080"),
            (&["/srv", "--config", "x.toml"], "cannot be used with"),
            (&["--port", "1"], "unexpected argument"),
            (&["--tls", "auto"], "internal"),
            (&["--listen", "https://unix:/run/a.sock"], "a Unix socket has no TLS"),
            (&["--access-log", ""], "a file, syslog:FACILITY:TAG"),
        ] {
            let error = serve(arguments).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
