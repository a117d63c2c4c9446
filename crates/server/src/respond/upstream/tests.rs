use howdah_config::Upstream;
use howdah_site::ClientRequest;

use super::*;

fn request() -> howdah_http::Request {
    let mut request = howdah_http::Request {
        authority: b"site.example".to_vec(),
        target: b"/x".to_vec(),
        ..Default::default()
    };
    for (name, value) in [
        ("Host", "site.example:8080"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "9"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Expect", "100-continue"),
        ("Upgrade", "h2c"),
        ("Proxy", "evil"),
        ("X-Forwarded-For", "192.0.2.9"),
        ("Cookie", "a=b"),
        ("X-Bad", "a\r\nX-Forged: 1"),
    ] {
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    request
}

#[test]
fn the_head_for_an_upstream() {
    let request = request();
    let client = ClientRequest::new(
        &request,
        "[::ffff:192.0.2.7]:41000".parse().unwrap(),
        "192.0.2.1:80".parse().unwrap(),
        0,
    );
    let upstream = Upstream {
        scheme: howdah_config::UpstreamScheme::Http,
        socket: None,
        host: "127.0.0.1".to_owned(),
        port: 3000,
    };
    let head = request_head(&client, None, &upstream, b"/y?z", Some(5), ConnectionOptions::Close);
    assert_eq!(
        String::from_utf8(head.unwrap()).unwrap(),
        "GET /y?z HTTP/1.1\r\nHost: 127.0.0.1:3000\r\nCookie: a=b\r\n\
         X-Forwarded-For: 192.0.2.9, 192.0.2.7\r\n\
         X-Forwarded-Host: site.example:8080\r\nX-Forwarded-Server: site.example\r\n\
         X-Forwarded-Proto: http\r\n\
         Content-Length: 5\r\n\
         Connection: close\r\n\r\n"
    );
}
