use howdah_http::ScriptVariables;

use crate::phases::access::tests::{USERS_OF, run};
use crate::testing::try_settings;

#[test]
fn unencrypted_connections_are_forbidden() {
    let any = format!("{USERS_OF}Satisfy Any\nRequire valid-user\nSSLRequireSSL");
    let strict = format!("{any}\nSSLOptions +StrictRequire");
    run(&[
        ("SSLRequireSSL", &[("GET", 403), ("GET https", 200)]),
        ("SSLRequireSSL\n--\nRequire all granted", &[("GET", 403), ("GET https", 200)]),
        ("SSLOptions +StdEnvVars", &[("GET", 200)]),
        (&any, &[("GET", 401), ("GET ann:secret", 200), ("GET https", 200)]),
        (&strict, &[("GET", 403), ("GET ann:secret", 403), ("GET https", 200)]),
        (&format!("SSLOptions +StrictRequire\n--\n{any}"), &[("GET ann:secret", 403)]),
        (&format!("{strict}\n--\nSSLOptions +StdEnvVars"), &[("GET ann:secret", 403)]),
        (&format!("{strict}\n--\nSSLOptions -StrictRequire"), &[("GET ann:secret", 200)]),
        (&format!("{strict}\nSSLOptions StdEnvVars"), &[("GET ann:secret", 200)]),
        (&strict, &[("GET https ann:secret", 200)]),
        (
            &format!("{USERS_OF}SSLOptions +StrictRequire\nRequire valid-user"),
            &[("GET", 401), ("GET ann:secret", 200), ("GET https ann:secret", 200)],
        ),
    ]);
}

#[test]
fn options_that_are_none() {
    assert!(try_settings("SSLOptions +Strict").expect_err("none").message.contains("Strict"));
    assert!(try_settings("SSLOptions -FakeBasicAuth").expect("it is off").refused.is_none());
}

#[test]
fn an_option_without_a_sign_takes_the_place_of_the_others() {
    use ScriptVariables::{All, ServerName};
    for (text, variables, certificates) in [
        ("SSLOptions +ExportCertData", None, true),
        ("SSLOptions ExportCertData", Some(ServerName), true),
        ("SSLOptions +StdEnvVars +ExportCertData", Some(All), true),
        ("SSLOptions ExportCertData StdEnvVars", Some(All), false),
        ("SSLOptions +StdEnvVars\nSSLOptions ExportCertData", Some(ServerName), true),
        ("SSLOptions +ExportCertData +StdEnvVars -ExportCertData", Some(All), false),
        ("SSLOptions StrictRequire", Some(ServerName), false),
    ] {
        let settings = try_settings(text).unwrap();
        let ssl = settings.ssl.as_ref().unwrap();
        assert_eq!(
            (ssl.script_variables(), ssl.exports_certificates()),
            (variables, certificates),
            "{text}"
        );
    }
}
