//! Evaluation of a tree of `Require` directives (httpd's `apply_authz_sections`).

use std::net::IpAddr;
use std::sync::Arc;

use howdah_http::{Scheme, Status};

use crate::evaluation_context::EvaluationContext;
use crate::expression::StringExpression;
use crate::host::{LookedUp, Owners};
use crate::method_set::MethodSet;
use crate::network::{in_domain, is_local};
use crate::pattern::Captures;
use crate::trace::TraceEvent;
use crate::transaction::{Denial, Transaction};
use crate::work;

use super::requirement::{RequiredNames, Requirement, RequirementKind, split};
use super::section::{RequireGroup, RequireLogic, RequireSection, SectionKind};

/// The result of a directive or of a container (httpd's `authz_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthzStatus {
    Granted,
    Denied,
    /// Denied, and another result is possible once a user has authenticated.
    DeniedWithoutUser,
    /// Neither granted nor denied.
    Neutral,
}

/// Returns the groups of a user. The error is for the log.
pub(super) type Groups<'g> =
    dyn Fn(&[u8], &mut dyn EvaluationContext) -> Result<Vec<Vec<u8>>, String> + 'g;

/// The evaluation of the directives for a request.
pub(super) struct RequireEvaluation<'j, 'r> {
    pub tx: &'j mut Transaction<'r>,
    pub groups: &'j Groups<'j>,
    pub context: &'j mut dyn EvaluationContext,
    pub method: MethodSet,
    /// The user's groups, once they have been asked for: the file is read once.
    pub known_groups: Option<Arc<[Vec<u8>]>>,
}

impl RequireEvaluation<'_, '_> {
    /// Evaluates a section in a container of that logic.
    ///
    /// # Errors
    /// [`Denial::Later`] while a password is compared, or the status with which the evaluation
    /// ends, such as 500 for too much work.
    pub(super) fn section(
        &mut self,
        section: &RequireSection,
        parent: RequireLogic,
    ) -> Result<AuthzStatus, Denial> {
        self.under(section, parent, false)
    }

    /// Evaluates a section below others. `is_inverted`: whether an odd number of negations is
    /// around it, so that its denial grants access.
    fn under(
        &mut self,
        section: &RequireSection,
        parent: RequireLogic,
        is_inverted: bool,
    ) -> Result<AuthzStatus, Denial> {
        if !section.methods.meets(self.method) {
            let status = if parent == RequireLogic::All {
                AuthzStatus::Granted
            } else {
                AuthzStatus::Neutral
            };
            self.note(section, status, Some("for other methods"));
            return Ok(status);
        }
        let is_inverted = is_inverted ^ section.is_negated;
        let status = match &section.kind {
            SectionKind::Requirement(requirement) => {
                self.requirement(section, requirement, is_inverted)?
            }
            SectionKind::Group(group) => self.group(group, is_inverted)?,
        };
        let status = if section.is_negated { negated(status) } else { status };
        self.note(section, status, None);
        Ok(status)
    }

    fn group(&mut self, group: &RequireGroup, is_inverted: bool) -> Result<AuthzStatus, Denial> {
        let mut joined = AuthzStatus::Neutral;
        for member in &group.members {
            let status = self.under(member, group.logic, is_inverted)?;
            let (decisive, weak) = match group.logic {
                RequireLogic::All => (AuthzStatus::Denied, AuthzStatus::Granted),
                RequireLogic::Any => (AuthzStatus::Granted, AuthzStatus::Denied),
            };
            if status == decisive {
                return Ok(status);
            }
            let is_stronger = status == AuthzStatus::DeniedWithoutUser && joined == weak;
            if status != AuthzStatus::Neutral && (is_stronger || joined == AuthzStatus::Neutral) {
                joined = status;
            }
        }
        Ok(joined)
    }

    fn requirement(
        &mut self,
        section: &RequireSection,
        requirement: &Requirement,
        is_inverted: bool,
    ) -> Result<AuthzStatus, Denial> {
        let client = self.tx.client;
        let remote = client.remote().ip();
        if client.meter().spend(requirement.kind.steps()).is_err() {
            return Err(self.failed(section, TOO_MUCH));
        }
        let status = match &requirement.kind {
            RequirementKind::All(is_granted) => granted(*is_granted),
            RequirementKind::Address(subnets) => {
                granted(subnets.iter().any(|subnet| subnet.contains(remote)))
            }
            RequirementKind::Host(names) => self.host(section, names, remote, is_inverted)?,
            RequirementKind::ForwardDns(names) => {
                self.forward_dns(section, names, remote, is_inverted)?
            }
            RequirementKind::Local => granted(is_local(remote, client.local().ip())),
            RequirementKind::Environment(names) => {
                granted(names.iter().any(|name| self.tx.variable(name).is_some()))
            }
            RequirementKind::Method(methods) => granted(methods.meets(self.method)),
            RequirementKind::Tls => granted(client.scheme() == Scheme::Https),
            RequirementKind::TlsClient => {
                granted(client.tls().is_some_and(|tls| tls.client.is_some()))
            }
            RequirementKind::Expression { condition, wants_user } => {
                match condition.holds(self.tx, self.context, &mut Captures::default()) {
                    Ok(true) => AuthzStatus::Granted,
                    Ok(false) if *wants_user => AuthzStatus::DeniedWithoutUser,
                    Ok(false) => AuthzStatus::Denied,
                    Err(problem) => return Err(self.failed(section, &problem)),
                }
            }
            of_user => match self.tx.state.user.clone() {
                None => AuthzStatus::DeniedWithoutUser,
                Some(user) => granted(self.is_user(section, of_user, &user)?),
            },
        };
        // The search that took the last steps found nothing, and `not` would make a match of that.
        match client.meter().is_exhausted() {
            true => Err(self.failed(section, TOO_MUCH)),
            false => Ok(status),
        }
    }

    /// Returns whether a user who has authenticated is one of those that are asked for.
    fn is_user(
        &mut self,
        section: &RequireSection,
        asked: &RequirementKind,
        user: &[u8],
    ) -> Result<bool, Denial> {
        Ok(match asked {
            RequirementKind::ValidUser => true,
            RequirementKind::User(names) => self.any_name(section, names, |name| name == user),
            RequirementKind::Group(names) => {
                let groups = self.groups(section, user);
                let meter = self.tx.client.meter();
                !groups.is_empty()
                    && self.any_name(section, names, |name| {
                        meter.spend(work::comparing(groups.len(), name)).is_ok()
                            && groups.iter().any(|group| group.eq_ignore_ascii_case(name))
                    })
            }
            RequirementKind::FileOwner => self.owners(section)?.user.as_deref() == Some(user),
            RequirementKind::FileGroup => {
                let groups = self.groups(section, user);
                let owner = self.owners(section)?.group;
                owner.is_some_and(|owner| {
                    groups.iter().any(|group| group.eq_ignore_ascii_case(&owner))
                })
            }
            _ => false,
        })
    }

    fn groups(&mut self, section: &RequireSection, user: &[u8]) -> Arc<[Vec<u8>]> {
        if let Some(known) = &self.known_groups {
            return Arc::clone(known);
        }
        let found = (self.groups)(user, self.context).unwrap_or_else(|problem| {
            self.tx.complain(section.place.as_ref(), problem);
            Vec::new()
        });
        Arc::clone(self.known_groups.insert(found.into()))
    }

    fn owners(&mut self, section: &RequireSection) -> Result<Owners, Denial> {
        let unrepeatable = self.tx.client.depends_on_everything();
        match self.context.host().owners(unrepeatable, &self.tx.state.filename) {
            Some(owners) => Ok(owners),
            None => Err(self.failed(section, "the owner of the file cannot be found out")),
        }
    }

    fn host(
        &mut self,
        section: &RequireSection,
        names: &RequiredNames,
        remote: IpAddr,
        is_inverted: bool,
    ) -> Result<AuthzStatus, Denial> {
        let host =
            match self.context.host().host_name(self.tx.client.depends_on_everything(), remote) {
                LookedUp::Found(host) => host,
                LookedUp::Later => return Err(Denial::Later),
                LookedUp::Never if is_inverted => return Err(self.failed(section, NO_NAMES)),
                LookedUp::Never | LookedUp::Nothing => {
                    self.tx.complain(section.place.as_ref(), "the client's host name is not known");
                    return Ok(AuthzStatus::Denied);
                }
            };
        let domains = self.hosts(section, names);
        Ok(granted(domains.iter().any(|domain| in_domain(domain, &host))))
    }

    fn forward_dns(
        &mut self,
        section: &RequireSection,
        names: &RequiredNames,
        remote: IpAddr,
        is_inverted: bool,
    ) -> Result<AuthzStatus, Denial> {
        for name in self.hosts(section, names) {
            match self.context.host().addresses(self.tx.client.depends_on_everything(), &name) {
                LookedUp::Found(addresses) => {
                    let remote = remote.to_canonical();
                    if addresses.iter().any(|address| address.to_canonical() == remote) {
                        return Ok(AuthzStatus::Granted);
                    }
                }
                LookedUp::Nothing => {}
                LookedUp::Later => return Err(Denial::Later),
                LookedUp::Never if is_inverted => return Err(self.failed(section, NO_NAMES)),
                LookedUp::Never => self.tx.complain(section.place.as_ref(), NO_NAMES),
            }
        }
        Ok(AuthzStatus::Denied)
    }

    fn any_name(
        &mut self,
        section: &RequireSection,
        names: &RequiredNames,
        fits: impl Fn(&[u8]) -> bool,
    ) -> bool {
        match names {
            RequiredNames::Literal(names) => names.iter().any(|name| fits(name)),
            RequiredNames::Expression(_) => {
                self.names(section, names).iter().any(|name| fits(name))
            }
        }
    }

    /// Names of hosts, up to a `#`, where Apache takes a comment to begin.
    fn hosts(&mut self, section: &RequireSection, names: &RequiredNames) -> Vec<Box<[u8]>> {
        let mut hosts = self.names(section, names).into_vec();
        if let Some(last) = hosts.iter().position(|name| name.contains(&b'#')) {
            hosts.truncate(last + 1);
            let name = hosts.pop().unwrap_or_default();
            let end = name.iter().position(|byte| *byte == b'#').unwrap_or(name.len());
            hosts.extend((end > 0).then(|| name[..end].into()));
        }
        hosts
    }

    fn names(&mut self, section: &RequireSection, names: &RequiredNames) -> Box<[Box<[u8]>]> {
        match names {
            RequiredNames::Literal(names) => names.clone(),
            RequiredNames::Expression(text) => match self.rendered(text) {
                Ok(line) => split(&line),
                Err(problem) => {
                    self.tx.complain(section.place.as_ref(), problem);
                    Box::default()
                }
            },
        }
    }

    fn rendered(&mut self, text: &StringExpression) -> Result<Vec<u8>, String> {
        text.render(self.tx, self.context).map(|line| line.into_owned())
    }

    fn failed(&mut self, section: &RequireSection, problem: &str) -> Denial {
        self.tx.complain(section.place.as_ref(), format!("{section}: {problem}"));
        Denial::Status(Status::INTERNAL_SERVER_ERROR)
    }

    fn note(&mut self, section: &RequireSection, status: AuthzStatus, remark: Option<&str>) {
        self.tx.trace(|| TraceEvent {
            step: "access",
            place: section.place.clone(),
            text: section.to_string(),
            facts: remark.map(|remark| ("applies", remark.to_owned())).into_iter().collect(),
            outcome: match status {
                AuthzStatus::Granted => "granted",
                AuthzStatus::Denied => "denied",
                AuthzStatus::DeniedWithoutUser => "denied without a user",
                AuthzStatus::Neutral => "neutral",
            }
            .into(),
        });
    }
}

const TOO_MUCH: &str = "too much work on this request";
const NO_NAMES: &str = "host names are not looked up here; name addresses instead";

fn granted(is_granted: bool) -> AuthzStatus {
    if is_granted {
        AuthzStatus::Granted
    } else {
        AuthzStatus::Denied
    }
}

/// Returns the status of a negated directive: not being denied does not grant access.
fn negated(status: AuthzStatus) -> AuthzStatus {
    match status {
        AuthzStatus::Granted => AuthzStatus::Denied,
        AuthzStatus::Denied | AuthzStatus::DeniedWithoutUser | AuthzStatus::Neutral => {
            AuthzStatus::Neutral
        }
    }
}
