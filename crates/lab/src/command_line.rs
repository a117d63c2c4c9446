//! The command line of `howdah-lab`.

mod setup;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::environment::{self, Temporary};
use crate::loads::{self, Wrong};
use crate::plan::{Effort, Plan};
use crate::record::Run;
use crate::runner::Runner;
use crate::scenarios::{self, Facts, Scenario};
use crate::stack::StackEnvironment;
use crate::terminal::{Terminal, duration};
use crate::wordpress::WordPress;
use crate::{machine, report, stacks};

/// Exit code after bad usage.
const EXIT_USAGE: u8 = 2;
/// Exit code after Ctrl-C, as shells report it.
const EXIT_INTERRUPTED: u8 = 130;

/// Runs real PHP servers side by side on this machine and says which is better at what.
#[derive(Debug, Parser)]
#[command(name = "howdah-lab", version, disable_help_subcommand = true)]
struct LabCommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the servers and load generators from Debian's packages
    Setup(setup::SetupArguments),
    /// Say what is missing, what the kernel allows, and how noisy the machine is
    Doctor,
    /// List scenarios and stacks
    List,
    /// Run a scenario
    Run(Box<RunArguments>),
    /// Draw the report of a run again
    Report {
        /// The run's folder
        folder: PathBuf,
    },
    /// Compare two runs
    Diff {
        /// The earlier run's folder
        before: PathBuf,
        /// The later run's folder
        after: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The scenario's name; `howdah-lab list` shows all
    scenario: String,
    /// End within five minutes on two processors: fewer rounds, cells and stacks
    #[arg(long)]
    quick: bool,
    /// Rounds of each cell
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Seconds that each load lasts, where it has no number of requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Factor for the studies' numbers of requests
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,
    /// Run PHP without opcache
    #[arg(long)]
    no_opcache: bool,
    /// Only these stacks, separated by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    stacks: Vec<String>,
    /// Only these cells, separated by commas, by name or the beginning of it
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    cells: Vec<String>,
    /// Folder that the run is kept in; a run that is there already is continued [default:
    /// howdah-lab-SCENARIO]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Howdah's binary [default: the howdah beside this program]
    #[arg(long, value_name = "FILE")]
    howdah: Option<PathBuf>,
    /// For `ab`: the binary without the change; its howdah-php is in the same folder
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// For `ab`: the binary with the change
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// For `ab`: the loads of HelloWorld pages take turns of a tenth of a second
    #[arg(long)]
    turns: bool,
    /// For `site`: your site's folder
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// For `site`: the Host field
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// For `site`: a path to ask for; may be repeated
    #[arg(long, value_name = "PATH")]
    url: Vec<String>,
    /// For `site`: a file with a path in each line
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// For `site`: an access log, whose most frequent requests are asked for
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Parses the command line and carries out its task.
pub fn main() -> ExitCode {
    let task = match LabCommandLine::try_parse() {
        Ok(line) => line.task,
        Err(mistake) => {
            let _ = mistake.print();
            return if mistake.use_stderr() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let result = match task {
        Task::Setup(arguments) => arguments.install(),
        Task::Doctor => doctor(),
        Task::List => list(),
        Task::Run(arguments) => arguments.run(),
        Task::Report { folder } => {
            report::redraw(&folder).map(|file| done(&format!("{}", file.display())))
        }
        Task::Diff { before, after } => {
            report::diff(&before, &after).map(|text| done(text.trim_end()))
        }
    };
    result.unwrap_or_else(|Wrong(why)| {
        eprintln!("howdah-lab: {why}");
        ExitCode::FAILURE
    })
}

fn done(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// The environment before there is a run: enough to say what is missing.
fn local_environment() -> Result<StackEnvironment, Wrong> {
    let php = environment::php_version().ok_or_else(|| {
        Wrong("php is not installed; on Debian: apt-get install php-cli".to_owned())
    })?;
    Ok(StackEnvironment {
        root: PathBuf::new(),
        ini: PathBuf::new(),
        php,
        php_processes: 8,
        connections: 32,
        cores: machine::cores(),
        user: environment::user(),
        opcache: true,
        howdah: beside("howdah"),
        tls: None,
        settings: Default::default(),
    })
}

/// The path of a program in the folder of this one.
fn beside(name: &str) -> PathBuf {
    std::env::current_exe().map_or_else(|_| name.into(), |own| own.with_file_name(name))
}

fn doctor() -> Result<ExitCode, Wrong> {
    for finding in machine::doctor(&local_environment()?, &stacks::all()) {
        println!(
            "{} {}: {}",
            if finding.good { "good" } else { "LOOK" },
            finding.what,
            finding.text
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode, Wrong> {
    println!("Scenarios:");
    for scenario in scenarios::ALL {
        println!("  {:<15} {}", scenario.name, scenario.summary);
    }
    println!("\nStacks:");
    for stack in stacks::all() {
        println!("  {:<32} {}", stack.name(), stack.title());
    }
    Ok(ExitCode::SUCCESS)
}

impl RunArguments {
    fn run(&self) -> Result<ExitCode, Wrong> {
        let scenario = scenarios::named(&self.scenario).map_err(Wrong)?;
        let effort = self.effort(scenario);
        let binaries = self.binaries()?;
        let interrupted = watch_for_interrupts(
            "stopping after this round; what was measured is kept (once more: at once)",
        )?;
        machine::allow_descriptors();
        let temporary = Temporary::new()?;
        let mut terminal = Terminal::new();
        let root = self.document_root(&temporary)?;
        let (ini, ini_without_opcache) =
            (temporary.path().join("php.ini"), temporary.path().join("php-without-opcache.ini"));
        environment::write_ini(&ini, true)?;
        environment::write_ini(&ini_without_opcache, false)?;
        let facts = Facts {
            binaries,
            turns: self.turns,
            ..self.facts(effort, scenario.wordpress)?
        };
        let (plan, effort, mut wordpress) = self.prepare(scenario, facts, &root, &temporary)?;
        let out = self
            .out
            .clone()
            .unwrap_or_else(|| format!("howdah-lab-{}", scenario.name).into());
        let mut run = self.begin(scenario, effort, &out)?;
        let howdah = self.howdah.clone().unwrap_or_else(|| beside("howdah"));
        let environment = StackEnvironment {
            root,
            ini,
            howdah,
            ..local_environment()?
        };
        eprintln!(
            "howdah-lab: {}: {} rounds, {} at the most",
            scenario.name,
            effort.rounds,
            duration(plan.estimate(&effort).as_secs())
        );
        let has_own_database = plan.groups.iter().any(|group| group.conditions.database);
        let database = wordpress.as_mut().filter(|_| has_own_database).map(WordPress::stop);
        let mut runner = Runner {
            database,
            environment,
            ini_without_opcache,
            folder: temporary.path().join("stacks"),
            effort,
            out: Some(out.clone()),
            interrupted,
            progress: &mut terminal,
        };
        let finished = runner.carry_out(&plan, &mut run)?;
        drop(wordpress);
        tell(finished, &out, &run)
    }

    /// Returns the folder that is served: the user's, or a new one with the laboratory's documents.
    fn document_root(&self, temporary: &Temporary) -> Result<PathBuf, Wrong> {
        match &self.root {
            Some(folder) => folder
                .canonicalize()
                .map_err(|error| Wrong(format!("{}: {error}", folder.display()))),
            None => {
                let root = temporary.path().join("root");
                environment::write_documents(&root)?;
                Ok(root)
            }
        }
    }

    /// Makes the plan, and starts WordPress and writes the folders that the plan asks for. Where
    /// WordPress cannot be started, the plan has none, and says why.
    fn prepare(
        &self,
        scenario: &Scenario,
        facts: Facts,
        root: &Path,
        temporary: &Temporary,
    ) -> Result<(Plan, Effort, Option<WordPress>), Wrong> {
        let (mut plan, mut effort) = self.plan(scenario, &facts)?;
        let mut wordpress = None;
        if plan.asks_for_wordpress() {
            match WordPress::start(root, &temporary.path().join("mariadb")) {
                Ok(started) => wordpress = Some(started),
                Err(Wrong(why)) => {
                    (plan, effort) = self.plan(scenario, &Facts { wordpress: false, ..facts })?;
                    plan.notes.insert(0, why);
                }
            }
        }
        environment::write_folders(root, plan.folders)?;
        if self.no_opcache {
            plan.without_opcache()?;
        }
        Ok((plan, effort, wordpress))
    }

    /// The plan, reduced to the cells that were asked for, and its effort.
    fn plan(&self, scenario: &Scenario, facts: &Facts) -> Result<(Plan, Effort), Wrong> {
        let (mut plan, effort) = scenario.within_budget(facts, self.rounds).map_err(Wrong)?;
        if !self.cells.is_empty() {
            plan.keep(&self.cells)?;
        }
        Ok((plan, effort))
    }

    fn effort(&self, scenario: &Scenario) -> Effort {
        let usual = if self.quick { Effort::QUICK } else { scenario.effort };
        Effort {
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
            time: self.seconds.map_or(usual.time, Duration::from_secs),
            scale: self.scale.unwrap_or(usual.scale),
            ..usual
        }
    }

    /// The binaries of `--before` and `--after`.
    fn binaries(&self) -> Result<Option<(PathBuf, PathBuf)>, Wrong> {
        let find = |file: &Path| {
            let found = file.canonicalize();
            let found = found.map_err(|error| Wrong(format!("{}: {error}", file.display())))?;
            let php = found.with_file_name("howdah-php");
            if !php.is_file() {
                let (php, found) = (php.display(), found.display());
                return Err(Wrong(format!("{php} does not exist; put it beside {found}")));
            }
            Ok::<_, Wrong>(found)
        };
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => Ok(Some((find(before)?, find(after)?))),
            _ => Ok(None),
        }
    }

    fn facts(&self, effort: Effort, wordpress: bool) -> Result<Facts, Wrong> {
        let read = |file: &Path| {
            // A log may hold any bytes that clients have sent.
            std::fs::read(file)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|error| Wrong(format!("{}: {error}", file.display())))
        };
        let mut urls = self.url.clone();
        if let Some(file) = &self.urls {
            urls.extend(
                read(file)?
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.starts_with('/'))
                    .map(str::to_owned),
            );
        }
        if let Some(file) = &self.log {
            urls.extend(scenarios::site::urls_of_log(&read(file)?));
        }
        if let Some(bad) = urls.iter().find(|url| !url.starts_with('/')) {
            return Err(Wrong(format!("{bad}: give paths, which begin with a slash")));
        }
        Ok(Facts {
            effort,
            cores: machine::cores(),
            wordpress,
            stacks: self.stacks.clone(),
            folder: self.root.clone(),
            urls,
            host: self.host.clone(),
            binaries: None,
            turns: false,
            swap: machine::has_swap(),
        })
    }

    /// A new run, or the interrupted one in that folder.
    fn begin(&self, scenario: &Scenario, effort: Effort, out: &Path) -> Result<Run, Wrong> {
        if out.join("run.json").exists() {
            let run = report::read(out)?;
            let is_another = run.scenario != scenario.name
                || run.quick != effort.quick
                || run.scale != effort.scale
                || run.without_opcache != self.no_opcache;
            if is_another {
                let what = format!(
                    "{} holds another run ({}); name another folder with --out",
                    out.display(),
                    run.scenario
                );
                return Err(Wrong(what));
            }
            return Ok(Run { rounds: effort.rounds, ..run });
        }
        let mut run = Run {
            format: 1,
            scenario: scenario.name.to_owned(),
            began: report::now(),
            quick: effort.quick,
            scale: effort.scale,
            rounds: effort.rounds,
            without_opcache: self.no_opcache,
            machine: machine::facts(),
            ..Run::default()
        };
        if machine::is_busy() {
            run.notes.push("the machine was busy with other work before the run".to_owned());
        }
        Ok(run)
    }
}

/// Writes the report, and shows the table and the place of the report. Returns the exit code, which
/// says whether the run was interrupted.
fn tell(finished: bool, out: &Path, run: &Run) -> Result<ExitCode, Wrong> {
    let file = report::write(out, run)?;
    println!("{}", report::table(run));
    println!("howdah-lab: the report is {}", file.display());
    if finished {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("howdah-lab: interrupted; the same command goes on where it stopped");
    Ok(ExitCode::from(EXIT_INTERRUPTED))
}

/// Sets a flag at the first Ctrl-C, SIGTERM or SIGHUP: the run ends after the present round and
/// keeps its figures. The second interrupt cuts the round short. Everything that was started is
/// stopped in both cases.
fn watch_for_interrupts(first: &'static str) -> Result<Arc<AtomicBool>, Wrong> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Registered before this function returns: no signal is missed.
    let listen = |kind| runtime.block_on(async { tokio::signal::unix::signal(kind) });
    use tokio::signal::unix::SignalKind;
    let (mut interrupt, mut terminate, mut hangup) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    );
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                let message = if flag.swap(true, Ordering::Relaxed) {
                    loads::abort();
                    "stopping at once: only servers are still ended"
                } else {
                    first
                };
                eprintln!("\nhowdah-lab: {message}");
            }
        });
    });
    Ok(interrupted)
}
