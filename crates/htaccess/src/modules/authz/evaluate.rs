//! What a tree of `Require` directives comes to (httpd's `apply_authz_sections`).

use std::net::IpAddr;

use howdah_http::{Scheme, Status};

use crate::expression::Text;
use crate::method_set::MethodSet;
use crate::network::{in_domain, is_local};
use crate::pattern::Captures;
use crate::trace::Event;
use crate::transaction::{Refusal, Transaction};
use crate::world::{LookedUp, World};

use super::requirement::{Kind as Asked, Names, Requirement, split};
use super::section::{Group, Kind, Logic, Section};

/// What one directive, or a container, comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    Denied,
    /// Denied, and a user might change that.
    DeniedWithoutUser,
    /// Says nothing either way.
    Neutral,
}

/// Returns the groups of a user. The error is for the log.
pub(super) type Groups<'g> = dyn Fn(&[u8], &mut dyn World) -> Result<Vec<Vec<u8>>, String> + 'g;

/// What a request is judged by.
pub(super) struct Judge<'j, 'r> {
    pub tx: &'j mut Transaction<'r>,
    pub groups: &'j Groups<'j>,
    pub world: &'j mut dyn World,
    pub method: MethodSet,
}

impl Judge<'_, '_> {
    /// What a section comes to in a container of that logic.
    pub(super) fn section(&mut self, section: &Section, parent: Logic) -> Result<Verdict, Refusal> {
        self.under(section, parent, false)
    }

    /// `is_inverted`: whether an odd number of negations lies around it, so that its denial is what
    /// lets people in.
    fn under(
        &mut self,
        section: &Section,
        parent: Logic,
        is_inverted: bool,
    ) -> Result<Verdict, Refusal> {
        if !section.methods.meets(self.method) {
            let verdict = if parent == Logic::All {
                Verdict::Granted
            } else {
                Verdict::Neutral
            };
            self.note(section, verdict, Some("for other methods"));
            return Ok(verdict);
        }
        let is_inverted = is_inverted ^ section.is_negated;
        let verdict = match &section.kind {
            Kind::Requirement(requirement) => {
                self.requirement(section, requirement, is_inverted)?
            }
            Kind::Group(group) => self.group(group, is_inverted)?,
        };
        let verdict = if section.is_negated { negated(verdict) } else { verdict };
        self.note(section, verdict, None);
        Ok(verdict)
    }

    fn group(&mut self, group: &Group, is_inverted: bool) -> Result<Verdict, Refusal> {
        let mut joined = Verdict::Neutral;
        for member in &group.members {
            let verdict = self.under(member, group.logic, is_inverted)?;
            let (decisive, weak) = match group.logic {
                Logic::All => (Verdict::Denied, Verdict::Granted),
                Logic::Any => (Verdict::Granted, Verdict::Denied),
            };
            if verdict == decisive {
                return Ok(verdict);
            }
            let is_stronger = verdict == Verdict::DeniedWithoutUser && joined == weak;
            if verdict != Verdict::Neutral && (is_stronger || joined == Verdict::Neutral) {
                joined = verdict;
            }
        }
        Ok(joined)
    }

    fn requirement(
        &mut self,
        section: &Section,
        requirement: &Requirement,
        is_inverted: bool,
    ) -> Result<Verdict, Refusal> {
        let client = self.tx.client;
        let remote = client.remote().ip();
        Ok(match &requirement.kind {
            Asked::All(is_granted) => granted(*is_granted),
            Asked::Address(subnets) => {
                granted(subnets.iter().any(|subnet| subnet.contains(remote)))
            }
            Asked::Host(names) => self.host(section, names, remote, is_inverted)?,
            Asked::ForwardDns(names) => self.forward_dns(section, names, remote, is_inverted)?,
            Asked::Local => granted(is_local(remote, client.local().ip())),
            Asked::Environment(names) => {
                granted(names.iter().any(|name| self.tx.state.env.contains(name)))
            }
            Asked::Method(methods) => granted(methods.meets(self.method)),
            Asked::Tls => granted(client.scheme() == Scheme::Https),
            Asked::Expression { condition, wants_user } => {
                match condition.holds(self.tx, self.world, &mut Captures::default()) {
                    Ok(true) => Verdict::Granted,
                    Ok(false) if *wants_user => Verdict::DeniedWithoutUser,
                    Ok(false) => Verdict::Denied,
                    Err(problem) => return Err(self.failed(section, &problem)),
                }
            }
            of_user => match self.tx.state.user.clone() {
                None => Verdict::DeniedWithoutUser,
                Some(user) => granted(self.is_user(section, of_user, &user)?),
            },
        })
    }

    /// Whether a user who has authenticated is one of those that are asked for.
    fn is_user(&mut self, section: &Section, asked: &Asked, user: &[u8]) -> Result<bool, Refusal> {
        Ok(match asked {
            Asked::ValidUser => true,
            Asked::User(names) => self.any_name(section, names, |name| name == user),
            Asked::Group(names) => {
                let groups = self.groups(section, user);
                !groups.is_empty()
                    && self.any_name(section, names, |name| {
                        groups.iter().any(|group| group.eq_ignore_ascii_case(name))
                    })
            }
            Asked::FileOwner => self.owners(section)?.user.as_deref() == Some(user),
            Asked::FileGroup => {
                let groups = self.groups(section, user);
                let owner = self.owners(section)?.group;
                owner.is_some_and(|owner| {
                    groups.iter().any(|group| group.eq_ignore_ascii_case(&owner))
                })
            }
            _ => false,
        })
    }

    fn groups(&mut self, section: &Section, user: &[u8]) -> Vec<Vec<u8>> {
        (self.groups)(user, self.world).unwrap_or_else(|problem| {
            self.tx.complain(section.place.as_ref(), problem);
            Vec::new()
        })
    }

    fn owners(&mut self, section: &Section) -> Result<crate::world::Owners, Refusal> {
        match self.world.owners(&self.tx.state.filename) {
            Some(owners) => Ok(owners),
            None => Err(self.failed(section, "the owner of the file cannot be found out")),
        }
    }

    fn host(
        &mut self,
        section: &Section,
        names: &Names,
        remote: IpAddr,
        is_inverted: bool,
    ) -> Result<Verdict, Refusal> {
        let host = match self.world.host_name(remote) {
            LookedUp::Found(host) => host,
            LookedUp::Later => return Err(Refusal::Later),
            LookedUp::Never if is_inverted => return Err(self.failed(section, NO_NAMES)),
            LookedUp::Never | LookedUp::Nothing => {
                self.tx.complain(section.place.as_ref(), "the client's host name is not known");
                return Ok(Verdict::Denied);
            }
        };
        let domains = self.hosts(section, names);
        Ok(granted(domains.iter().any(|domain| in_domain(domain, &host))))
    }

    fn forward_dns(
        &mut self,
        section: &Section,
        names: &Names,
        remote: IpAddr,
        is_inverted: bool,
    ) -> Result<Verdict, Refusal> {
        for name in self.hosts(section, names) {
            match self.world.addresses(&name) {
                LookedUp::Found(addresses) => {
                    let remote = remote.to_canonical();
                    if addresses.iter().any(|address| address.to_canonical() == remote) {
                        return Ok(Verdict::Granted);
                    }
                }
                LookedUp::Nothing => {}
                LookedUp::Later => return Err(Refusal::Later),
                LookedUp::Never if is_inverted => return Err(self.failed(section, NO_NAMES)),
                LookedUp::Never => self.tx.complain(section.place.as_ref(), NO_NAMES),
            }
        }
        Ok(Verdict::Denied)
    }

    fn any_name(&mut self, section: &Section, names: &Names, fits: impl Fn(&[u8]) -> bool) -> bool {
        match names {
            Names::Literal(names) => names.iter().any(|name| fits(name)),
            Names::Expression(_) => self.names(section, names).iter().any(|name| fits(name)),
        }
    }

    /// Names of hosts, up to a `#`, where Apache takes a comment to begin.
    fn hosts(&mut self, section: &Section, names: &Names) -> Vec<Box<[u8]>> {
        let mut hosts = self.names(section, names).into_vec();
        if let Some(last) = hosts.iter().position(|name| name.contains(&b'#')) {
            hosts.truncate(last + 1);
            let name = hosts.pop().unwrap_or_default();
            let end = name.iter().position(|byte| *byte == b'#').unwrap_or(name.len());
            hosts.extend((end > 0).then(|| name[..end].into()));
        }
        hosts
    }

    fn names(&mut self, section: &Section, names: &Names) -> Box<[Box<[u8]>]> {
        match names {
            Names::Literal(names) => names.clone(),
            Names::Expression(text) => match self.rendered(text) {
                Ok(line) => split(&line),
                Err(problem) => {
                    self.tx.complain(section.place.as_ref(), problem);
                    Box::default()
                }
            },
        }
    }

    fn rendered(&mut self, text: &Text) -> Result<Vec<u8>, String> {
        text.render(self.tx, self.world).map(|line| line.into_owned())
    }

    fn failed(&mut self, section: &Section, problem: &str) -> Refusal {
        self.tx.complain(section.place.as_ref(), format!("{section}: {problem}"));
        Refusal::Status(Status::INTERNAL_SERVER_ERROR)
    }

    fn note(&mut self, section: &Section, verdict: Verdict, remark: Option<&str>) {
        self.tx.trace(|| Event {
            step: "access",
            place: section.place.clone(),
            text: section.to_string(),
            facts: remark.map(|remark| ("applies", remark.to_owned())).into_iter().collect(),
            outcome: match verdict {
                Verdict::Granted => "granted",
                Verdict::Denied => "denied",
                Verdict::DeniedWithoutUser => "denied without a user",
                Verdict::Neutral => "neutral",
            }
            .into(),
        });
    }
}

const NO_NAMES: &str = "host names are not looked up here; name addresses instead";

fn granted(is_granted: bool) -> Verdict {
    if is_granted { Verdict::Granted } else { Verdict::Denied }
}

/// That somebody is not denied does not yet let them in.
fn negated(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Granted => Verdict::Denied,
        Verdict::Denied | Verdict::DeniedWithoutUser | Verdict::Neutral => Verdict::Neutral,
    }
}
