//! An authority: the connection to it, and the account there.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::Request;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{
    Account, BodyWrapper, BytesResponse, Error as AcmeError, ExternalAccountKey, HttpClient,
    NewAccount, Problem,
};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::failure::{OrderFailure, kind_of, text_of};
use crate::settings::AcmeSettings;
use crate::storage::CertificateFolder;

/// Time in which an authority must answer a request. Then the request has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an authority's answer. A longer one makes the request fail.
const LONGEST_ANSWER: usize = 1 << 20;
/// Attempts of a request whose nonce the authority refuses (RFC 8555 §6.5), of three each. Beyond
/// them the step has failed.
const MOST_NONCES: usize = 10;

/// An authority, and the account there once it was used.
pub(crate) struct Authority {
    /// URL of the directory.
    pub(crate) directory: String,
    connection: AuthorityClient,
    settings: Rc<AcmeSettings>,
    storage: CertificateFolder,
    /// Whether the external account binding is sent without being asked for.
    binds_at_once: bool,
    account: tokio::sync::Mutex<KnownAccount>,
}

#[derive(Default)]
struct KnownAccount {
    account: Option<Account>,
    /// An account that the authority did not accept was replaced. This is not done twice.
    is_replaced: bool,
}

impl Authority {
    /// The authorities of the settings, in their order.
    ///
    /// # Errors
    /// The roots cannot be read.
    pub(crate) fn all(settings: &Rc<AcmeSettings>) -> Result<Vec<Authority>, String> {
        let connection = AuthorityClient::new(settings)?;
        let is_only = settings.directories.len() == 1;
        let authority = |directory: &String| Authority {
            directory: directory.clone(),
            connection: connection.clone(),
            settings: Rc::clone(settings),
            storage: CertificateFolder::new(&settings.state),
            binds_at_once: is_only,
            account: tokio::sync::Mutex::default(),
        };
        Ok(settings.directories.iter().map(authority).collect())
    }

    /// Returns the account, which is made if there is none.
    ///
    /// # Errors
    /// The stored account cannot be read, or the authority does not make or find the account.
    pub(crate) async fn account(&self) -> Result<Account, OrderFailure> {
        // Other orders wait meanwhile, and do not make accounts of their own.
        let mut known = self.account.lock().await;
        if let Some(account) = &known.account {
            return Ok(account.clone());
        }
        let stored = self.storage.account(&self.directory);
        let account = match stored.map_err(|error| OrderFailure::local(error.to_string()))? {
            Some(stored) => {
                let builder = Account::builder_with_http(Box::new(self.connection.clone()));
                let found = builder.from_parts(stored.id, stored.key, self.directory.clone()).await;
                found.map_err(|error| self.failure(&error))?
            }
            None => self.register().await?,
        };
        known.account = Some(account.clone());
        Ok(account)
    }

    /// Forgets the account, which the authority does not accept, and keeps its files aside. The
    /// next order makes a new one. Returns `false` if that was done before.
    ///
    /// # Errors
    /// The files of the account cannot be renamed.
    pub(crate) async fn replace_account(&self) -> Result<bool, OrderFailure> {
        let mut known = self.account.lock().await;
        if known.is_replaced {
            return Ok(false);
        }
        let retired = self.storage.retire_account(&self.directory);
        retired.map_err(|error| OrderFailure::local(error.to_string()))?;
        *known = KnownAccount { account: None, is_replaced: true };
        Ok(true)
    }

    /// The failure that an error of this authority means.
    pub(crate) fn failure(&self, error: &AcmeError) -> OrderFailure {
        OrderFailure::of(error, self.patience())
    }

    /// The Retry-After of the last answer. `None` where it had none.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let noted = *self.connection.patience.lock().unwrap_or_else(PoisonError::into_inner);
        noted.map(|until| until.saturating_duration_since(Instant::now()))
    }

    async fn register(&self) -> Result<Account, OrderFailure> {
        let contact = self.settings.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let binding = self.settings.binding.as_ref().map(external_key).transpose()?;
        let mut sent = binding.as_ref().filter(|_| self.binds_at_once);
        let asks_for_binding = |error: &AcmeError| match error {
            AcmeError::Api(problem) => kind_of(problem) == "externalAccountRequired",
            _ => false,
        };
        let mut made = self.create(&contact, sent).await;
        if made.as_ref().is_err_and(asks_for_binding) && sent.is_none() && binding.is_some() {
            sent = binding.as_ref();
            made = self.create(&contact, sent).await;
        }
        let (account, key) = made.map_err(|error| match &error {
            AcmeError::Api(problem) if kind_of(problem) == "externalAccountRequired" => {
                OrderFailure::refused(format!(
                    "{}; give `eab_kid` and `eab_hmac`, which the authority tells its customers",
                    text_of(problem)
                ))
            }
            AcmeError::Api(problem)
                if sent.is_some() && ["unauthorized", "malformed"].contains(&kind_of(problem)) =>
            {
                let mut failure = self.failure(&error);
                failure.reason += "; look at `eab_kid` and `eab_hmac`, which have to be exactly \
                                   as the authority tells them";
                failure
            }
            _ => self.failure(&error),
        })?;
        let stored = self.storage.store_account(&self.directory, account.id(), &key);
        stored.map_err(|error| {
            OrderFailure::local(format!("the new account cannot be stored: {error}"))
        })?;
        Ok(account)
    }

    /// Makes an account. Returns it with its key in PEM.
    async fn create(
        &self,
        contact: &[&str],
        binding: Option<&ExternalAccountKey>,
    ) -> Result<(Account, String), AcmeError> {
        let account = NewAccount {
            contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = persist(async || {
            let builder = Account::builder_with_http(Box::new(self.connection.clone()));
            builder.create(&account, self.directory.clone(), binding).await
        })
        .await?;
        let key = KeyPair::try_from(credentials.private_key().secret_pkcs8_der());
        let key = key.map_err(|error| AcmeError::Other(Box::new(error)))?;
        Ok((account, key.serialize_pem()))
    }
}

/// Repeats a call while the authority refuses its nonce.
///
/// # Errors
/// The last error of `call`: another one than a refused nonce, or a nonce that was refused each
/// time.
pub(crate) async fn persist<T>(
    mut call: impl AsyncFnMut() -> Result<T, AcmeError>,
) -> Result<T, AcmeError> {
    for _ in 1..MOST_NONCES {
        match call().await {
            Err(AcmeError::Api(problem)) if kind_of(&problem) == "badNonce" => {}
            result => return result,
        }
    }
    call().await
}

/// Returns the key of an external account. Authorities write it in base64url or in base64.
fn external_key((id, key): &(String, String)) -> Result<ExternalAccountKey, OrderFailure> {
    let plain = key.trim_end_matches('=');
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(plain).or_else(|_| BASE64_STANDARD.decode(key));
    match decoded {
        Ok(key) => Ok(ExternalAccountKey::new(id.clone(), &key)),
        Err(_) => Err(OrderFailure::local("`eab_hmac` is not base64url; copy it again")),
    }
}

/// The HTTP client for authorities. Notes each answer's Retry-After.
#[derive(Clone)]
struct AuthorityClient {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    /// The time until which the last answer asked for patience.
    patience: Arc<Mutex<Option<Instant>>>,
}

impl AuthorityClient {
    /// Returns a client that trusts the roots of the system and those of the settings.
    fn new(settings: &AcmeSettings) -> Result<AuthorityClient, String> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(client_settings(settings)?);
        let connector = connector.https_only().enable_http1().build();
        Ok(AuthorityClient {
            client: Client::builder(TokioExecutor::new()).build(connector),
            patience: Arc::default(),
        })
    }
}

/// Returns the settings of TLS for a client that trusts the roots of the system and those of the
/// settings.
///
/// # Errors
/// The roots of `acme.ca_file` cannot be read.
pub(crate) fn client_settings(settings: &AcmeSettings) -> Result<ClientConfig, String> {
    let own = settings.roots.as_ref().map_err(Clone::clone)?;
    let mut roots = RootCertStore::empty();
    // A system without roots, or with a broken one, may not need them.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for root in CertificateDer::pem_slice_iter(own) {
        let root = root.map_err(|error| format!("`acme.ca_file`: {error}"))?;
        roots.add(root).map_err(|error| format!("`acme.ca_file`: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let settings = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(settings)
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
        let address = request.uri().to_string();
        let sent = self.client.request(request);
        let patience = Arc::clone(&self.patience);
        let exchange = async move {
            let response = sent.await.map_err(|error| AcmeError::Other(Box::new(error)))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await;
            Ok::<_, AcmeError>((parts, body.map_err(AcmeError::Other)?.to_bytes()))
        };
        Box::pin(async move {
            let (parts, body) = match tokio::time::timeout(PATIENCE, exchange).await {
                Ok(answer) => answer?,
                Err(_) => {
                    let what = format!("{address} did not answer within {} s", PATIENCE.as_secs());
                    return Err(AcmeError::Other(what.into()));
                }
            };
            let until = parts
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| retry_after(value.to_str().ok()?));
            *patience.lock().unwrap_or_else(PoisonError::into_inner) = until;
            let is_error = parts.status.is_client_error() || parts.status.is_server_error();
            if is_error && serde_json::from_slice::<Problem>(&body).is_err() {
                // A proxy's page, or no authority at all.
                return Err(AcmeError::Api(Problem {
                    r#type: None,
                    detail: Some(format!("{address} answers {}", parts.status)),
                    status: Some(parts.status.as_u16()),
                    subproblems: Vec::new(),
                }));
            }
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// The end of a Retry-After in seconds. Authorities do not use the form with a date.
fn retry_after(value: &str) -> Option<Instant> {
    let seconds: u64 = value.trim().parse().ok()?;
    Instant::now().checked_add(Duration::from_secs(seconds))
}
