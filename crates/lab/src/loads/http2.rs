//! Single requests over HTTP/2, whose answers are compared byte for byte.

use std::net::TcpStream;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request};
use tokio_rustls::TlsConnector;

use super::sample::{DecodedResponse, LARGEST, host};
use super::{NO_ANSWER, Wrong};
use crate::load::Question;
use crate::tls;

/// Sends the request over TLS on this connection.
///
/// # Errors
/// The connection fails, or the response is malformed.
pub(super) fn ask(
    timeout: Duration,
    question: &Question,
    stream: TcpStream,
) -> Result<DecodedResponse, Wrong> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer =
        runtime.block_on(async { tokio::time::timeout(timeout, exchange(question, stream)).await });
    answer.map_err(|_| Wrong(NO_ANSWER.to_owned()))?
}

async fn exchange(question: &Question, stream: TcpStream) -> Result<DecodedResponse, Wrong> {
    let port = stream.peer_addr()?.port();
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let connector = TlsConnector::from(tls::plain_client("h2")?);
    let stream = connector.connect(tls::server_name()?, stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(Wrong("the server does not speak HTTP/2".to_owned()));
    }
    let wrong = |error: h2::Error| Wrong(format!("HTTP/2: {error}"));
    let (mut sender, connection) = h2::client::handshake(stream).await.map_err(wrong)?;
    let connection = tokio::spawn(connection);
    let (response, _) = sender.send_request(request(question, port)?, true).map_err(wrong)?;
    let (head, mut content) = response.await.map_err(wrong)?.into_parts();
    let mut body = Vec::new();
    while let Some(part) = content.data().await {
        let part = part.map_err(wrong)?;
        content.flow_control().release_capacity(part.len()).map_err(wrong)?;
        body.extend_from_slice(&part);
        if body.len() as u64 > LARGEST {
            return Err(Wrong("the answer is too large".to_owned()));
        }
    }
    connection.abort();
    let fields = head.headers.iter().map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Ok(DecodedResponse {
        status: head.status.as_u16(),
        fields: fields.collect(),
        body,
    })
}

/// The request's head for HTTP/2 and HTTP/3.
///
/// # Errors
/// The question makes no valid head.
pub(super) fn request(question: &Question, port: u16) -> Result<Request<()>, Wrong> {
    let wrong = |error: http::Error| Wrong(format!("{}: {error}", question.path));
    let uri = format!("https://{}{}", host(question, port), question.path);
    let mut request = Request::get(uri).header("accept", "*/*").header("user-agent", "howdah-lab");
    for (name, value) in &question.fields {
        let name = HeaderName::try_from(name).map_err(|error| wrong(error.into()))?;
        let value = HeaderValue::try_from(value).map_err(|error| wrong(error.into()))?;
        request = request.header(name, value);
    }
    request.body(()).map_err(wrong)
}
