//! The client's side of Digest authentication (RFC 7616, MD5).

use md5::{Digest, Md5};

use crate::client::Response;

/// The Authorization field that answers a challenge, for credentials of the form `digest USER
/// PASSWORD [change…]`, where a change such as `uri=/other`, `nonce=old`, `nc=00000002` or `qop=`
/// (none) replaces what a client would say.
pub fn authorization(
    credentials: &str,
    challenge: &Response,
    method: &str,
    target: &str,
) -> String {
    let words: Vec<&str> = credentials.split(' ').collect();
    let (user, password) = (words[1], words.get(2).copied().unwrap_or_default());
    let change = |name: &str| {
        let mut changes = words.iter().skip(3).filter_map(|word| word.split_once('='));
        changes.find(|(changed, _)| *changed == name).map(|(_, value)| value.to_owned())
    };
    let challenge = challenge.field("www-authenticate").unwrap_or_default();
    let given = |name: &str| {
        let start = challenge.find(&format!("{name}=\""))? + name.len() + 2;
        Some(challenge[start..].split('"').next()?.to_owned())
    };
    let said = |name: &str, otherwise: &str| {
        change(name).or_else(|| given(name)).unwrap_or_else(|| otherwise.to_owned())
    };
    let (realm, nonce, qop) = (said("realm", ""), said("nonce", "none"), said("qop", ""));
    let (uri, count) = (said("uri", target), said("nc", "00000001"));
    let user_part = hash(&format!("{user}:{realm}:{password}"));
    let request_part = hash(&format!("{method}:{uri}"));
    let middle = match qop.as_str() {
        "" => nonce.clone(),
        qop => format!("{nonce}:{count}:0a4f113b:{qop}"),
    };
    let response =
        change("response").unwrap_or_else(|| hash(&format!("{user_part}:{middle}:{request_part}")));
    let mut field = format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response=\"{response}\""
    );
    if !qop.is_empty() {
        field += &format!(", qop={qop}, nc={count}, cnonce=\"0a4f113b\"");
    }
    if let Some(opaque) = given("opaque") {
        field += &format!(", opaque=\"{opaque}\"");
    }
    if let Some(algorithm) = change("algorithm") {
        field += &format!(", algorithm={algorithm}");
    }
    field
}

fn hash(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
