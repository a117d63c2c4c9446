//! Lanes of a site's pool: which one a request waits in.

use howdah_config::settings::Lane;
use howdah_htaccess::ClientRequest;
use howdah_http::Request;

use crate::normal::normalize;
use crate::sites::Site;

impl Site {
    /// Returns whether the site's pool has lanes.
    #[inline]
    pub fn has_lanes(&self) -> bool {
        self.config().php.as_ref().is_some_and(|php| !php.lanes.is_empty())
    }

    /// Returns the number of the first lane that the request fits, from 1; 0 for none.
    pub fn lane(&self, client: &ClientRequest<'_>) -> usize {
        let Some(php) = &self.config().php else {
            return 0;
        };
        let mut path = vec![b'/'];
        // A path that has no normal form is not served.
        if let Ok(shape) = normalize(client.request().path(), self.encoded_slashes(), &mut path)
            && shape.slash
            && path.len() > 1
        {
            path.push(b'/');
        }
        let fits = php.lanes.iter().position(|lane| fits(lane, client, &path));
        fits.map_or(0, |number| number + 1)
    }

    /// Returns the name of a lane that [`Site::lane`] has found; `None` for 0.
    pub fn lane_name(&self, lane: usize) -> Option<&str> {
        let lanes = &self.config().php.as_ref()?.lanes;
        Some(&lanes.get(lane.checked_sub(1)?)?.name)
    }
}

fn fits(lane: &Lane, client: &ClientRequest<'_>, path: &[u8]) -> bool {
    let request = client.request();
    let either = |given: &[String], fits: &dyn Fn(&str) -> bool| {
        given.is_empty() || given.iter().any(|one| fits(one))
    };
    either(&lane.path, &|glob| matches(glob.as_bytes(), path))
        && either(&lane.method, &|method| method == request.method.as_str())
        && either(&lane.parameter, &|glob| has_parameter(request, glob.as_bytes()))
        && either(&lane.cookie, &|glob| has_cookie(request, glob.as_bytes()))
        && either(&lane.user_agent, &|glob| has_user_agent(request, glob))
        && (lane.address.is_empty() || lane.address.contains(client.remote().ip()))
}

fn has_parameter(request: &Request, glob: &[u8]) -> bool {
    let mut parameters = request.query().unwrap_or_default().split(|byte| *byte == b'&');
    parameters.any(|parameter| is_named(glob, &decoded(parameter)))
}

fn has_cookie(request: &Request, glob: &[u8]) -> bool {
    let lines = request.fields.values(b"cookie");
    let mut cookies = lines.flat_map(|line| line.split(|byte| *byte == b';'));
    cookies.any(|cookie| is_named(glob, cookie.trim_ascii()))
}

fn has_user_agent(request: &Request, glob: &str) -> bool {
    let agent = request.fields.value(b"user-agent").unwrap_or_default();
    matches(glob.to_ascii_lowercase().as_bytes(), &agent.to_ascii_lowercase())
}

/// Returns whether `pair`, as `NAME=VALUE`, fits a pattern `NAME` or `NAME=VALUE`.
fn is_named(glob: &[u8], pair: &[u8]) -> bool {
    if glob.contains(&b'=') {
        return matches(glob, pair);
    }
    matches(glob, pair.split(|byte| *byte == b'=').next().unwrap_or_default())
}

/// Decodes a parameter as PHP does: `+` is a space, and a broken escape stays as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        decoded.push(match (byte, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                rest = &after[2..];
                (high << 4 | low) as u8
            }
            (b'+', ..) => b' ',
            _ => *byte,
        });
    }
    decoded
}

/// Returns whether the whole text fits a pattern: `*` stands for any bytes, `?` for one. Takes at
/// most pattern times text steps: only the last `*` is ever tried again.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The byte of the pattern behind the last `*`, and where the text behind it begins.
    let mut retry = None;
    while from < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, from));
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((behind, tried)) = retry else {
                    return false;
                };
                (at, from) = (behind, tried + 1);
                retry = Some((behind, tried + 1));
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use howdah_config::Config;

    use super::*;
    use crate::Sites;

    #[test]
    fn patterns() {
        for (glob, text, fits) in [
            ("/search", "/search", true),
            ("/search", "/search/", false),
            ("/search*", "/search/a/b", true),
            ("/a/*/c", "/a/b/x/c", true),
            ("/a/*/c", "/a/c", false),
            ("*bot*", "a robot 1", true),
            ("*a*b", "aabab", true),
            ("*a*b", "aaba", false),
            ("/?", "/x", true),
            ("/?", "/", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), text.as_bytes()), fits, "{glob} {text}");
        }
    }

    /// Returns the lane of a request of a site with these lanes, given as inline tables.
    fn lane(lanes: &str, target: &str, fields: &[(&str, &str)]) -> usize {
        let text = format!("[[site]]\nroot = \"/srv\"\n[site.php]\nlane = [{lanes}]\n");
        let config = Config::parse(&text, "test.toml").unwrap();
        let sites = Sites::compile(&config);
        let mut request = Request {
            target: target.into(),
            ..Request::default()
        };
        for (name, value) in fields {
            request.fields.push(name.as_bytes(), value.as_bytes());
        }
        let address = "192.0.2.7:1000".parse().unwrap();
        let site = sites.iter().next().unwrap();
        assert!(site.has_lanes());
        site.lane(&ClientRequest::new(&request, address, address, 0))
    }

    #[test]
    fn a_request_belongs_to_the_first_lane_that_fits() {
        let lanes = "{ name = 'a', path = ['/search', '/find/*'] }, { name = 'b', path = '/s*' }";
        for (target, number) in [
            ("/search", 1),
            ("/search?q=1", 1),
            ("//se%61rch", 1),
            ("/x/../search", 1),
            ("/find/", 1),
            ("/search/", 2),
            ("/", 0),
        ] {
            assert_eq!(lane(lanes, target, &[]), number, "{target}");
        }
    }

    #[test]
    fn a_lane_that_was_found_has_a_name() {
        let text = "[[site]]\nroot = \"/srv\"\n[site.php]\n\
             lane = [{ name = \"a\", path = \"/a\" }, { name = \"b\", path = \"/b\" }]\n";
        let sites = Sites::compile(&Config::parse(text, "test.toml").unwrap());
        let site = sites.iter().next().unwrap();
        let names = [0, 1, 2, 3].map(|lane| site.lane_name(lane));
        assert_eq!(names, [None, Some("a"), Some("b"), None]);
    }

    #[test]
    fn the_root_is_a_path_and_a_site_may_have_no_lane() {
        assert_eq!(lane("{ name = 'a', path = '/' }", "/", &[]), 1);
        assert_eq!(lane("{ name = 'a', path = '/x/' }", "/x/", &[]), 1);
        let config = Config::parse("[[site]]\nroot = \"/srv\"\n", "test.toml").unwrap();
        assert!(!Sites::compile(&config).iter().next().unwrap().has_lanes());
    }

    #[test]
    fn every_key_of_a_lane_must_fit() {
        let both = "{ name = 'a', path = '/a', cookie = 'role=guest*' }";
        let guest = [("Cookie", "x=1; role=guest7"), ("Cookie", "y=1")];
        assert_eq!(lane(both, "/a", &guest), 1);
        assert_eq!(lane(both, "/b", &guest), 0);
        assert_eq!(lane(both, "/a", &[("Cookie", "role=admin; xrole=guest")]), 0);
        assert_eq!(lane("{ name = 'a', method = ['POST', 'PUT'] }", "/a", &[]), 0);
        assert_eq!(lane("{ name = 'a', method = ['POST', 'GET'] }", "/a", &[]), 1);
    }

    #[test]
    fn parameters_agents_and_addresses() {
        let search = "{ name = 'a', parameter = ['s', 'page=5*', 'q=a+b'] }";
        for (target, number) in [
            ("/?s=word", 1),
            ("/?x=1&%73=", 1),
            ("/?page=55", 1),
            ("/?page=4", 0),
            // A plus stands for a space.
            ("/?q=a+b", 0),
            ("/?q=a%2Bb", 1),
            ("/?ss=1", 0),
            ("/", 0),
        ] {
            assert_eq!(lane(search, target, &[]), number, "{target}");
        }
        let agent = "{ name = 'a', user_agent = '*Bot*' }";
        assert_eq!(lane(agent, "/", &[("User-Agent", "a crawlbot/1.0")]), 1);
        assert_eq!(lane(agent, "/", &[]), 0);
        assert_eq!(lane("{ name = 'a', address = '192.0.2.0/24' }", "/", &[]), 1);
        assert_eq!(lane("{ name = 'a', address = ['192.0.3.0/24', '::1'] }", "/", &[]), 0);
    }
}
