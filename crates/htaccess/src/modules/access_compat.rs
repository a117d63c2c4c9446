//! mod_access_compat: Order, Allow, Deny and Satisfy, as Apache 2.2 had them.

use std::sync::Arc;

use howdah_http::Status;

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::evaluation_context::EvaluationContext;
use crate::host::LookedUp;
use crate::merge::{Merge, SharedConfig, edit};
use crate::method_set::MethodSet;
use crate::mistake::{Complaint, DirectivePlace};
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::network::{BadSubnet, Subnet, in_domain};
use crate::trace::TraceEvent;
use crate::transaction::Denial;
use crate::transaction::Transaction;
use crate::work;

/// The module's configuration. A folder with one of the directives inherits none from above.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The order for sets of methods; later ones win.
    orders: Vec<(MethodSet, AccessOrder)>,
    allows: Vec<AccessRule>,
    denies: Vec<AccessRule>,
    /// The methods with `Satisfy Any`.
    any: MethodSet,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AccessOrder {
    #[default]
    DenyAllow,
    AllowDeny,
    MutualFailure,
}

/// One word of `Allow from` or `Deny from`.
#[derive(Clone, Debug)]
struct AccessRule {
    place: Arc<DirectivePlace>,
    methods: MethodSet,
    clients: ClientTest,
}

#[derive(Clone, Debug)]
enum ClientTest {
    All,
    Address(Subnet),
    Host(Box<[u8]>),
    /// Clients for which the variable is set (true), or not set.
    Variable(bool, Box<[u8]>),
}

impl Merge for Config {
    fn merge(_: &Config, add: &Config) -> Config {
        add.clone()
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[ApacheModule::new(
    "mod_access_compat.c",
    "access_compat_module",
    Some("Order"),
    Presence::Debian,
)];

impl Config {
    /// Returns whether `Satisfy Any` is in force: either the address or the user has to be allowed,
    /// and not both.
    pub(crate) fn any_suffices(&self, method: MethodSet) -> bool {
        self.any.meets(method)
    }

    fn order(&self, method: MethodSet) -> AccessOrder {
        let found = self.orders.iter().rev().find(|(methods, _)| methods.meets(method));
        found.map(|(_, order)| *order).unwrap_or_default()
    }
}

/// Checks whether Order, Allow and Deny grant access to the client.
///
/// # Errors
/// 403; 500 where a Deny by host name cannot be decided.
pub(crate) fn check(
    tx: &mut Transaction<'_>,
    config: &Config,
    method: MethodSet,
    context: &mut dyn EvaluationContext,
) -> Result<(), Denial> {
    let order = config.order(method);
    let is_allowed = match order {
        AccessOrder::DenyAllow => {
            matches(tx, &config.allows, method, context, false)?
                || !matches(tx, &config.denies, method, context, true)?
        }
        AccessOrder::AllowDeny | AccessOrder::MutualFailure => {
            matches(tx, &config.allows, method, context, false)?
                && !matches(tx, &config.denies, method, context, true)?
        }
    };
    tx.trace(|| TraceEvent {
        step: "access",
        place: None,
        text: match order {
            AccessOrder::DenyAllow => "Order Deny,Allow",
            AccessOrder::AllowDeny => "Order Allow,Deny",
            AccessOrder::MutualFailure => "Order Mutual-failure",
        }
        .into(),
        facts: Vec::new(),
        outcome: if is_allowed { "granted" } else { "denied" }.into(),
    });
    if is_allowed {
        return Ok(());
    }
    let what =
        format!("access to {} is denied to this client", String::from_utf8_lossy(&tx.state.uri));
    tx.complain(config.denies.first().map(|rule| &rule.place), what);
    Err(Denial::Status(Status::FORBIDDEN))
}

/// Returns whether one of the rules matches the client.
fn matches(
    tx: &mut Transaction<'_>,
    rules: &[AccessRule],
    method: MethodSet,
    context: &mut dyn EvaluationContext,
    denies: bool,
) -> Result<bool, Denial> {
    for rule in rules.iter().filter(|rule| rule.methods.meets(method)) {
        if tx.client.meter().spend(work::RULE).is_err() {
            tx.complain(Some(&rule.place), "too much work on this request");
            return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
        }
        let is_match = match &rule.clients {
            ClientTest::All => true,
            ClientTest::Address(subnet) => subnet.contains(tx.client.remote().ip()),
            ClientTest::Variable(is_set, name) => tx.variable(name).is_some() == *is_set,
            ClientTest::Host(domain) => match context
                .host()
                .host_name(tx.client.depends_on_everything(), tx.client.remote().ip())
            {
                LookedUp::Found(host) => in_domain(domain, &host),
                LookedUp::Nothing => false,
                LookedUp::Later => return Err(Denial::Later),
                LookedUp::Never => {
                    tx.complain(
                        Some(&rule.place),
                        "host names are not looked up here; name addresses instead",
                    );
                    if denies {
                        return Err(Denial::Status(Status::INTERNAL_SERVER_ERROR));
                    }
                    false
                }
            },
        };
        if is_match {
            tx.trace(|| rule.event(denies));
            return Ok(true);
        }
    }
    Ok(false)
}

impl AccessRule {
    fn event(&self, denies: bool) -> TraceEvent {
        let clients = match &self.clients {
            ClientTest::All => "all".to_owned(),
            ClientTest::Address(subnet) => subnet.to_string(),
            ClientTest::Host(domain) => String::from_utf8_lossy(domain).into_owned(),
            ClientTest::Variable(true, name) => format!("env={}", String::from_utf8_lossy(name)),
            ClientTest::Variable(false, name) => format!("env=!{}", String::from_utf8_lossy(name)),
        };
        TraceEvent {
            step: "access",
            place: Some(self.place.clone()),
            text: format!("{} from {clients}", if denies { "Deny" } else { "Allow" }),
            facts: Vec::new(),
            outcome: "matches".into(),
        }
    }
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "Order",
        module: "mod_access_compat",
        overrides: Overrides::LIMIT,
        arguments: Arguments::ONE,
        summary: "Says whether Allow or Deny is evaluated last, and the result where neither \
            matches.",
        support: Support::Full,
        apply: order,
    },
    Directive {
        name: "Allow",
        module: "mod_access_compat",
        overrides: Overrides::LIMIT,
        arguments: Arguments::FIRST_AND_SOME,
        summary: "Lets clients in by address, host name or variable.",
        support: Support::Differs(
            "a host name matches no client where it is not in the machine's own /etc/hosts",
        ),
        apply: allow,
    },
    Directive {
        name: "Deny",
        module: "mod_access_compat",
        overrides: Overrides::LIMIT,
        arguments: Arguments::FIRST_AND_SOME,
        summary: "Keeps clients out by address, host name or variable.",
        support: Support::Differs(
            "a host name answers 500 to clients that are not in the machine's own /etc/hosts",
        ),
        apply: deny,
    },
    Directive {
        name: "Satisfy",
        module: "mod_access_compat",
        overrides: Overrides::AUTH_CONFIG,
        arguments: Arguments::ONE,
        summary: "Says whether both address and user must be allowed, or one of them suffices.",
        support: Support::Full,
        apply: satisfy,
    },
];

fn order(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let order = match &call.word(0).to_ascii_lowercase()[..] {
        b"allow,deny" => AccessOrder::AllowDeny,
        b"deny,allow" => AccessOrder::DenyAllow,
        b"mutual-failure" => AccessOrder::MutualFailure,
        _ => {
            let complaint =
                Complaint::about(0, "Order is Deny,Allow or Allow,Deny or Mutual-failure");
            return Err(complaint.hint("write no space after the comma"));
        }
    };
    edit(shared).orders.push((MethodSet::within(call.scope), order));
    Ok(())
}

fn allow(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let rules = rules(call)?;
    edit(shared).allows.extend(rules);
    Ok(())
}

fn deny(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let rules = rules(call)?;
    edit(shared).denies.extend(rules);
    Ok(())
}

fn rules(call: &DirectiveCall<'_>) -> Result<Vec<AccessRule>, Complaint> {
    if !call.word(0).eq_ignore_ascii_case(b"from") {
        return Err(Complaint::about(0, format!("{} is followed by \"from\"", call.name)));
    }
    let place = call.kept_place();
    let methods = MethodSet::within(call.scope);
    let words = call.words.iter().enumerate().skip(1);
    words
        .map(|(index, word)| {
            let clients = clients(word).map_err(|message| Complaint::about(index, message))?;
            Ok(AccessRule { place: place.clone(), methods, clients })
        })
        .collect()
}

fn clients(word: &[u8]) -> Result<ClientTest, String> {
    let shown = || String::from_utf8_lossy(word);
    let prefixed = |prefix: &[u8]| {
        let (head, rest) = word.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    };
    if let Some(name) = prefixed(b"env=!") {
        return Ok(ClientTest::Variable(false, name.into()));
    }
    if let Some(name) = prefixed(b"env=") {
        return Ok(ClientTest::Variable(true, name.into()));
    }
    if word.eq_ignore_ascii_case(b"all") {
        return Ok(ClientTest::All);
    }
    match Subnet::new(word) {
        Ok(subnet) => Ok(ClientTest::Address(subnet)),
        Err(BadSubnet::NoAddress) if word.contains(&b'/') => {
            Err(format!("{:?} has no address before its /", shown()))
        }
        Err(BadSubnet::NoAddress) if word.contains(&b'#') => {
            Err("write the comment in a line of its own".into())
        }
        Err(BadSubnet::NoAddress) => Ok(ClientTest::Host(word.into())),
        Err(BadSubnet::BadAddress | BadSubnet::BadMask) => {
            Err(format!("{:?} is neither an address nor a network", shown()))
        }
    }
}

fn satisfy(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let methods = MethodSet::within(call.scope);
    let config = edit(shared);
    config.any = match &call.word(0).to_ascii_lowercase()[..] {
        b"any" => config.any.with(methods),
        b"all" => config.any.without(methods),
        _ => return Err(Complaint::about(0, "Satisfy is All or Any")),
    };
    Ok(())
}

#[cfg(test)]
mod tests;
