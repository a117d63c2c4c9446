//! The client's request and connection, and which of their properties were read.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};

use crate::work::{Meter, WorkBudget};
use howdah_http::{Content, Fields, Method, Request, Scheme, Tls, Version};

/// The request and its connection, which do not change while it is served.
///
/// Every property that can differ between two requests for the same URL is read by a method that
/// records the reading, where [`RequestReads`] are collected. A result that was found without
/// reading a property holds for requests that differ in it.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'r> {
    request: &'r Request,
    remote: SocketAddr,
    local: SocketAddr,
    hop: SocketAddr,
    tls: Option<&'r Tls>,
    time: u64,
    reads: Option<&'r RequestReads>,
    meter: Meter<'r>,
}

/// The properties of a request that were read, besides its method, its URL without the spelling,
/// its authority, scheme and version, whether it has content, and our end of the connection.
#[derive(Debug, Default)]
pub struct RequestReads {
    everything: Cell<bool>,
    remote: Cell<bool>,
    fields: RefCell<Vec<Box<[u8]>>>,
}

/// The right to ask what holds for one request only: proof that the resolution cache was told.
#[derive(Clone, Copy, Debug)]
pub struct Unrepeatable(());

impl<'r> ClientRequest<'r> {
    /// Returns a request that came from `remote` to `local` at `time`, in microseconds since 1970.
    pub fn new(
        request: &'r Request,
        remote: SocketAddr,
        local: SocketAddr,
        time: u64,
    ) -> ClientRequest<'r> {
        ClientRequest {
            request,
            remote,
            local,
            hop: remote,
            tls: None,
            time,
            reads: None,
            meter: Meter::unlimited(),
        }
    }

    /// Returns the same client, which a proxy at `hop` speaks for.
    #[inline]
    pub fn through(self, hop: SocketAddr) -> ClientRequest<'r> {
        ClientRequest { hop, ..self }
    }

    /// Returns the same client, whose connection is encrypted.
    #[inline]
    pub fn over(self, tls: Option<&'r Tls>) -> ClientRequest<'r> {
        ClientRequest { tls, ..self }
    }

    /// Returns the facts about the encryption of the connection; `None` if it has none. A trusted
    /// proxy's connection may be encrypted, and its client's not.
    pub fn tls(&self) -> Option<&'r Tls> {
        self.depends_on_everything();
        self.tls
    }

    /// Returns a variable of the connection's encryption, by mod_ssl's name; `None` if it has no
    /// value.
    pub fn tls_variable(&self, name: &[u8]) -> Option<Cow<'r, [u8]>> {
        Some(match self.tls()?.variable(name, self.seconds())? {
            Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
            Cow::Owned(value) => Cow::Owned(value.into_bytes()),
        })
    }

    /// Returns the same client, which records in `reads` the properties that are read.
    pub fn noting(self, reads: &'r RequestReads) -> ClientRequest<'r> {
        ClientRequest { reads: Some(reads), ..self }
    }

    /// Returns the same client, for whose request the work is counted against `budget`.
    pub fn within(self, budget: &'r WorkBudget) -> ClientRequest<'r> {
        ClientRequest { meter: budget.meter(), ..self }
    }

    /// Returns the meter of the work for the request.
    #[inline]
    pub fn meter(&self) -> Meter<'r> {
        self.meter
    }

    /// Returns the request as it came: anything in it.
    pub fn request(&self) -> &'r Request {
        self.depends_on_everything();
        self.request
    }

    /// Returns the number of the fields as sent. Not recorded: only the meter may depend on it.
    pub(crate) fn field_count(&self) -> usize {
        self.request.fields.len()
    }

    /// Records that a question is asked whose answer holds for this request only, and returns the
    /// right to ask it ([`DirectiveHost`](crate::DirectiveHost)).
    #[inline]
    pub fn depends_on_everything(&self) -> Unrepeatable {
        if let Some(reads) = self.reads {
            reads.everything.set(true);
        }
        Unrepeatable(())
    }

    /// Returns the fields as sent, of which only those of that name are looked at.
    #[inline]
    pub fn fields_named(&self, name: &[u8]) -> &'r Fields {
        if let Some(reads) = self.reads {
            reads.note_field(name);
        }
        &self.request.fields
    }

    /// Returns the client's address, which a trusted proxy may have named.
    #[inline]
    pub fn remote(&self) -> SocketAddr {
        if let Some(reads) = self.reads {
            reads.remote.set(true);
        }
        self.remote
    }

    /// Returns the other end of the connection: the client's, or that of the proxy that speaks for
    /// the client.
    pub fn hop(&self) -> SocketAddr {
        self.depends_on_everything();
        self.hop
    }

    /// Returns the time of the request, in microseconds since 1970.
    #[inline]
    pub fn time(&self) -> u64 {
        self.depends_on_everything();
        self.time
    }

    /// Returns the time of the request, in seconds since 1970.
    pub fn seconds(&self) -> i64 {
        i64::try_from(self.time() / 1_000_000).unwrap_or(i64::MAX)
    }

    /// Returns the server's end of the connection.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the method, as sent.
    pub fn method(&self) -> &'r Method {
        &self.request.method
    }

    /// Returns the scheme of the connection.
    pub fn scheme(&self) -> Scheme {
        self.request.scheme
    }

    /// Returns the protocol version.
    pub fn version(&self) -> Version {
        self.request.version
    }

    /// Returns the `host[:port]` that the client named; empty where it named none.
    pub fn authority(&self) -> &'r [u8] {
        &self.request.authority
    }

    /// Returns the authority without its port.
    pub fn host(&self) -> &'r [u8] {
        self.request.host()
    }

    /// Returns the port that the client asked, as Apache's UseCanonicalName Off and
    /// UseCanonicalPhysicalPort Off find it: the port beside the host that the client named, else
    /// the scheme's usual port. A client that named no host (HTTP/1.0) asked the port that it
    /// reached.
    ///
    /// The port that the server listens on is unknown to the client behind a proxy or a mapped
    /// port: a URL with it would lead nowhere.
    pub fn server_port(&self) -> u16 {
        match self.request.port() {
            Some(port) => port,
            None if self.request.authority.is_empty() => self.local.port(),
            None => self.request.scheme.default_port(),
        }
    }

    /// Returns the delimitation of the request's content.
    pub fn content(&self) -> Content {
        self.request.content
    }

    /// Returns the URL's path, as sent. Its meaning does not depend on its spelling.
    pub fn path(&self) -> &'r [u8] {
        self.request.path()
    }

    /// Returns the URL's query, as sent. `None` for a URL without `?`.
    pub fn query(&self) -> Option<&'r [u8]> {
        self.request.query()
    }
}

impl RequestReads {
    fn note_field(&self, name: &[u8]) {
        let mut fields = self.fields.borrow_mut();
        if fields.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return;
        }
        if fields.len() < MOST_FIELDS {
            fields.push(name.into());
        } else {
            self.everything.set(true);
        }
    }

    /// Returns the values of the same properties for `client`. `None` where there are too many, or
    /// where no two requests need to agree in them.
    pub fn answers(&self, client: &ClientRequest<'_>) -> Option<PropertyValues> {
        if self.everything.get() {
            return None;
        }
        let mut fields = Vec::new();
        for name in self.fields.borrow().iter() {
            let values = client.request.fields.values(name).map(Box::from);
            let values: Vec<Box<[u8]>> = values.collect();
            let is_personal = SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
            let length: usize = values.iter().map(|value| value.len()).sum();
            if length > LONGEST || (is_personal && length > 0) {
                return None;
            }
            fields.push(ReadField {
                name: name.clone(),
                values: values.into(),
            });
        }
        Some(PropertyValues {
            remote: self.remote.get().then(|| client.remote.ip()),
            fields: fields.into(),
        })
    }
}

/// The values of the properties that were read of a request.
#[derive(Debug)]
pub struct PropertyValues {
    remote: Option<IpAddr>,
    fields: Box<[ReadField]>,
}

/// A field of the request that was read.
#[derive(Debug)]
struct ReadField {
    name: Box<[u8]>,
    values: Box<[Box<[u8]>]>,
}

impl PropertyValues {
    /// Returns whether another request has the same values.
    #[inline]
    pub fn are_those_of(&self, client: &ClientRequest<'_>) -> bool {
        self.remote.is_none_or(|remote| remote == client.remote.ip())
            && self.fields.iter().all(|field| {
                let mut sent = client.request.fields.values(&field.name);
                field.values.iter().all(|value| sent.next() == Some(value)) && sent.next().is_none()
            })
    }
}

/// The fields that are recorded at most; beyond them the result counts as depending on the whole
/// request.
const MOST_FIELDS: usize = 8;

/// The longest field, in bytes, that is kept to be compared. A request whose directives read a
/// longer one is evaluated each time.
const LONGEST: usize = 512;

/// Fields that identify a user: they are not kept, since no other user sends the same.
const SECRETS: [&[u8]; 3] = [b"Authorization", b"Proxy-Authorization", b"Cookie"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transaction;
    use crate::testing::{request, transaction};

    #[test]
    fn an_answer_holds_for_requests_that_answer_the_same_questions_alike() {
        let request_of = |fields| request("/x", fields);
        let first = request_of("User-Agent: a\nAccept: b\nAccept: c");
        let rows = [
            ("User-Agent: a\nAccept: b\nAccept: c", true),
            ("Other: x\nAccept: b\nUSER-AGENT: a\naccept: c", true),
            ("User-Agent: b\nAccept: b\nAccept: c", false),
            ("User-Agent: a\nAccept: b", false),
            ("User-Agent: a\nAccept: b\nAccept: c\nAccept: d", false),
            ("Accept: b\nAccept: c", false),
            ("User-Agent: a\nAccept: b\nAccept: c\nReferer: x", false),
        ];
        let reads = RequestReads::default();
        let mut tx = transaction(&first);
        tx.client = tx.client.noting(&reads);
        assert_eq!(tx.request_field(b"User-Agent"), Some(&b"a"[..]));
        assert_eq!(tx.request_values(b"accept").count(), 2);
        assert_eq!(tx.request_field(b"Referer"), None);
        let answers = reads.answers(&tx.client).expect("three fields are few");
        for (fields, expected) in rows {
            let other = request_of(fields);
            assert_eq!(answers.are_those_of(&transaction(&other).client), expected, "{fields}");
        }
    }

    #[test]
    fn the_address_counts_where_it_was_asked_for() {
        let request = request("/", "");
        let elsewhere = "192.0.2.99:1".parse().expect("an address");
        for asks in [false, true] {
            let reads = RequestReads::default();
            let client = transaction(&request).client.noting(&reads);
            if asks {
                client.remote();
            }
            let answers = reads.answers(&client).expect("it is little");
            let other = ClientRequest::new(&request, elsewhere, client.local(), 0);
            assert_eq!(answers.are_those_of(&other), !asks);
        }
    }

    #[test]
    fn values_of_one_request_alone_are_not_kept() {
        type Ask = fn(&Transaction<'_>) -> usize;
        let rows: [(&str, Ask, bool); 7] = [
            ("", |tx| tx.request_values(b"authorization").count(), true),
            ("Authorization: Basic eDp5", |tx| tx.request_values(b"authorization").count(), false),
            ("Cookie: a=b", |tx| tx.request_values(b"Cookie").count(), false),
            ("Cookie: a=b", |tx| tx.request_values(b"Accept").count(), true),
            ("", |tx| tx.client.time() as usize, false),
            ("", |tx| tx.request_fields().len(), false),
            ("", |tx| tx.client.authority().len(), true),
        ];
        for (number, (fields, ask, expected)) in rows.into_iter().enumerate() {
            let request = request("/", fields);
            let reads = RequestReads::default();
            let mut tx = transaction(&request);
            tx.client = tx.client.noting(&reads);
            ask(&tx);
            assert_eq!(reads.answers(&tx.client).is_some(), expected, "row {number}");
        }
        let request = request("/", "");
        let reads = RequestReads::default();
        let client = transaction(&request).client.noting(&reads);
        for name in 0..=MOST_FIELDS as u8 {
            client.fields_named(&[name]);
        }
        assert!(reads.answers(&client).is_none());
    }

    #[test]
    fn long_values_are_not_kept() {
        for (length, expected) in [(LONGEST, true), (LONGEST + 1, false)] {
            let request = request("/", &format!("Accept: {}", "a".repeat(length)));
            let reads = RequestReads::default();
            let tx = transaction(&request);
            let client = tx.client.noting(&reads);
            client.fields_named(b"accept");
            assert_eq!(reads.answers(&client).is_some(), expected, "{length}");
        }
    }
}
