//! The question whether a name may have a certificate on demand, to the `ask` URL of the operator.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::authority::client_settings;
use crate::failure::with_sources;
use crate::settings::AcmeSettings;

/// Time in which the URL must answer. Beyond, the name is not allowed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The URL, and the client that asks it.
pub(crate) struct Permission {
    url: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Permission {
    /// Returns the URL of the settings with its client; `None` if there is no URL.
    ///
    /// # Errors
    /// The roots cannot be read.
    pub(crate) fn of(settings: &AcmeSettings) -> Result<Option<Permission>, String> {
        let Some(url) = settings.ask.clone() else {
            return Ok(None);
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(client_settings(settings)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Some(Permission { url, client }))
    }

    /// Asks for `name`. A status of 200 to 299 allows the name, others do not.
    ///
    /// # Errors
    /// There is no answer, or the server has failed: the reason, for the operator.
    pub(crate) async fn of_name(&self, name: &str) -> Result<bool, String> {
        let uri: Uri = with_name(&self.url, name).parse().map_err(|error| format!("{error}"))?;
        let request = Request::get(uri).body(Empty::new()).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(PATIENCE, self.client.request(request));
        let status = match answer.await {
            Ok(Ok(response)) => response.status(),
            Ok(Err(error)) => return Err(with_sources(&error)),
            Err(_) => return Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        match status.is_server_error() {
            true => Err(format!("the server answers {status}")),
            false => Ok(status.is_success()),
        }
    }
}

/// Returns the URL with the parameter `domain`. Checked names need no encoding.
fn with_name(url: &str, name: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}domain={name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_a_parameter() {
        let url = "http://127.0.0.1:8000/may";
        assert_eq!(with_name(url, "a.example.org"), format!("{url}?domain=a.example.org"));
        let url = "https://example.org/?key=1";
        assert_eq!(with_name(url, "a.org"), format!("{url}&domain=a.org"));
    }
}
