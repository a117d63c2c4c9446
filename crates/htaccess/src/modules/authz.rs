//! mod_authz_core and its providers: `Require`, its containers, AuthMerging.

mod evaluate;
mod requirement;
mod section;

use std::sync::Arc;

use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, Overrides, SectionEdge, Support,
};
use crate::evaluation_context::EvaluationContext;
use crate::merge::{Merge, SharedConfig, edit};
use crate::method_set::MethodSet;
use crate::mistake::{Complaint, DirectivePlace};
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::transaction::{Denial, Transaction};

use evaluate::{AuthzStatus, Groups, RequireEvaluation};
use requirement::Requirement;
use section::{RequireLogic, RequireSection, SectionKind};

/// The module's configuration.
///
/// A site itself has `Require all granted`, as Debian's Apache has for the folder of its sites.
/// This is in force where no other `Require` is, and AuthMerging in the topmost file joins it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// All `Require` directives; `None` where there are none.
    section: Option<Arc<RequireSection>>,
    merging: Option<Merging>,
    /// Whether the site's own `Require` no longer counts: it is part of `section`, or removed.
    is_detached: bool,
    /// AuthzSendForbiddenOnFailure.
    forbidden_on_failure: Option<bool>,
    /// While containers are read: the section before each open one. Empty otherwise.
    outer: Vec<Option<Arc<RequireSection>>>,
}

/// `AuthMerging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Off,
    With(RequireLogic),
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let is_silent = add.merging.is_none() && add.section.is_none();
        let mut merged = if is_silent && base.section.is_some() { base } else { add }.clone();
        if let (Some(Merging::With(logic)), Some(above)) = (add.merging, base.joined()) {
            merged.section = Some(match &add.section {
                None => above,
                Some(own) => Arc::new(RequireSection::joined(logic, &above, own)),
            });
            merged.is_detached = true;
        }
        merged.is_detached |= base.section.is_none() && base.is_cleared();
        merged.forbidden_on_failure = add.forbidden_on_failure.or(base.forbidden_on_failure);
        merged
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's modules.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[
    ApacheModule::new("mod_authz_core.c", "authz_core_module", Some("Require"), Presence::Debian),
    ApacheModule::new("mod_authz_host.c", "authz_host_module", Some("Require"), Presence::Debian),
    ApacheModule::new("mod_authz_user.c", "authz_user_module", Some("Require"), Presence::Debian),
    ApacheModule::new(
        "mod_authz_groupfile.c",
        "authz_groupfile_module",
        Some("AuthGroupFile"),
        Presence::Protects,
    ),
];

impl Config {
    /// Returns how the section has to be joined with the site's own `Require`.
    fn joins_site(&self) -> Option<RequireLogic> {
        match self.merging {
            Some(Merging::With(logic)) if !self.is_detached => Some(logic),
            _ => None,
        }
    }

    /// Returns whether only `section` counts: AuthMerging Off removes the site's own `Require` as
    /// well.
    fn is_cleared(&self) -> bool {
        self.is_detached || self.merging == Some(Merging::Off)
    }

    /// Returns the section joined with the site's own `Require`; `None` where there is no section.
    fn joined(&self) -> Option<Arc<RequireSection>> {
        let section = self.section.as_ref()?;
        Some(match self.joins_site() {
            None => section.clone(),
            Some(logic) => Arc::new(RequireSection::joined(
                logic,
                &Arc::new(RequireSection::granted()),
                section,
            )),
        })
    }

    fn add(&mut self, member: RequireSection) -> Result<(), Complaint> {
        let section = self.section.get_or_insert_with(|| {
            Arc::new(RequireSection::container(None, RequireLogic::Any, false))
        });
        Arc::make_mut(section).add(member)
    }
}

/// The decision of the `Require` directives in force.
#[derive(Debug)]
pub(crate) enum AuthzDecision<'c> {
    /// No `Require` is in force. `is_cleared`: AuthMerging Off has removed the site's own, too.
    Silent { is_cleared: bool },
    /// The request may go on.
    Granted,
    /// Denied, and another answer is possible once a user has authenticated.
    DeniedWithoutUser,
    /// Denied to everyone, or to this user.
    Denied {
        /// The outermost container or the only `Require`.
        place: Option<&'c Arc<DirectivePlace>>,
        /// AuthzSendForbiddenOnFailure: a user is answered with 403 and not with 401.
        is_forbidden: bool,
    },
}

/// Evaluates the `Require` directives in force. `groups` returns the groups of a user.
///
/// # Errors
/// 500 where a directive cannot be evaluated; or the answer takes time.
pub(crate) fn evaluate<'c>(
    tx: &mut Transaction<'_>,
    config: Option<&'c Config>,
    method: MethodSet,
    groups: &Groups<'_>,
    context: &mut dyn EvaluationContext,
) -> Result<AuthzDecision<'c>, Denial> {
    let Some((config, section)) =
        config.and_then(|config| Some((config, config.section.as_ref()?)))
    else {
        return Ok(AuthzDecision::Silent {
            is_cleared: config.is_some_and(Config::is_cleared),
        });
    };
    let joins_site = config.joins_site();
    if joins_site == Some(RequireLogic::Any) {
        return Ok(AuthzDecision::Granted);
    }
    let mut evaluate = RequireEvaluation {
        tx,
        groups,
        context,
        method,
        known_groups: None,
    };
    Ok(match evaluate.section(section, RequireLogic::All)? {
        AuthzStatus::Granted => AuthzDecision::Granted,
        AuthzStatus::Neutral if joins_site == Some(RequireLogic::All) => AuthzDecision::Granted,
        AuthzStatus::DeniedWithoutUser => AuthzDecision::DeniedWithoutUser,
        AuthzStatus::Denied | AuthzStatus::Neutral => AuthzDecision::Denied {
            place: section.place.as_ref(),
            is_forbidden: config.forbidden_on_failure == Some(true),
        },
    })
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "Require",
        module: "mod_authz_core",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::Raw,
        summary: "Says who may access this folder.",
        support: Support::Differs(
            "`host` and `forward-dns` know the names in the machine's own /etc/hosts: others match \
             no client, and behind `not` answer 500; `ssl` is for encrypted connections, and \
             `ssl-verify-client` for clients whose certificate `client_ca` of the site has \
             verified; databases and LDAP are refused",
        ),
        apply: require,
    },
    container(
        "<RequireAll",
        "Grants access where a directive inside grants it and none denies it.",
        require_all,
    ),
    container("<RequireAny", "Grants access where a directive inside grants it.", require_any),
    container("<RequireNone", "Denies access where a directive inside grants it.", require_none),
    Directive {
        name: "AuthMerging",
        module: "mod_authz_core",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::ONE,
        summary: "Says how the Require directives of this folder and of the folders above are \
            combined.",
        support: Support::Full,
        apply: auth_merging,
    },
    Directive {
        name: "AuthzSendForbiddenOnFailure",
        module: "mod_authz_core",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::Flag,
        summary: "Answers a user who is known but not allowed with 403 and not with 401.",
        support: Support::Full,
        apply: authz_send_forbidden_on_failure,
    },
];

const fn container(
    name: &'static str,
    summary: &'static str,
    apply: Apply<Config>,
) -> Directive<Apply<Config>> {
    Directive {
        name,
        module: "mod_authz_core",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::Section,
        summary,
        support: Support::Full,
        apply,
    }
}

fn require_all(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    contain(call, shared, RequireLogic::All, false)
}

fn require_any(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    contain(call, shared, RequireLogic::Any, false)
}

fn require_none(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    contain(call, shared, RequireLogic::Any, true)
}

/// Opens a container, which takes the directives that follow; or closes it, and adds it to the
/// container around it.
fn contain(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
    logic: RequireLogic,
    is_negated: bool,
) -> Result<(), Complaint> {
    let config: &mut Config = edit(shared);
    if call.edge == SectionEdge::Open {
        let section = RequireSection::container(Some(call.kept_place()), logic, is_negated);
        config.outer.push(config.section.replace(Arc::new(section)));
        return Ok(());
    }
    let outer = config.outer.pop().flatten();
    let Some(inner) = std::mem::replace(&mut config.section, outer) else {
        return Ok(());
    };
    if inner.is_empty_group() {
        return Err(Complaint::new(format!("{inner} holds no Require")));
    }
    config.add(Arc::unwrap_or_clone(inner))
}

fn require(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let (is_negated, requirement) = Requirement::parse(call)?;
    let config: &mut Config = edit(shared);
    config.add(RequireSection {
        place: Some(call.kept_place()),
        methods: MethodSet::within(call.scope),
        is_negated,
        kind: SectionKind::Requirement(requirement),
    })
}

fn auth_merging(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let merging = match &call.word(0).to_ascii_lowercase()[..] {
        b"off" => Merging::Off,
        b"and" => Merging::With(RequireLogic::All),
        b"or" => Merging::With(RequireLogic::Any),
        _ => return Err(Complaint::about(0, "AuthMerging is Off, And or Or")),
    };
    let config: &mut Config = edit(shared);
    config.merging = Some(merging);
    Ok(())
}

fn authz_send_forbidden_on_failure(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<Config>,
) -> Result<(), Complaint> {
    let config: &mut Config = edit(shared);
    config.forbidden_on_failure = Some(call.flag());
    Ok(())
}
