//! The scenarios: the published studies, today's table, and the reader's own site.

mod a2o_2009;
mod ab;
mod allowoverride;
mod event_2016;
mod fairness;
mod fastcgi_2006;
mod htaccess;
mod https;
pub mod site;
mod today;
mod vps_256mb;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::environment::HELLO;
use crate::load::{Load, Question};
use crate::plan::{Effort, GroupConditions, Plan, PlannedCell};
use crate::record::Figure;

/// A scenario as the command line lists it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Whether the scenario asks for WordPress on MariaDB.
    pub wordpress: bool,
    /// The effort of a full run.
    pub effort: Effort,
    /// Upper limit of a full run's duration.
    pub budget: Option<Duration>,
    /// Makes the plan for an effort.
    pub plan: fn(&Facts) -> Result<Plan, String>,
}

impl Scenario {
    /// Returns the plan with as much effort as the budget allows, and that effort. The effort stays
    /// as it is without a budget, or where a person has asked for a number of rounds (`rounds`).
    ///
    /// # Errors
    ///
    /// Even the smallest effort takes longer than the budget.
    pub fn within_budget(
        &self,
        facts: &Facts,
        rounds: Option<u32>,
    ) -> Result<(Plan, Effort), String> {
        let budget = facts.effort.budget.or(self.budget);
        let (Some(budget), None) = (budget, rounds) else {
            return Ok(((self.plan)(facts)?, facts.effort));
        };
        let mut efforts = facts.effort.less_and_less();
        let mut last = facts.effort;
        loop {
            let effort = efforts.next().unwrap_or(last);
            let plan = (self.plan)(&Facts { effort, ..facts.clone() })?;
            let fits = plan.estimate(&effort) <= budget;
            if fits || effort == last && effort.rounds == 1 {
                return Ok((plan, effort));
            }
            last = effort;
        }
    }
}

/// The input of a scenario's plan.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Rounds and durations.
    pub effort: Effort,
    /// Processors of this machine.
    pub cores: usize,
    /// Whether WordPress is available.
    pub wordpress: bool,
    /// Only these stacks; empty: the scenario's own choice.
    pub stacks: Vec<String>,
    /// For `site`: the folder.
    pub folder: Option<PathBuf>,
    /// For `site`: the URLs.
    pub urls: Vec<String>,
    /// For `site`: the Host field.
    pub host: Option<String>,
    /// For `ab`: the two binaries, the earlier one first.
    pub binaries: Option<(PathBuf, PathBuf)>,
    /// Whether the machine has swap.
    pub swap: bool,
    /// For `ab`: whether the loads of small pages take turns within a round.
    pub turns: bool,
}

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "today",
        summary: "what matters today, every stack: small and large PHP pages, WordPress, files, \
            memory, slow clients",
        wordpress: true,
        effort: Effort::FULL,
        budget: Some(Duration::from_secs(40 * 60)),
        plan: today::plan,
    },
    Scenario {
        name: "a2o-2009",
        summary: "Apache + mod_php against nginx + php-fpm over a sweep of concurrency (2009)",
        wordpress: true,
        effort: Effort::FULL,
        budget: None,
        plan: a2o_2009::plan,
    },
    Scenario {
        name: "vps-256mb",
        summary: "WordPress and its database in 256 MB, a growing crowd, each stack as installed \
            and tuned",
        wordpress: true,
        effort: Effort::FULL,
        budget: None,
        plan: vps_256mb::plan,
    },
    Scenario {
        name: "event-2016",
        summary: "whether Apache's event MPM is as good as nginx (2016)",
        wordpress: false,
        effort: Effort::FULL,
        budget: None,
        plan: event_2016::plan,
    },
    Scenario {
        name: "fastcgi-2006",
        summary: "mod_php, FastCGI, lighttpd and the opcode cache with a framework of hundreds of \
            files (2006)",
        wordpress: false,
        effort: Effort::FULL,
        budget: None,
        plan: fastcgi_2006::plan,
    },
    Scenario {
        name: "allowoverride",
        summary: "where Apache's time goes: .htaccess look-ups, by system calls",
        wordpress: false,
        effort: Effort::FULL,
        budget: None,
        plan: allowoverride::plan,
    },
    Scenario {
        name: "htaccess",
        summary: "what .htaccess files cost: applications' rules, long lists, many folders, on \
            Howdah and Apache",
        wordpress: false,
        effort: htaccess::EFFORT,
        budget: None,
        plan: htaccess::plan,
    },
    Scenario {
        name: "https",
        summary: "TLS: handshakes, pages and files over HTTP/1.1, HTTP/2 and HTTP/3, idle \
            connections",
        wordpress: false,
        effort: https::EFFORT,
        budget: None,
        plan: https::plan,
    },
    Scenario {
        name: "fairness",
        summary: "whether a slow page that many ask for makes the other pages of its site wait",
        wordpress: false,
        effort: fairness::EFFORT,
        budget: None,
        plan: fairness::plan,
    },
    Scenario {
        name: "ab",
        summary: "two Howdah binaries in interleaved short rounds: what a change has gained or \
                  lost",
        wordpress: true,
        effort: ab::EFFORT,
        budget: None,
        plan: ab::plan,
    },
    Scenario {
        name: "site",
        summary: "your own site: a folder and URLs, or an access log, on every stack",
        wordpress: false,
        effort: Effort::FULL,
        budget: None,
        plan: site::plan,
    },
];

/// Finds a scenario by name; the error lists the known ones.
///
/// # Errors
///
/// No scenario has this name.
pub fn named(name: &str) -> Result<&'static Scenario, String> {
    let names = || ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("there is no scenario {name}; there are {}", names()))
}

impl Facts {
    /// The stacks that were asked for, otherwise `usual`.
    fn stacks(&self, usual: &[&str]) -> Result<Vec<std::rc::Rc<dyn crate::stack::Stack>>, String> {
        if self.stacks.is_empty() {
            return crate::stacks::named(usual);
        }
        crate::stacks::named(&self.stacks.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The question for a document of the laboratory, with its body where it is known.
fn page(path: &str) -> Question {
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    let body = match path {
        "/HelloWorld.php" | "/HelloWorld.txt" => Some(HELLO.to_vec()),
        "/wait.php" => Some(b"waited".to_vec()),
        "/compute.php" => Some(b"computed".to_vec()),
        "/2B.txt" => Some(b"ok".to_vec()),
        "/21KB.txt" => Some(line.repeat(21)),
        "/92KB.js" => Some(line.repeat(92)),
        "/100KB.txt" => Some(line.repeat(100)),
        "/150KB.jpg" => Some(line.repeat(150)),
        "/100KB.php" => Some(vec![b'x'; 104_857]),
        "/1MB.txt" | "/1MB.php" => Some(line.repeat(1024)),
        "/10x100KB.php" => Some(line.repeat(1000)),
        "/framework/index.php" => Some(b"included 300 parts\n".to_vec()),
        _ => None,
    };
    Question {
        path: path.to_owned(),
        body,
        is_agreed: path == "/work.php",
        ..Question::default()
    }
}

/// A planned cell with its place on a chart.
fn cell(
    chart: &str,
    at: Option<(f64, &str)>,
    figure: Figure,
    question: Question,
    load: Load,
) -> PlannedCell {
    let (place, axis) = at.map_or((None, ""), |(at, axis)| (Some(at), axis));
    PlannedCell {
        name: place.map_or_else(|| chart.to_owned(), |at| format!("{chart}/{at}")),
        chart: chart.to_owned(),
        at: place,
        axis: axis.to_owned(),
        figure,
        php: question.path.ends_with(".php") || question.path.ends_with('/'),
        question,
        load,
        counts_calls: false,
        study: Vec::new(),
        base: None,
        most_rounds: None,
        in_turns: false,
    }
}

/// Conditions in which all stacks of a group run at the same time.
fn together(php_processes: usize, connections: usize) -> GroupConditions {
    GroupConditions {
        php_processes,
        connections,
        opcache: true,
        alone: false,
        memory: None,
        swap: 0,
        database: false,
        tls: None,
        settings: BTreeMap::new(),
        search: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(effort: Effort) -> Facts {
        Facts {
            effort,
            cores: 2,
            wordpress: true,
            stacks: Vec::new(),
            folder: Some("/srv/site".into()),
            urls: vec!["/".to_owned(), "/a".to_owned()],
            host: None,
            binaries: Some(("/old/howdah".into(), "/new/howdah".into())),
            turns: false,
            swap: true,
        }
    }

    #[test]
    fn every_scenario_asks_every_stack_for_every_cell_once() {
        for scenario in ALL {
            for effort in [Effort::QUICK, Effort::FULL] {
                let plan = (scenario.plan)(&facts(effort)).unwrap();
                // A cell may be in several groups, for one stack each.
                let pairs: Vec<(&str, &str)> = plan
                    .groups
                    .iter()
                    .flat_map(|group| {
                        group.cells.iter().flat_map(|cell| {
                            group.stacks.iter().map(|stack| (cell.name.as_str(), stack.name()))
                        })
                    })
                    .collect();
                assert!(!pairs.is_empty(), "{}", scenario.name);
                for pair in &pairs {
                    assert_eq!(
                        pairs.iter().filter(|other| *other == pair).count(),
                        1,
                        "{}: {pair:?}",
                        scenario.name
                    );
                }
            }
        }
    }

    #[test]
    fn quick_runs_end_within_five_minutes_and_today_within_its_budget() {
        for scenario in ALL {
            let urls = (0..30).map(|number| format!("/{number}")).collect();
            let facts = Facts { urls, ..facts(Effort::QUICK) };
            let (plan, effort) = scenario.within_budget(&facts, None).unwrap();
            let estimate = plan.estimate(&effort);
            eprintln!("{}: {} rounds, {estimate:?}", scenario.name, effort.rounds);
            assert!(estimate <= Duration::from_secs(265), "{}: {estimate:?}", scenario.name);
            assert!(effort.rounds >= 2, "{}: {} rounds", scenario.name, effort.rounds);
        }
        for scenario in ALL {
            let (plan, effort) = scenario.within_budget(&facts(Effort::FULL), None).unwrap();
            let estimate = plan.estimate(&effort);
            eprintln!("{} in full: {effort:?}, {estimate:?}", scenario.name);
            assert!(scenario.budget.is_none_or(|budget| estimate <= budget));
            assert!(effort.rounds >= 5, "{}", scenario.name);
        }
    }

    #[test]
    fn a_number_of_rounds_that_was_asked_for_stays() {
        let asked = Effort { rounds: 99, ..Effort::QUICK };
        let (_, effort) = ALL[0].within_budget(&facts(asked), Some(99)).unwrap();
        assert_eq!(effort.rounds, 99);
    }

    #[test]
    fn an_unknown_scenario_is_answered_with_the_known() {
        let error = named("phoronix").unwrap_err();
        assert!(error.contains("phoronix") && error.contains("a2o-2009"), "{error}");
    }

    #[test]
    fn chosen_stacks_replace_the_usual_ones() {
        let facts = Facts {
            stacks: vec!["howdah".to_owned()],
            ..facts(Effort::QUICK)
        };
        let plan = (named("today").unwrap().plan)(&facts).unwrap();
        assert!(
            plan.groups.iter().all(|group| {
                group.stacks.iter().all(|stack| stack.name().starts_with("howdah"))
            })
        );
        let facts = Facts { stacks: vec!["iis".to_owned()], ..facts };
        assert!((named("today").unwrap().plan)(&facts).unwrap_err().contains("iis"));
    }
}
