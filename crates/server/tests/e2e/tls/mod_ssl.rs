//! The variables of encrypted connections, beside those of Apache's mod_ssl.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rcgen::{KeyPair, PKCS_RSA_SHA256};

use super::LISTEN;
use super::client::{self, Authority, TlsClient, Trust};
use crate::apache::Apache;
use crate::site::Site;
use crate::support::{Folder, has_php, wait_until};
use crate::wire::Wire;

const SCRIPT: &str = "<?php foreach ($_SERVER as $name => $value) \
    if (str_starts_with($name, 'SSL_')) echo \"$name=\", strtr($value, \"\\n\", '~'), \"\\n\";";

/// Rules that tell variables in a field.
const RULES: &str = "Header set X-Told \"%{SSL_SERVER_S_DN}s|%{SSL_SERVER_S_DN_CN_0}s|\
    %{SSL_SERVER_V_END}s|%{SSL_CLIENT_A_KEY}s|%{SSL_SERVER_A_SIG}s|%{SSL_SERVER_X}s\"\n\
    RewriteEngine on\n\
    RewriteRule ^ - [E=SEEN:%{SSL:SSL_SERVER_M_SERIAL}-%{SSL:SSL_CLIENT_S_DN_CN}]\n\
    Header set X-Seen %{SEEN}e\n\
    RewriteRule ^ - [E=OTHER:%{SSL:SSL_CLIENT_SAN_OTHER_msUPN_1}|\
    %{SSL:SSL_CLIENT_SAN_OTHER_msUPN_2}|%{SSL:SSL_CLIENT_SAN_OTHER_dnsSRV_0}|\
    %{SSL:SSL_SERVER_SAN_OTHER_msUPN_0}|%{SSL:SSL_SERVER_SAN_OTHER_dnsSRV_0}]\n\
    Header set X-Other %{OTHER}e\n";

/// The variables that a server tells the script in `folder`, and the fields that rules have set.
fn told(
    client: &mut TlsClient,
    address: SocketAddr,
    folder: &str,
) -> (BTreeMap<String, String>, Vec<String>) {
    let reply = client.connect(address, "a.example").get(&format!("/{folder}/all.php"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let pairs = reply.text().lines().map(|line| line.split_once('=').expect("a pair"));
    let all = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let field = |name| reply.field(name).unwrap_or("-").to_owned();
    (all, vec![field("x-told"), field("x-seen"), field("x-other")])
}

/// The same files on Howdah and on Apache, with the certificates in `folder`. `verify` says
/// whether clients have to show one, in the word of both configurations.
fn both(folder: &Folder, verify: &str, files: &[(&str, &str)]) -> (Site, Apache) {
    let at = folder.path().display();
    let site = Site::configured(
        files,
        &format!(
            "{LISTEN}[[site]]\nname = \"a\"\nhosts = [\"a.example\"]\nroot = \"public\"\n\
             access_log = \"a.log\"\naccess_log_format = \"{WORDS}\"\n\
             tls = {{ cert = \"{at}/a.pem\", key = \"{at}/a.key\", client_ca = \"{at}/ca.pem\", \
             client_verify = \"{verify}\" }}\n\
             [site.php]\nworkers = 1\nstate_dir = \"state\"\n"
        ),
    );
    let apache = Apache::with(
        &site.path().join("apache"),
        &site.path().join("public"),
        &["socache_shmcb", "ssl"],
        &format!(
            "SSLEngine on\nSSLCertificateFile {at}/a.pem\nSSLCertificateKeyFile {at}/a.key\n\
             SSLCACertificateFile {at}/ca.pem\nSSLVerifyClient {verify}\n"
        ),
    );
    (site, apache)
}

#[test]
fn scripts_see_the_variables_that_mod_ssl_gives() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let authority = Authority::new();
    let rsa = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let pair = authority.certify_detailed(&["a.example", "*.a.example"], rsa);
    let folder = client::files(&[("a", &pair)]);
    folder.file("ca.pem", authority.pem());
    let (site, apache) = both(
        &folder,
        "require",
        &[
            (".htaccess", RULES),
            ("all/all.php", SCRIPT),
            ("all/.htaccess", "SSLOptions +StdEnvVars\n"),
            ("none/all.php", SCRIPT),
            ("none/.htaccess", "SSLOptions -StdEnvVars\n"),
            ("plain/all.php", SCRIPT),
        ],
    );
    let addresses = [site.server.addresses()[1], apache.address()];
    let visitor = authority.certify_detailed(&["visitor.example"], KeyPair::generate().unwrap());
    let mut client = TlsClient::showing(&authority, &visitor);

    let [mut own, mut theirs] = addresses.map(|address| told(&mut client, address, "all"));
    assert_eq!(own.1, theirs.1);
    assert!(own.1[2].starts_with("bob@corp.example||"), "{:?}", own.1);
    assert_eq!(own.0["SSL_CLIENT_SAN_OTHER_msUPN_0"], "änne@corp.example");
    assert_eq!(own.0["SSL_SERVER_SAN_OTHER_dnsSRV_0"], "_https.a.example");
    // The numbers are random, and the versions are each server's own.
    for name in ["SSL_SESSION_ID", "SSL_VERSION_INTERFACE", "SSL_VERSION_LIBRARY"] {
        let [own, theirs] = [&mut own, &mut theirs].map(|told| told.0.remove(name).expect(name));
        let is_one_word = |value: &str| !value.is_empty() && !value.contains(' ');
        assert!(is_one_word(&own) && is_one_word(&theirs), "{name}: {own}, {theirs}");
        let form = |id: &str| (id.len(), id.bytes().any(|byte| byte.is_ascii_uppercase()));
        assert!(name != "SSL_SESSION_ID" || form(&own) == form(&theirs), "{own}, {theirs}");
    }
    // Midnight may come between the requests.
    let [days, expected] = [&mut own, &mut theirs]
        .map(|told| told.0.remove("SSL_CLIENT_V_REMAIN").expect("days").parse::<i64>().unwrap());
    assert!((expected..=expected + 1).contains(&days), "{days}, {expected}");
    assert_eq!(own.0, theirs.0);

    let [own, theirs] = addresses.map(|address| told(&mut client, address, "none").0);
    assert_eq!(own, theirs, "those of a connection without the option");
    // Debian's Apache has the option for scripts: without a word about it they get most of them.
    let (own, _) = told(&mut client, addresses[0], "plain");
    assert_eq!(own["SSL_CLIENT_S_DN_CN"], "a.example");
    assert!(own.contains_key("SSL_PROTOCOL") && !own.contains_key("SSL_SERVER_S_DN"), "{own:?}");
}

/// The format of the log of [`both`].
const WORDS: &str = "%{SSL_CLIENT_S_DN_Email}x %{SSL_SERVER_SAN_Email_0}x";

/// Names with small letters, in every place where rules name variables.
const SMALL_LETTERS: &str = "SetEnvIfExpr \"%{SSL_CLIENT_S_DN_Email} == 'web@a.example'\" MAIL\n\
    SetEnvIfExpr \"%{SSL_CLIENT_SAN_Email_0} == 'web@a.example'\" SAN\n\
    Header set X-Seen \"%{MAIL}e|%{SAN}e|%{SEEN}e\"\n\
    RewriteEngine on\n\
    RewriteCond %{SSL:SSL_CLIENT_S_DN_Email}|%{SSL:SSL_SERVER_S_DN_Email_0} ^(.*)$\n\
    RewriteRule ^ - [E=SEEN:%1]\n\
    Header set X-Told \"%{SSL_CLIENT_S_DN_Email}s|%{SSL_SERVER_SAN_Email_0}s|%{ssl_server_v_end}s\"\n";

#[test]
fn rules_and_logs_see_variables_with_small_letters_in_their_names() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let authority = Authority::new();
    let detailed = |name: &str| authority.certify_detailed(&[name], KeyPair::generate().unwrap());
    let folder = client::files(&[("a", &detailed("a.example"))]);
    folder.file("ca.pem", authority.pem());
    let demanding = |mail: &str| {
        format!("Require expr \"%{{SSL_CLIENT_S_DN_Email}} {mail} 'web@a.example'\"\n")
    };
    let (granted, refused) = (demanding("=="), demanding("!="));
    let (site, apache) = both(
        &folder,
        "require",
        &[
            (".htaccess", SMALL_LETTERS),
            ("all/all.php", SCRIPT),
            ("granted/.htaccess", &granted),
            ("granted/a.txt", "x"),
            ("refused/.htaccess", &refused),
            ("refused/a.txt", "x"),
        ],
    );
    let visitor = detailed("visitor.example");
    let mut client = TlsClient::showing(&authority, &visitor);
    let [own, theirs] = [site.server.addresses()[1], apache.address()].map(|address| {
        let (_, fields) = told(&mut client, address, "all");
        let status = |target| client.connect(address, "a.example").get(target).status;
        (fields, ["/granted/a.txt", "/refused/a.txt"].map(status))
    });
    assert_eq!(own, theirs);
    assert_eq!(own.1, [200, 403]);
    assert_eq!(own.0[1], "1|1|web@a.example|web@a.example");
    wait_until("it is logged", || {
        std::fs::read_to_string(site.path().join("a.log"))
            .unwrap_or_default()
            .contains("web@a.example web@a.example\n")
    });
}

/// Rules that ask mod_ssl for what has nothing to do with TLS.
const LOOK_UPS: &str = "Header set X-Told \"%{HTTPS}s|%{SSL_PROTOCOL}s|%{REQUEST_METHOD}s|\
    %{request_uri}s|%{HTTP_USER_AGENT}s|%{HTTP:X-Two}s|%{ENV:SET}s|%{QUERY_STRING}s|%{NONE}s\"\n\
    Header set X-Function \"expr=%{ssl:HTTPS}|%{ssl:REQUEST_METHOD}\"\n\
    SetEnvIf Request_URI . SET=yes\nRewriteEngine on\n\
    RewriteCond %{SSL:REQUEST_METHOD}|%{SSL:SSL_PROTOCOL}|%{SSL:HTTPS} ^(.*)$\n\
    RewriteRule ^ - [E=SEEN:%1]\nHeader set X-Seen %{SEEN}e\n";

#[test]
fn rules_look_up_without_tls_what_mod_ssl_knows_without_it() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let site = Site::new(&[(".htaccess", LOOK_UPS), ("a.txt", "text")]);
    let root = site.root();
    let modules = ["socache_shmcb", "ssl"];
    let apache = Apache::with(&site.path().join("apache"), &root, &modules, "");
    for (target, method) in [("/a.txt?x=1", "GET"), ("/a.txt", "HEAD")] {
        let [own, theirs] = [site.server.address(), apache.address()].map(|address| {
            let fields = [("User-Agent", "Bot/1"), ("X-Two", "b")];
            let reply = Wire::connect(address).ask(method, target, &fields, b"");
            let names = ["x-told", "x-function", "x-seen"];
            names.map(|name| reply.field(name).unwrap_or("-").to_owned())
        });
        assert_eq!(own, theirs, "{method} {target}");
        assert!(own[0].starts_with("off|(null)|"), "{own:?}");
    }
}

#[test]
fn scripts_see_the_name_of_the_server_behind_an_internal_redirect() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify_rsa(&["a.example"]))]);
    folder.file("ca.pem", authority.pem());
    let script = "<?php foreach ($_SERVER as $name => $value) \
        if (preg_match('/^REDIRECT_.*(SNI|HTTPS)/', $name)) echo \"$name=$value\\n\";";
    let rules = "RewriteEngine on\nRewriteRule ^go$ all.php\n";
    let (site, apache) =
        both(&folder, "optional", &[("way/.htaccess", rules), ("way/all.php", script)]);
    let [own, theirs] = [site.server.addresses()[1], apache.address()].map(|address| {
        let mut client = authority.client(Trust::Tls13);
        let reply = client.connect(address, "a.example").get("/way/go");
        let mut lines: Vec<String> = reply.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    });
    assert_eq!(own, theirs);
    assert_eq!(own, ["REDIRECT_HTTPS=on", "REDIRECT_SSL_TLS_SNI=a.example"]);
}

#[test]
fn scripts_get_whole_certificates_where_a_directive_says_so() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let authority = Authority::new();
    let pair = authority.certify_rsa(&["a.example"]);
    let folder = client::files(&[("a", &pair)]);
    folder.file("ca.pem", authority.pem());
    // An option without a sign takes the place of the others. Rules see the certificates always.
    let rules = "Header set X-Told \"%{SSL_SERVER_CERT}s\"\n\
        Header set X-Seen \"%{SSL_CLIENT_CERT}s\"\n";
    let folders = [
        ("added", "SSLOptions +ExportCertData\n"),
        ("alone", "SSLOptions ExportCertData\n"),
        ("both", "SSLOptions +StdEnvVars +ExportCertData\n"),
        ("removed", "SSLOptions +ExportCertData\nSSLOptions -ExportCertData\n"),
        ("replaced", "SSLOptions +ExportCertData\nSSLOptions StdEnvVars\n"),
    ];
    let mut files = vec![(".htaccess".to_owned(), rules)];
    for (name, options) in folders {
        files.push((format!("{name}/all.php"), SCRIPT));
        files.push((format!("{name}/.htaccess"), options));
    }
    let files: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    let (site, apache) = both(&folder, "optional", &files);
    let addresses = [site.server.addresses()[1], apache.address()];
    let visitor = authority.certify_client("ann");
    // Without options, scripts get some variables here and none there.
    let is_compared = |folder: &str, name: &str| {
        let is_chosen = matches!(folder, "alone" | "both" | "replaced");
        let is_own = ["SSL_SESSION_ID", "SSL_CLIENT_V_REMAIN"].contains(&name)
            || name.starts_with("SSL_VERSION_");
        !is_own && (is_chosen || name.ends_with("_CERT") || name.contains("_CERT_CHAIN_"))
    };
    for (name, _) in folders {
        for shows in [false, true] {
            // Each time a full handshake: Apache forgets the chain in a session that is continued.
            let [own, theirs] = addresses.map(|address| {
                let mut client = match shows {
                    true => TlsClient::showing_chain(&authority, &visitor),
                    false => authority.client(Trust::Tls13),
                };
                let (mut variables, fields) = told(&mut client, address, name);
                variables.retain(|variable, _| is_compared(name, variable));
                (variables, fields)
            });
            assert_eq!(own, theirs, "{name} {shows}");
            let has = ["SSL_SERVER_CERT", "SSL_CLIENT_CERT", "SSL_CLIENT_CERT_CHAIN_0"]
                .map(|variable| own.0.get(variable).is_some_and(|value| value.contains("BEGIN")));
            let exports = ["added", "alone", "both"].contains(&name);
            assert_eq!(has, [exports, exports && shows, exports && shows], "{name} {shows}");
        }
    }
}
