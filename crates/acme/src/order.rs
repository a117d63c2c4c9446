//! An order: from the request for a certificate to the certificate (RFC 8555 §7.4).

use std::rc::Rc;
use std::time::{Duration, Instant};

use instant_acme::{
    AuthorizationStatus, CertificateIdentifier, ChallengeType, Error as AcmeError, Identifier,
    NewOrder, Order, OrderStatus, Problem,
};

use crate::authority::{Authority, persist};
use crate::certificate;
use crate::dns_hook;
use crate::failure::{OrderFailure, kind_of, text_of};
use crate::message::ChallengeAnswer;
use crate::names::is_wildcard;
use crate::process::{ChallengePresenter, PresentedChallenge};
use crate::schedule::FailureKind;
use crate::settings::{AcmeSettings, ChallengeKind};

/// Time in which an authority must have checked a challenge, or have issued a certificate. Then the
/// order has failed, and the authority counts as not reached.
const PATIENCE: Duration = Duration::from_secs(180);
/// Bounds of the delay between two looks at an order.
const TURN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// A certificate to order.
pub(crate) struct WantedCertificate<'w> {
    pub(crate) name: &'w str,
    /// The certificate that the new one replaces (RFC 9773 §5).
    pub(crate) replaces: Option<CertificateIdentifier<'static>>,
    /// Orders that were refused before. Each may use another challenge.
    pub(crate) refusals: u32,
}

/// An issued certificate, in PEM.
pub(crate) struct Issued {
    pub(crate) key: String,
    pub(crate) chain: String,
}

/// A challenge that is answered until this value is dropped.
enum AnsweredChallenge {
    ByFront { _presented: PresentedChallenge },
    ByDns { _record: DnsRecord },
}

/// Orders a certificate.
///
/// # Errors
/// The failure. Nothing has changed on this machine.
pub(crate) async fn obtain(
    authority: &Authority,
    settings: &AcmeSettings,
    presenter: &Rc<ChallengePresenter>,
    wanted: &WantedCertificate<'_>,
) -> Result<Issued, OrderFailure> {
    let result = attempt(authority, settings, presenter, wanted).await;
    result.map_err(|failure| failure.settled(has_untried(settings, wanted)))
}

async fn attempt(
    authority: &Authority,
    settings: &AcmeSettings,
    presenter: &Rc<ChallengePresenter>,
    wanted: &WantedCertificate<'_>,
) -> Result<Issued, OrderFailure> {
    let kind = choose(settings, wanted)?;
    let failure = |error: AcmeError| authority.failure(&error);
    let mut order = begin(authority, wanted).await?;
    persist(async || {
        let mut all = order.authorizations();
        while let Some(one) = all.next().await {
            one?;
        }
        Ok(())
    })
    .await
    .map_err(failure)?;
    let answered = answer(authority, settings, presenter, &mut order, kind).await?;
    let status = wait(authority, &mut order, is_checked).await;
    drop(answered);
    let status = match status {
        Ok(status) => status,
        Err(failure) => return Err(failed_challenge(&mut order, kind).await.unwrap_or(failure)),
    };
    if status == OrderStatus::Invalid {
        let unknown = || OrderFailure::refused("the authority refuses the order without a reason");
        return Err(failed_challenge(&mut order, kind).await.unwrap_or_else(unknown));
    }
    let (key, request) = certificate::request(wanted.name)
        .map_err(|error| OrderFailure::local(format!("cannot make a key: {error}")))?;
    if status == OrderStatus::Ready {
        persist(async || order.finalize_csr(&request).await).await.map_err(failure)?;
    }
    match wait(authority, &mut order, |status| is_checked(status) && status != OrderStatus::Ready)
        .await?
    {
        OrderStatus::Valid => {}
        status => return Err(OrderFailure::refused(format!("the order ended as {status:?}"))),
    }
    let chain = persist(async || order.certificate().await).await.map_err(failure)?;
    let chain =
        chain.ok_or_else(|| OrderFailure::unreachable("the authority sends no certificate"))?;
    Ok(Issued { key, chain })
}

fn is_checked(status: OrderStatus) -> bool {
    !matches!(status, OrderStatus::Pending | OrderStatus::Processing)
}

/// Returns the challenge for the next order.
fn choose(
    settings: &AcmeSettings,
    wanted: &WantedCertificate<'_>,
) -> Result<ChallengeKind, OrderFailure> {
    let fitting = fitting(settings, wanted.name);
    match fitting.len() {
        0 => Err(OrderFailure::local(
            "a wildcard needs the challenge dns-01: set `dns_hook` in [acme], or list the names",
        )),
        count => Ok(fitting[usize::try_from(wanted.refusals).unwrap_or(0) % count]),
    }
}

/// Returns the challenges that can be used for `name`.
fn fitting(settings: &AcmeSettings, name: &str) -> Vec<ChallengeKind> {
    let fits = |kind: &&ChallengeKind| !is_wildcard(name) || **kind == ChallengeKind::Dns01;
    settings.challenges.iter().filter(fits).copied().collect()
}

/// Returns whether there is a challenge for the next order that was not tried.
fn has_untried(settings: &AcmeSettings, wanted: &WantedCertificate<'_>) -> bool {
    let tried = usize::try_from(wanted.refusals).unwrap_or(usize::MAX).saturating_add(1);
    tried < fitting(settings, wanted.name).len()
}

/// Makes the order. An account that is no longer accepted is replaced.
async fn begin(
    authority: &Authority,
    wanted: &WantedCertificate<'_>,
) -> Result<Order, OrderFailure> {
    let identifiers = [Identifier::Dns(wanted.name.to_owned())];
    let mut replaces = wanted.replaces.clone();
    loop {
        let account = authority.account().await?;
        let plain = NewOrder::new(&identifiers);
        let order = match &replaces {
            Some(former) => plain.replaces(former.clone()),
            None => plain,
        };
        let error = match persist(async || account.new_order(&order).await).await {
            Ok(order) => return Ok(order),
            Err(error) => error,
        };
        let kind = match &error {
            AcmeError::Api(problem) => kind_of(problem),
            _ => "",
        };
        let is_account = matches!(kind, "accountDoesNotExist" | "unauthorized");
        if is_account && authority.replace_account().await? {
            continue;
        }
        if !is_about_former(&error, kind) || replaces.take().is_none() {
            return Err(authority.failure(&error));
        }
    }
}

/// Returns whether the order may succeed without the name of the former certificate, of which the
/// authority may know nothing.
fn is_about_former(error: &AcmeError, kind: &str) -> bool {
    match error {
        // Some authorities answer serverInternal to a certificate that they do not know any more.
        AcmeError::Api(_) => !matches!(kind, "rateLimited" | "badNonce"),
        AcmeError::Unsupported(_) => true,
        other => other.to_string().starts_with("replaces field mismatch"),
    }
}

/// Answers the challenges of all authorizations that are not valid yet, and tells the authority.
async fn answer(
    authority: &Authority,
    settings: &AcmeSettings,
    presenter: &Rc<ChallengePresenter>,
    order: &mut Order,
    kind: ChallengeKind,
) -> Result<Vec<AnsweredChallenge>, OrderFailure> {
    let mut answered = Vec::new();
    let mut all = order.authorizations();
    while let Some(one) = all.next().await {
        let mut authorization = one.map_err(|error| authority.failure(&error))?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let Some(mut challenge) = authorization.challenge(type_of(kind)) else {
            let what = format!("the authority does not offer the challenge {}", kind.name());
            return Err(OrderFailure::of_challenge(what));
        };
        let keys = challenge.key_authorization();
        let identifier = challenge.identifier().identifier;
        let Identifier::Dns(name) = identifier else {
            return Err(OrderFailure::refused(
                "the authority wants to check something else than a name",
            ));
        };
        let one = match kind {
            ChallengeKind::Http01 => {
                let token = challenge.token.clone();
                let answer = ChallengeAnswer::Http { token, content: keys.as_str().to_owned() };
                AnsweredChallenge::ByFront {
                    _presented: presenter.present(answer).await?,
                }
            }
            ChallengeKind::TlsAlpn01 => {
                let made = certificate::of_challenge(name, keys.digest().as_ref());
                let (certificate, key) = made
                    .map_err(|error| OrderFailure::local(format!("cannot make a key: {error}")))?;
                let answer = ChallengeAnswer::Tls { name: name.clone(), certificate, key };
                AnsweredChallenge::ByFront {
                    _presented: presenter.present(answer).await?,
                }
            }
            ChallengeKind::Dns01 => {
                let record = DnsRecord::add(&settings.dns_hook, name, keys.dns_value()).await?;
                AnsweredChallenge::ByDns { _record: record }
            }
        };
        answered.push(one);
        persist(async || challenge.set_ready().await)
            .await
            .map_err(|error| authority.failure(&error))?;
    }
    Ok(answered)
}

fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

/// Waits until the status of the order is `enough`.
async fn wait(
    authority: &Authority,
    order: &mut Order,
    enough: impl Fn(OrderStatus) -> bool,
) -> Result<OrderStatus, OrderFailure> {
    let until = Instant::now() + PATIENCE;
    let mut turn = TURN.0;
    loop {
        let refreshed = persist(async || {
            order.refresh().await?;
            Ok(())
        });
        refreshed.await.map_err(|error| authority.failure(&error))?;
        let state = order.state();
        if enough(state.status) {
            return Ok(state.status);
        }
        if Instant::now() >= until {
            let what = format!("the authority did not finish within {} s", PATIENCE.as_secs());
            return Err(OrderFailure::unreachable(what));
        }
        let asked = authority.patience().unwrap_or_default();
        tokio::time::sleep(turn.max(asked).min(TURN.1)).await;
        turn = (turn * 2).min(TURN.1);
    }
}

/// Returns why the authority could not check a challenge; `None` if the authority does not tell.
async fn failed_challenge(order: &mut Order, kind: ChallengeKind) -> Option<OrderFailure> {
    let mut reason: Option<Problem> = None;
    // A failed question leaves the reason unknown.
    let _ = persist(async || {
        let mut all = order.authorizations();
        while let Some(one) = all.next().await {
            let mut authorization = one?;
            let state = authorization.refresh().await?;
            let found = state.challenges.iter().find_map(|challenge| challenge.error.clone());
            reason = reason.take().or(found);
        }
        Ok(())
    })
    .await;
    let problem = reason.or_else(|| order.state().error.clone())?;
    let mut failure = OrderFailure::of_problem(&problem, None);
    if failure.kind == FailureKind::Refused {
        failure.kind = FailureKind::OtherChallenge;
    }
    failure.reason = format!("{}: {}", kind.name(), text_of(&problem));
    Some(failure)
}

/// A DNS record, removed when dropped.
struct DnsRecord {
    hook: Vec<String>,
    name: String,
    value: String,
}

impl DnsRecord {
    async fn add(hook: &[String], name: &str, value: String) -> Result<DnsRecord, OrderFailure> {
        let record = DnsRecord {
            hook: hook.to_vec(),
            name: format!("_acme-challenge.{name}"),
            value,
        };
        let (hook, name, value) = (record.hook.clone(), record.name.clone(), record.value.clone());
        let added = tokio::task::spawn_blocking(move || dns_hook::add(&hook, &name, &value)).await;
        match added {
            Ok(Ok(())) => Ok(record),
            Ok(Err(reason)) => Err(OrderFailure::local(reason)),
            Err(_) => Err(OrderFailure::local("the DNS hook could not be run")),
        }
    }
}

impl Drop for DnsRecord {
    fn drop(&mut self) {
        let (hook, name) = (std::mem::take(&mut self.hook), std::mem::take(&mut self.name));
        let value = std::mem::take(&mut self.value);
        // A record that stays does no harm: its value is of use for this order alone.
        tokio::task::spawn_blocking(move || dns_hook::remove(&hook, &name, &value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_names_the_former_certificate_is_repeated_without_it() {
        for (kind, is_repeated) in [
            ("serverInternal", true),
            ("malformed", true),
            ("alreadyReplaced", true),
            ("", true),
            ("rateLimited", false),
            ("badNonce", false),
        ] {
            let error = AcmeError::Api(Problem {
                r#type: Some(format!("urn:ietf:params:acme:error:{kind}")),
                detail: None,
                status: Some(500),
                subproblems: Vec::new(),
            });
            assert_eq!(is_about_former(&error, kind), is_repeated, "{kind}");
        }
    }
    #[test]
    fn each_challenge_is_tried_at_once_and_then_there_is_a_wait() {
        use ChallengeKind::{Dns01, Http01, TlsAlpn01};
        let settings = |challenges: &[ChallengeKind]| AcmeSettings {
            directories: Vec::new(),
            roots: Ok(Vec::new()),
            email: None,
            binding: None,
            state: "/".into(),
            challenges: challenges.to_vec(),
            dns_hook: Vec::new(),
            names: Vec::new(),
            on_demand_per_hour: 0,
            on_demand_sites: 0,
            ask: None,
        };
        for (name, challenges, at_once) in [
            ("example.org", &[Http01][..], 0),
            ("example.org", &[Http01, TlsAlpn01], 1),
            ("example.org", &[Http01, TlsAlpn01, Dns01], 2),
            ("*.example.org", &[Http01, TlsAlpn01, Dns01], 0),
        ] {
            let settings = settings(challenges);
            let kinds = (0..9).map(|refusals| {
                let wanted = WantedCertificate { name, replaces: None, refusals };
                OrderFailure::of_challenge("no").settled(has_untried(&settings, &wanted)).kind
            });
            let found = kinds.take_while(|kind| *kind == FailureKind::OtherChallenge).count();
            assert_eq!(found, at_once, "{name} {challenges:?}");
        }
    }
}
