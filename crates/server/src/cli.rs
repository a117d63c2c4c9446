//! The command line.

mod check;

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use howdah_config::{
    AccessTarget, Config, Count, ListenAddress, ListenerSettings, listen_addresses,
};

use crate::explain::{self, ExplainRequest};
use crate::import;
use crate::supervisor::control::{self, ControlCommand};
use crate::supervisor::environment::Environment;
use crate::supervisor::plan::{ServeOptions, ServePlan, SiteSource};
use crate::supervisor::{self, CommandError};

/// Exit status for wrong usage and for a mistake in the configuration.
const EXIT_USAGE: u8 = 2;

/// A server for PHP sites.
#[derive(Debug, Parser)]
#[command(name = "howdah", version)]
struct CommandLine {
    #[command(subcommand)]
    task: CliTask,
}

#[derive(Debug, Subcommand)]
enum CliTask {
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
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    sites: SiteArguments,
    // Not a doc comment: rustdoc would take the address in brackets for a link.
    #[arg(
        long,
        value_name = "ADDR",
        value_parser = listen,
        help = "Address to accept connections on: 127.0.0.1:8080, [::1]:8080, :80 for every \
                address, or unix:/run/howdah/web.sock; with http:// or https:// before it, in the \
                clear or over TLS; may be repeated"
    )]
    listen: Vec<ListenAddresses>,
    /// Serve over TLS with certificates of the local authority, for development
    #[arg(long, value_name = "internal", value_parser = ["internal"])]
    tls: Option<String>,
    /// PHP workers per site: a number, or auto for four per processor
    #[arg(long, value_name = "N|auto", value_parser = count)]
    workers: Option<Count>,
    /// Event-loop threads: a number, or auto for one per processor
    #[arg(long, value_name = "N|auto", value_parser = count)]
    threads: Option<Count>,
    /// Serve files only; PHP files are refused
    #[arg(long)]
    no_php: bool,
    /// Read no .htaccess files
    #[arg(long)]
    no_htaccess: bool,
    /// Where the access log goes: a file, - for standard output, or off
    #[arg(long, value_name = "FILE|-|off", value_parser = access_log)]
    access_log: Option<AccessTarget>,
}

#[derive(Debug, Args)]
struct CheckArguments {
    #[command(flatten)]
    sites: SiteArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ExplainArguments {
    /// A method, unless it is GET, and a URL or its path
    #[arg(value_name = "[METHOD] URL", num_args = 1..=2, required = true)]
    asked: Vec<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    config: Option<PathBuf>,
    /// Folder of a single site [default: .]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// A line of the request's head, such as 'Cookie: a=b'; may be repeated
    #[arg(long, value_name = "Name: value")]
    header: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    from: IpAddr,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SiteArguments {
    /// Folder of a single site [default: .]
    #[arg(value_name = "DIR", conflicts_with = "config")]
    folder: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ServerArguments {
    /// The configuration file that the server runs with
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    config: Option<PathBuf>,
    /// The server's control socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ImportArguments {
    #[command(subcommand)]
    from: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Pools of php-fpm, such as /etc/php/8.2/fpm/pool.d/*.conf
    Fpm {
        /// The files of the pools
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Show sites and workers on the terminal, brought up to date every second; q ends it
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
struct CompletionArguments {
    /// The shell
    shell: Shell,
}

/// The addresses of one `--listen` option.
#[derive(Debug, Clone)]
struct ListenAddresses {
    addresses: Vec<ListenAddress>,
    /// Whether the scheme before them is https; `None` if there is no scheme.
    is_https: Option<bool>,
}

impl ListenAddresses {
    /// The listeners. Those without a scheme are for TLS if `tls` says so, or by their port.
    fn listeners(self, tls: bool) -> impl Iterator<Item = ListenerSettings> {
        let ListenAddresses { addresses, is_https } = self;
        addresses.into_iter().map(move |address| {
            let listener = ListenerSettings::new(absolute_address(address));
            let is_tcp = matches!(listener.address, ListenAddress::Tcp(_));
            let tls = is_https.unwrap_or(listener.tls || (tls && is_tcp));
            ListenerSettings { tls, ..listener }
        })
    }
}

/// Runs the command that the command line names.
pub(crate) fn main() -> ExitCode {
    let CommandLine { task } = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(mistake) => return usage(&mistake),
    };
    let result = match task {
        CliTask::Serve(serve) => serve.run(),
        CliTask::Check(check) => return check.run(),
        CliTask::Explain(explain) => explain.run(),
        CliTask::Import(import) => import.run(),
        CliTask::Status(status) => status.run(),
        CliTask::Reload(running) => running.ask(ControlCommand::Reload),
        CliTask::Stop(running) => running.ask(ControlCommand::Stop),
        CliTask::Completion(completion) => completion.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("howdah: {refusal}");
            match refusal {
                CommandError::Config(_) => ExitCode::from(EXIT_USAGE),
                CommandError::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

/// Help and version go to standard output. Everything else is a mistake and is reported like other
/// errors.
fn usage(mistake: &clap::Error) -> ExitCode {
    if !mistake.use_stderr() {
        say(mistake.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let text = mistake.render().to_string();
    match text.strip_prefix("error: ") {
        Some(text) => eprint!("howdah: {text}"),
        None => eprint!("{text}"),
    }
    ExitCode::from(EXIT_USAGE)
}

impl ServeArguments {
    fn run(self) -> Result<(), CommandError> {
        let ServeArguments {
            sites,
            listen,
            tls,
            workers,
            threads,
            no_php,
            no_htaccess,
            access_log,
        } = self;
        let tls_internal = tls.is_some();
        let listen = listen.into_iter().flat_map(|one| one.listeners(tls_internal)).collect();
        let options = ServeOptions {
            listen,
            tls_internal,
            workers,
            threads,
            no_php,
            no_htaccess,
            access_log: access_log.map(absolute_target),
        };
        let plan = ServePlan { source: sites.source()?, options };
        supervisor::serve(plan, read_environment()?, crate::front::run)
    }
}

impl ExplainArguments {
    fn run(mut self) -> Result<(), CommandError> {
        let url = self.asked.pop().unwrap_or_default();
        let method = self.asked.pop().unwrap_or_else(|| "GET".to_owned());
        let sites = SiteArguments { folder: self.root, config: self.config };
        let plan = ServePlan {
            source: sites.source()?,
            options: ServeOptions::default(),
        };
        let config = plan.load().map_err(CommandError::Config)?;
        let question = ExplainRequest {
            method,
            url,
            fields: self.header,
            from: self.from,
        };
        let explanation = explain::explain(&config, &question).map_err(CommandError::Failed)?;
        let page = match self.json {
            true => explain::json(&explanation),
            false => explain::text(&explanation),
        };
        say(page.trim_end());
        Ok(())
    }
}

impl SiteArguments {
    fn source(self) -> Result<SiteSource, CommandError> {
        Ok(match self.config {
            Some(file) => SiteSource::File(absolute(file)?),
            None => SiteSource::Folder(absolute(self.folder.unwrap_or_else(|| ".".into()))?),
        })
    }
}

impl ImportArguments {
    fn run(self) -> Result<(), CommandError> {
        let ImportSource::Fpm { files } = self.from;
        let files: Result<Vec<_>, String> =
            files.iter().map(|path| import::fpm::read(path)).collect();
        let imported = import::fpm::import(&files.map_err(CommandError::Failed)?);
        for remark in &imported.remarks {
            eprintln!("howdah: {remark}");
        }
        if imported.config.is_empty() {
            return Err(CommandError::Failed("there is no pool in these files".to_owned()));
        }
        say(imported.config.trim_end());
        Ok(())
    }
}

impl CompletionArguments {
    fn run(self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "howdah", &mut script);
        say(String::from_utf8_lossy(&script).trim_end());
        Ok(())
    }
}

impl StatusArguments {
    fn run(self) -> Result<(), CommandError> {
        if self.watch {
            let path = self.server.path()?;
            let ask = || control::ask(&path, ControlCommand::StatusJson);
            return howdah_watch::run(ask).map_err(CommandError::Failed);
        }
        let command = match self.json {
            true => ControlCommand::StatusJson,
            false => ControlCommand::Status,
        };
        self.server.ask(command)
    }
}

impl ServerArguments {
    fn ask(self, command: ControlCommand) -> Result<(), CommandError> {
        let path = self.path()?;
        say(&control::ask(&path, command).map_err(CommandError::Failed)?);
        Ok(())
    }

    /// Returns the path of the control socket.
    fn path(mut self) -> Result<PathBuf, CommandError> {
        match self.control.take() {
            Some(path) => Ok(path),
            None => self.usual_path(),
        }
    }

    fn usual_path(self) -> Result<PathBuf, CommandError> {
        let environment = read_environment()?;
        let config = match &self.config {
            Some(file) => Config::load(&absolute(file.clone())?)
                .map_err(|errors| CommandError::Config(errors.to_string()))?,
            None => Config::default(),
        };
        let is_root = environment.identity.is_root();
        config.control_path(is_root, environment.runtime.as_deref()).ok_or_else(|| {
            let reason = "no control socket is known: XDG_RUNTIME_DIR is not set; name one with \
                --control, or a configuration that sets `control` with --config";
            CommandError::Config(reason.to_owned())
        })
    }
}

/// A closed pipe is not an error: a reader such as `head` has read enough.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn read_environment() -> Result<Environment, CommandError> {
    Environment::read().map_err(|error| {
        CommandError::Failed(format!(
            "cannot read the user and the program of this process: {error}"
        ))
    })
}

/// Makes a path absolute. Relative paths start at the current folder.
fn absolute(path: PathBuf) -> Result<PathBuf, CommandError> {
    std::path::absolute(&path)
        .map_err(|error| CommandError::Config(format!("{}: {error}", path.display())))
}

fn absolute_target(target: AccessTarget) -> AccessTarget {
    match target {
        AccessTarget::File(path) => AccessTarget::File(std::path::absolute(&path).unwrap_or(path)),
        other => other,
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

fn access_log(text: &str) -> Result<AccessTarget, String> {
    // The advice is written for the configuration file, where values are in quotes.
    AccessTarget::parse(text)
        .map_err(|(what, help)| format!("{what}; {}", help.replace(['`', '"'], "")))
}

#[cfg(test)]
mod tests {
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
