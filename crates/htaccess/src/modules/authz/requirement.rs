//! The requirement of one `Require` (httpd's authorisation providers).

use std::fmt;
use std::sync::Arc;

use crate::directive::DirectiveCall;
use crate::expression::{Expression, StringExpression};
use crate::language::{word, words};
use crate::method_set::MethodSet;
use crate::mistake::Complaint;
use crate::network::Subnet;
use crate::work;

/// The requirement of one `Require`.
#[derive(Clone, Debug)]
pub(super) struct Requirement {
    /// The text in the file, without `not`.
    pub text: Box<str>,
    pub kind: RequirementKind,
}

#[derive(Clone, Debug)]
pub(super) enum RequirementKind {
    /// `all granted` (true), `all denied`.
    All(bool),
    /// `ip`: the client is in one of these.
    Address(Box<[Subnet]>),
    /// `host`: the client's verified name ends in one of these.
    Host(RequiredNames),
    /// `forward-dns`: one of these names leads to the client's address.
    ForwardDns(RequiredNames),
    /// `local`: the client is this machine.
    Local,
    /// `env`: one of these variables is set.
    Environment(Box<[Box<[u8]>]>),
    /// `method`.
    Method(MethodSet),
    /// `expr`: the condition holds; `wants_user` if it asks for REMOTE_USER.
    Expression {
        condition: Arc<Expression>,
        wants_user: bool,
    },
    /// `user`.
    User(RequiredNames),
    /// `valid-user`.
    ValidUser,
    /// `group`, by AuthGroupFile.
    Group(RequiredNames),
    /// `file-owner`.
    FileOwner,
    /// `file-group`.
    FileGroup,
    /// `ssl`: the connection is encrypted.
    Tls,
    /// `ssl-verify-client`: the client has shown a certificate that was verified.
    TlsClient,
}

/// Names that may hold `%{…}`.
#[derive(Clone, Debug)]
pub(super) enum RequiredNames {
    /// The same for every request.
    Literal(Box<[Box<[u8]>]>),
    /// Split when it is rendered.
    Expression(StringExpression),
}

impl RequirementKind {
    /// Returns the steps of evaluating the requirement, beside what is looked up for it.
    pub(super) fn steps(&self) -> u64 {
        let parts = match self {
            RequirementKind::Address(subnets) => subnets.len(),
            RequirementKind::User(RequiredNames::Literal(names)) => names.len(),
            _ => 0,
        };
        work::RULE + parts as u64
    }
}

impl Requirement {
    /// `all granted`.
    pub(super) fn granted() -> Requirement {
        Requirement {
            text: "all granted".into(),
            kind: RequirementKind::All(true),
        }
    }

    /// Parses the arguments of `Require`. Returns whether it is negated, and its requirement.
    ///
    /// # Errors
    /// There is no such requirement, or its arguments are wrong.
    pub(super) fn parse(call: &DirectiveCall<'_>) -> Result<(bool, Requirement), Complaint> {
        let (mut name, mut rest) = first_word(call.raw);
        let is_negated = name.eq_ignore_ascii_case(b"not");
        if is_negated {
            (name, rest) = first_word(rest);
        }
        let shown = String::from_utf8_lossy(&name).into_owned();
        let text = match rest {
            [] => shown.clone(),
            _ => format!("{shown} {}", String::from_utf8_lossy(rest)),
        };
        let kind = match &name[..] {
            b"all" => all(rest)?,
            b"ip" => addresses(rest)?,
            b"host" => RequirementKind::Host(RequiredNames::new(rest)?),
            b"forward-dns" => RequirementKind::ForwardDns(RequiredNames::new(rest)?),
            b"local" => RequirementKind::Local,
            b"env" => RequirementKind::Environment(split(rest)),
            b"method" => methods(rest)?,
            b"expr" => expression(rest)?,
            b"user" => RequirementKind::User(RequiredNames::new(rest)?),
            b"valid-user" => RequirementKind::ValidUser,
            b"group" => RequirementKind::Group(RequiredNames::new(rest)?),
            b"file-owner" => RequirementKind::FileOwner,
            b"file-group" => RequirementKind::FileGroup,
            b"ssl" if rest.is_empty() => RequirementKind::Tls,
            b"ssl-verify-client" if rest.is_empty() => RequirementKind::TlsClient,
            other if ELSEWHERE.iter().any(|known| known.as_bytes() == other) => {
                let message = format!("\"Require {shown}\" is not supported");
                return Err(Complaint::new(message).refused());
            }
            _ => {
                let hint = "all, ip, host, local, env, method, expr, user, group, valid-user, \
                    file-owner, file-group, ssl or ssl-verify-client";
                return Err(Complaint::new(format!(
                    "there is no provider for \"Require {shown}\""
                ))
                .hint(hint));
            }
        };
        let text = text.into();
        Ok((is_negated, Requirement { text, kind }))
    }
}

/// Providers that Debian's Apache has and Howdah has not: databases and directories.
const ELSEWHERE: &[&str] = &[
    "dbd-group",
    "dbd-login",
    "dbd-logout",
    "dbm-file-group",
    "dbm-group",
    "ldap-attribute",
    "ldap-dn",
    "ldap-filter",
    "ldap-group",
    "ldap-search",
    "ldap-user",
];

impl RequiredNames {
    fn new(text: &[u8]) -> Result<RequiredNames, Complaint> {
        Ok(match StringExpression::new(0, text)? {
            StringExpression::Literal(text) => RequiredNames::Literal(split(&text)),
            text => RequiredNames::Expression(text),
        })
    }
}

/// Returns the words of a line up to the first empty one.
pub(super) fn split(line: &[u8]) -> Box<[Box<[u8]>]> {
    let words = words(line).into_iter().map(|word| word.text.into_boxed_slice());
    words.take_while(|word| !word.is_empty()).collect()
}

fn first_word(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut rest = line;
    let first = word(&mut rest);
    (first, rest)
}

fn all(rest: &[u8]) -> Result<RequirementKind, Complaint> {
    match &rest.to_ascii_lowercase()[..] {
        b"granted" => Ok(RequirementKind::All(true)),
        b"denied" => Ok(RequirementKind::All(false)),
        _ => Err(Complaint::new("\"Require all\" is granted or denied")),
    }
}

fn addresses(rest: &[u8]) -> Result<RequirementKind, Complaint> {
    let subnets = split(rest)
        .iter()
        .map(|word| {
            Subnet::new(word).map_err(|_| {
                let shown = String::from_utf8_lossy(word);
                Complaint::new(format!("{shown:?} is neither an address nor a network"))
            })
        })
        .collect::<Result<Box<[_]>, _>>()?;
    if subnets.is_empty() {
        return Err(Complaint::new("\"Require ip\" takes addresses"));
    }
    Ok(RequirementKind::Address(subnets))
}

fn methods(rest: &[u8]) -> Result<RequirementKind, Complaint> {
    let mut set = MethodSet::default();
    for word in split(rest) {
        let method = MethodSet::named(&word).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&word);
            Complaint::new(format!("there is no method {shown:?}"))
        })?;
        set = set.with(method);
    }
    Ok(RequirementKind::Method(set))
}

fn expression(rest: &[u8]) -> Result<RequirementKind, Complaint> {
    let text = match rest {
        [b'"', inner @ .., b'"'] => inner,
        whole => whole,
    };
    let condition = Expression::condition(text)
        .map_err(|error| Complaint::new(format!("not a condition: {}", error.message)))?;
    let wants_user = text
        .to_ascii_uppercase()
        .windows(USER_VARIABLE.len())
        .any(|part| part == USER_VARIABLE);
    Ok(RequirementKind::Expression {
        condition: Arc::new(condition),
        wants_user,
    })
}

/// A condition with this variable may hold once a user has authenticated.
const USER_VARIABLE: &[u8] = b"%{REMOTE_USER}";

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
