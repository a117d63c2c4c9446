//! The server variables of a script (`$_SERVER`), as PHP developers know them from Apache.

mod environment;
mod ruled;

use std::io::Write;
use std::net::IpAddr;

use howdah_htaccess::{ClientRequest, SERVER_ADMIN, SERVER_SOFTWARE};
use howdah_http::{Content, Fields, Request, Scheme, ScriptVariables};

use crate::line_index::LineIndex;
use crate::resolution::Script;
use crate::ruled_request::RuledRequest;
pub use environment::{EnvironmentNames, ScriptEnvironment};

/// Gives `out` every server variable of `script`, run for the request of `client`, as name and
/// value.
///
/// The variables are those of Apache (mod_php, and php-fpm behind mod_proxy_fcgi), with these
/// differences:
/// - Lines of Cookie are joined by `; `, not `, `: PHP would take `a=1, b=2` for one cookie.
/// - HTTP_AUTHORIZATION is given, as nginx does; Apache hides it, and every framework then asks for
///   a rewrite rule.
/// - HTTP_HOST is the authority that the request is really for: RFC 9112 §3.2.2 has a target in
///   absolute form win over Host, and HTTP/2 need not send Host at all.
///
/// `ruled`: the request as directives have left it. The variables that they set come after those of
/// the server. Where a name is the same, the server's value wins, as in Apache.
///
/// PHP adds its own: `PHP_SELF` (SCRIPT_NAME and PATH_INFO), `argv`, `argc`, `REQUEST_TIME` and
/// `REQUEST_TIME_FLOAT`, and `PHP_AUTH_*` from the Authorization field.
pub fn server_variables(
    client: &ClientRequest<'_>,
    script: &Script,
    ruled: Option<&RuledRequest>,
    out: &mut impl FnMut(&[u8], &[u8]),
) {
    let Some(ruled) = ruled else {
        common_variables(client, script, None, out);
        own_variables(client, None, out);
        return;
    };
    let mut environment = ScriptEnvironment::of(ruled);
    let mut out_of_the_server = |name: &[u8], value: &[u8]| {
        environment.leave_out(name);
        out(name, value);
    };
    common_variables(client, script, Some(ruled), &mut out_of_the_server);
    own_variables(client, Some(ruled), &mut out_of_the_server);
    environment.give(out);
}

/// Gives `out` the first of these variables: those that all requests of one entry of the
/// [`ResolutionCache`](crate::ResolutionCache) have in common.
pub fn common_variables(
    client: &ClientRequest<'_>,
    script: &Script,
    ruled: Option<&RuledRequest>,
    out: &mut impl FnMut(&[u8], &[u8]),
) {
    let request = client.request();
    about_the_script(script, ruled, out);
    match ruled {
        Some(ruled) => ruled::about_the_way(client, ruled, out),
        None => about_the_try_step(request, script, out),
    }
    about_the_server(client, out);
    out(b"SERVER_PROTOCOL", request.version.as_str().as_bytes());
    let (method, query) = match ruled {
        Some(ruled) => (&ruled.state.method, ruled.state.args.as_deref()),
        None => (&request.method, request.query()),
    };
    out(b"REQUEST_METHOD", method.as_str().as_bytes());
    out(b"QUERY_STRING", query.unwrap_or_default());
    let scheme: &[u8] = match request.scheme {
        Scheme::Http => b"http",
        Scheme::Https => b"https",
    };
    out(b"REQUEST_SCHEME", scheme);
    if request.scheme == Scheme::Https {
        out(b"HTTPS", b"on");
    }
}

/// Gives `out` the other variables that the server sets: those that differ between requests.
pub fn own_variables(
    client: &ClientRequest<'_>,
    ruled: Option<&RuledRequest>,
    out: &mut impl FnMut(&[u8], &[u8]),
) {
    let request = client.request();
    out(b"REQUEST_URI", ruled.map_or(&request.target, |ruled| ruled::uri(request, ruled)));
    with_address(client.remote().ip(), |remote| out(b"REMOTE_ADDR", remote));
    with_number(u64::from(client.remote().port()), |text| out(b"REMOTE_PORT", text));
    if let Some(tls) = client.tls() {
        let ssl = ruled.and_then(|ruled| ruled.settings.ssl.as_ref());
        let which = ssl.and_then(|ssl| ssl.script_variables());
        tls.variables(which.unwrap_or(ScriptVariables::Connection), client.seconds(), out);
        if ssl.is_some_and(|ssl| ssl.exports_certificates()) {
            tls.certificates(out);
        }
        if let (Some(name), Some(_)) = (&tls.server_name, ruled.and_then(ruled::previous)) {
            out(b"REDIRECT_SSL_TLS_SNI", name.as_bytes());
        }
    }
    let edited = ruled.and_then(|ruled| ruled.state.request_fields.as_ref());
    if let Some(content_type) = edited.unwrap_or(&request.fields).value(b"content-type") {
        out(b"CONTENT_TYPE", content_type);
    }
    if let Content::Length(length) = request.content {
        with_number(length, |text| out(b"CONTENT_LENGTH", text));
    }
    match edited {
        None => fields(request, &request.fields, out),
        Some(edited) => fields(request, &ruled::as_read(&request.fields, edited), out),
    }
}

fn about_the_script(
    script: &Script,
    ruled: Option<&RuledRequest>,
    out: &mut impl FnMut(&[u8], &[u8]),
) {
    let path = script.path();
    let root = path.root_bytes();
    out(b"DOCUMENT_ROOT", root);
    out(b"CONTEXT_DOCUMENT_ROOT", root);
    out(b"CONTEXT_PREFIX", b"");
    out(b"SCRIPT_FILENAME", path.absolute_bytes());
    let path_info = script.path_info();
    out(
        b"SCRIPT_NAME",
        match ruled {
            Some(ruled) => ruled::script_name(&ruled.state.uri, path_info),
            None => path.url_path(),
        },
    );
    if !path_info.is_empty() {
        out(b"PATH_INFO", path_info);
        // The root `/` ends in the slash that PATH_INFO starts with.
        let translated = if root == b"/" {
            path_info.to_vec()
        } else {
            [root, path_info].concat()
        };
        out(b"PATH_TRANSLATED", &translated);
    }
}

/// The REDIRECT_ variables of mod_rewrite where `.htaccess` sends everything to a front controller;
/// frameworks expect them. (FallbackResource sets none.)
fn about_the_try_step(request: &Request, script: &Script, out: &mut impl FnMut(&[u8], &[u8])) {
    if let Some(url) = script.redirect_url() {
        out(b"REDIRECT_STATUS", b"200");
        out(b"REDIRECT_URL", url);
        if let Some(query) = request.query().filter(|query| !query.is_empty()) {
            out(b"REDIRECT_QUERY_STRING", query);
        }
    }
}

fn about_the_server(client: &ClientRequest<'_>, out: &mut impl FnMut(&[u8], &[u8])) {
    let request = client.request();
    out(b"GATEWAY_INTERFACE", b"CGI/1.1");
    out(b"SERVER_SOFTWARE", SERVER_SOFTWARE);
    out(b"SERVER_SIGNATURE", b"");
    out(b"SERVER_ADMIN", SERVER_ADMIN);
    with_address(client.local().ip(), |local| {
        out(b"SERVER_ADDR", local);
        // Without a Host, from HTTP/1.0, the address is all that is known of the name.
        let is_named = !request.authority.is_empty();
        out(b"SERVER_NAME", if is_named { request.host() } else { local });
    });
    with_number(u64::from(client.server_port()), |text| out(b"SERVER_PORT", text));
}

/// `HTTP_` variables, one per field name: several lines of a field are joined as RFC 9110 §5.3
/// allows.
fn fields(request: &Request, fields: &Fields, out: &mut impl FnMut(&[u8], &[u8])) {
    if !request.authority.is_empty() {
        out(b"HTTP_HOST", host_as_sent(request, fields));
    }
    let (index, repeated) = (LineIndex::of(fields), repeated_marks(fields));
    let mut name_buffer = [0; LONGEST_NAME];
    for (number, (field, value)) in fields.iter().enumerate() {
        let Some(name) = variable_name(field, &mut name_buffer) else {
            continue;
        };
        if repeated & mark(field) == 0 {
            out(name, value);
            continue;
        }
        match index.find(field) {
            Some(same) if same.first < number => continue,
            Some(same) if same.count > 1 => {}
            _ => {
                out(name, value);
                continue;
            }
        }
        // RFC 6265 §5.4: a line of Cookie holds pairs, and pairs are joined by a semicolon.
        let separator: &[u8] = if field.eq_ignore_ascii_case(b"cookie") {
            b"; "
        } else {
            b", "
        };
        let values: Vec<&[u8]> = fields.values(field).collect();
        out(name, &values.join(separator));
    }
}

/// The Host field as the client spelt it, where it says the same as the authority; else the
/// authority.
fn host_as_sent<'r>(request: &'r Request, fields: &'r Fields) -> &'r [u8] {
    let authority = &request.authority[..];
    match fields.value(b"host") {
        Some(host) if host == authority => authority,
        // RequestHeader says something else.
        Some(host) if request.fields.value(b"host") != Some(host) => host,
        Some(host) if host.strip_suffix(b".").unwrap_or(host).eq_ignore_ascii_case(authority) => {
            host
        }
        _ => authority,
    }
}

/// The marks that more than one field line has. There are almost none, so almost no line is
/// compared with the others.
fn repeated_marks(fields: &Fields) -> u64 {
    let (mut seen, mut repeated) = (0, 0);
    for (field, _) in fields.iter() {
        let mark = mark(field);
        repeated |= seen & mark;
        seen |= mark;
    }
    repeated
}

/// One bit out of 64, the same for names that differ only in case.
fn mark(field: &[u8]) -> u64 {
    let letter = |byte: Option<&u8>| usize::from(byte.map_or(0, |byte| byte & 0x1f));
    let sum = letter(field.first()) + 7 * letter(field.last()) + 11 * field.len();
    1 << (sum % 64)
}

/// The variable that a field becomes, or `None` for a field that scripts must not or need not see.
///
/// - Names with anything but letters, digits and hyphens are dropped: `X_Real_IP` and `X-Real-IP`
///   would become the same variable, so a client could forge what a proxy sets.
/// - Proxy would become HTTP_PROXY, which programs take for the proxy to use (CVE-2016-5385).
/// - Content-Type and Content-Length have variables of their own, and Host is given before the
///   others.
fn variable_name<'b>(field: &[u8], buffer: &'b mut [u8; LONGEST_NAME]) -> Option<&'b [u8]> {
    const HIDDEN: [&[u8]; 4] = [b"proxy", b"content-type", b"content-length", b"host"];
    let name = buffer.get_mut(..PREFIX.len() + field.len())?;
    if HIDDEN.iter().any(|hidden| hidden.eq_ignore_ascii_case(field)) {
        return None;
    }
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut sound = true;
    for (place, &byte) in name[PREFIX.len()..].iter_mut().zip(field) {
        *place = NAME_BYTES[usize::from(byte)];
        sound &= *place != 0;
    }
    sound.then_some(name)
}

/// For each byte of a field's name, the byte in the variable's name; 0 for a byte that is not
/// allowed.
const NAME_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            table[byte as usize] = byte.to_ascii_uppercase();
        }
        byte += 1;
    }
    table[b'-' as usize] = b'_';
    table
};

fn with_number(number: u64, then: impl FnOnce(&[u8])) {
    // The formatting machinery of the standard library takes several times as long.
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number;
    while start == digits.len() || rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    then(&digits[start..]);
}

/// An IPv4 client of a socket for both families is written as IPv4, as Apache does.
fn with_address(address: IpAddr, then: impl FnOnce(&[u8])) {
    let mut buffer = [0; LONGEST_ADDRESS];
    let mut rest = &mut buffer[..];
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (number, octet) in address.octets().into_iter().enumerate() {
                let dot = if number > 0 { &b"."[..] } else { b"" };
                // Writing to a slice fails only where it is full, and the longest address fits.
                let _ = rest.write_all(dot);
                with_number(u64::from(octet), |digits| {
                    let _ = rest.write_all(digits);
                });
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(rest, "{address}");
        }
    }
    let left = rest.len();
    then(&buffer[..LONGEST_ADDRESS - left]);
}

/// Eight groups of four digits and their colons, or the mixed form.
const LONGEST_ADDRESS: usize = 45;

const PREFIX: &[u8] = b"HTTP_";

/// Longer field names are dropped. The longest registered one has 47 characters.
const LONGEST_NAME: usize = 256;

#[cfg(test)]
mod tests;
