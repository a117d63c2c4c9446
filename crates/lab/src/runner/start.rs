//! Starting the stacks of a group, and notes on what could not be made equal.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::{Runner, Started};
use crate::environment::give;
use crate::load::LoadProtocol;
use crate::loads::Wrong;
use crate::php_facts::{self, PhpFacts};
use crate::plan::CellGroup;
use crate::probes::cgroup::Limit;
use crate::probes::pss;
use crate::process::StackProgram;
use crate::record::{Run, StackFacts};
use crate::stack::{Running, Stack, StackEnvironment};
use crate::tls::{self, PemFiles};

impl Runner<'_> {
    /// Makes the memory limit of a group. `None`: the group has no limit, or the limit cannot be
    /// made, which is noted in the run.
    pub(super) fn limit(&mut self, group: &CellGroup, run: &mut Run) -> Option<Limit> {
        let limit = Limit::new(group.conditions.memory?, group.conditions.swap);
        limit.map_err(|why| self.note(run, &why)).ok()
    }

    /// Starts the stacks with the group's conditions. Those that cannot be started are noted.
    ///
    /// # Errors
    /// The certificate for the group cannot be made.
    pub(super) fn start(
        &mut self,
        group: &CellGroup,
        settings: &BTreeMap<String, String>,
        stacks: &[Rc<dyn Stack>],
        folder: &Path,
        limit: Option<&Limit>,
        run: &mut Run,
    ) -> Result<Vec<Started>, Wrong> {
        let environment = StackEnvironment {
            php_processes: group.conditions.php_processes,
            connections: group.conditions.connections,
            opcache: group.conditions.opcache,
            tls: self.pair(group)?,
            settings: settings.clone(),
            ini: if group.conditions.opcache {
                self.environment.ini.clone()
            } else {
                self.ini_without_opcache.clone()
            },
            ..self.environment.clone()
        };
        let mut started = Vec::new();
        for stack in stacks {
            let own = folder.join(stack.name());
            let running = match stack.missing(&environment) {
                Some(missing) => Err(missing),
                // Another program may have taken the port between its choice and its use.
                None => start_one(stack.as_ref(), &environment, &own, limit).or_else(|_| {
                    start_one(stack.as_ref(), &environment, &own.with_extension("again"), limit)
                }),
            };
            match running.and_then(|running| Ok((running, self.start_database(group, limit)?))) {
                Ok((running, database)) => {
                    self.remember(run, stack.as_ref(), &running, &environment);
                    started.push(Started {
                        stack: stack.clone(),
                        running,
                        _database: database,
                    });
                }
                Err(why) => {
                    self.note(run, &format!("without {}: {why}", stack.title()));
                    if !run.absent.iter().any(|(name, _)| name == stack.name()) {
                        run.absent.push((stack.name().to_owned(), why));
                    }
                }
            }
        }
        let names: Vec<&str> = started.iter().map(|one| one.stack.name()).collect();
        self.progress.group(group, &names);
        Ok(started)
    }

    /// Starts the database inside the limit, where the group wants it there.
    fn start_database(
        &self,
        group: &CellGroup,
        limit: Option<&Limit>,
    ) -> Result<Option<StackProgram>, String> {
        let Some(database) = self.database.as_ref().filter(|_| group.conditions.database) else {
            return Ok(None);
        };
        let start = || database.start().map_err(|wrong| wrong.to_string());
        match limit {
            Some(limit) => limit.within(start).and_then(|started| started),
            None => start(),
        }
        .map(Some)
    }

    /// The certificate of the group's stacks.
    fn pair(&self, group: &CellGroup) -> Result<Option<PemFiles>, Wrong> {
        let Some(kind) = group.conditions.tls else {
            return Ok(None);
        };
        let folder = self.folder.join("tls");
        std::fs::create_dir_all(&folder)?;
        PemFiles::of(kind, &folder).map(Some)
    }

    fn remember(
        &self,
        run: &mut Run,
        stack: &dyn Stack,
        running: &Running,
        environment: &StackEnvironment,
    ) {
        if run.stacks.iter().any(|known| known.name == stack.name()) {
            return;
        }
        let folder = self.folder.to_string_lossy().into_owned();
        let without_folder = |text: &String| text.replace(&folder, "$FOLDER");
        run.stacks.push(StackFacts {
            name: stack.name().to_owned(),
            title: stack.title().to_owned(),
            version: stack.version(environment),
            unequal: stack.unequal().map(str::to_owned),
            configuration: running
                .configuration
                .iter()
                .map(|(name, text)| (name.clone(), without_folder(text)))
                .collect(),
            idle_pss: pss(&running.roots()),
        });
    }

    /// Notes differences between the stacks' PHP, where they serve the laboratory's documents.
    pub(super) fn note_php(&mut self, group: &CellGroup, started: &[Started], run: &mut Run) {
        let protocol = match group.conditions.tls {
            None => LoadProtocol::Http,
            Some(_) => LoadProtocol::Https,
        };
        let facts = |one: &Started| {
            // The first request starts processes that a server starts late.
            let ask = || php_facts::of(one.running.port, protocol);
            let facts = ask().and_then(|_| ask());
            Some((one.stack.title().to_owned(), facts?))
        };
        let all: Vec<(String, PhpFacts)> =
            started.iter().filter(|one| one.stack.serves_php()).filter_map(facts).collect();
        let all: Vec<(&str, PhpFacts)> =
            all.iter().map(|(title, facts)| (title.as_str(), facts.clone())).collect();
        for note in php_facts::differences(&all, group.conditions.opcache) {
            self.note(run, &note);
        }
    }

    /// Notes what each stack has agreed on with the client, where it is not what the first has.
    pub(super) fn note_tls(&mut self, group: &CellGroup, started: &[Started], run: &mut Run) {
        let Ok(Some(pair)) = self.pair(group) else {
            return;
        };
        let mut first: Option<(&str, String)> = None;
        for one in started {
            let title = one.stack.title();
            match (tls::agreed(one.running.port, &pair), &first) {
                (Err(why), _) => self.note(run, &format!("{title}: {why}")),
                (Ok(found), Some((before, expected))) if found != *expected => {
                    self.note(run, &format!("{title}: {found}; {before}: {expected}"));
                }
                (Ok(found), None) => {
                    self.note(run, &format!("all but those that are named: {found}"));
                    first = Some((title, found));
                }
                (Ok(_), Some(_)) => {}
            }
        }
    }
}

/// Starts a stack in its folder, inside a memory limit if there is one.
fn start_one(
    stack: &dyn Stack,
    environment: &StackEnvironment,
    folder: &Path,
    limit: Option<&Limit>,
) -> Result<Running, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    give(folder, environment);
    let start = || stack.start(environment, folder).map_err(|error| error.to_string());
    match limit {
        Some(limit) => limit.within(start).and_then(|started| started),
        None => start(),
    }
}
