//! The command line.

mod arguments;
mod check;
mod print;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use howdah_config::{AccessTarget, Config};

use self::arguments::{
    CheckArguments, CliTask, CommandLine, CompletionArguments, ExplainArguments, ImportArguments,
    ImportSource, ServeArguments, ServerArguments, SiteArguments, StatusArguments,
};
use self::print::{complain, exit_code, say, say_as_is};
use crate::explain::{self, ExplainRequest};
use crate::import;
use crate::supervisor::control::{self, ControlCommand};
use crate::supervisor::environment::Environment;
use crate::supervisor::plan::{ServeOptions, ServePlan, SiteSource};
use crate::supervisor::{self, CommandError};

/// Exit status for wrong usage and for a mistake in the configuration.
const EXIT_USAGE: u8 = 2;

/// Runs the command that the command line names.
pub(crate) fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> ExitCode {
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
        CliTask::OrderCertificates => supervisor::run_order_process().map_err(CommandError::Failed),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            complain(&refusal.to_string());
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
        let mut explanation = explain::explain(&config, &question).map_err(CommandError::Failed)?;
        if matches!(plan.source, SiteSource::Folder(_)) {
            // Nobody has said yet where the folder will be served.
            explanation.arrival = None;
        }
        match self.json {
            true => say_as_is(explain::json(&explanation).trim_end()),
            false => say(explain::text(&explanation).trim_end()),
        }
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
            complain(&remark.to_string());
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
        say_as_is(String::from_utf8_lossy(&script).trim_end());
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
        let is_for_programs = command == ControlCommand::StatusJson;
        let answer = control::ask(&path, command).map_err(CommandError::Failed)?;
        match is_for_programs {
            true => say_as_is(&answer),
            false => say(&answer),
        }
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
