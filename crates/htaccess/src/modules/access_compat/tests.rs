use crate::phases::access::tests::{USERS_OF, run};
use crate::testing::try_settings;

#[test]
fn orders() {
    run(&[
        ("Order allow,deny", &[("GET", 403)]),
        ("Order deny,allow", &[("GET", 200)]),
        ("Order mutual-failure", &[("GET", 403)]),
        ("Order Allow,Deny\nAllow from all", &[("GET", 200)]),
        ("Order allow,deny\nAllow from all\nDeny from env=e", &[("GET", 200), ("GET e=1", 403)]),
        ("Order deny,allow\nDeny from all\nAllow from env=e", &[("GET", 403), ("GET e=1", 200)]),
        (
            "Order mutual-failure\nAllow from all\nDeny from env=e",
            &[("GET", 200), ("GET e=1", 403)],
        ),
        ("Deny from all", &[("GET", 403)]),
        ("Deny from all\nAllow from all", &[("GET", 200)]),
        ("Order allow,deny\nOrder deny,allow", &[("GET", 200)]),
    ]);
}

#[test]
fn clients() {
    run(&[
        ("Order allow,deny\nAllow from 192.0.2.1", &[("GET", 200), ("GET @192.0.2.2", 403)]),
        ("Order allow,deny\nAllow from 192.0", &[("GET", 200), ("GET @192.1.2.2", 403)]),
        ("Order allow,deny\nAllow from 192.0.2.", &[("GET", 200)]),
        (
            "Order allow,deny\nAllow from 192.0.0.0/255.255.0.0",
            &[("GET", 200), ("GET @192.1.0.1", 403)],
        ),
        (
            "Order allow,deny\nAllow from 10.0.0.0/8 2001:db8::/32",
            &[("GET", 403), ("GET @10.1.1.1", 200), ("GET @2001:db8::1", 200)],
        ),
        ("Order allow,deny\nAllow from example.org", &[("GET", 200), ("GET @192.0.2.9", 403)]),
        ("Order allow,deny\nAllow from ample.org", &[("GET", 403)]),
        ("Order allow,deny\nALLOW FROM ALL", &[("GET", 200)]),
        ("Order allow,deny\nAllow from env=e", &[("GET", 403), ("GET e=1", 200), ("GET E=1", 200)]),
        ("Order allow,deny\nAllow from ENV=!e", &[("GET", 200), ("GET e=1", 403)]),
    ]);
}

#[test]
fn methods_have_their_own_order() {
    run(&[
        ("<Limit POST>\nDeny from all\n</Limit>", &[("GET", 200), ("POST", 403), ("FOO", 200)]),
        (
            "<LimitExcept GET>\nOrder allow,deny\n</LimitExcept>",
            &[("GET", 200), ("HEAD", 200), ("POST", 403), ("FOO", 403)],
        ),
        (
            "Order allow,deny\nAllow from all\n<Limit POST>\nOrder deny,allow\nDeny from all\n\
             </Limit>",
            &[("GET", 200), ("POST", 200)],
        ),
        (
            "<Limit POST>\nOrder deny,allow\n</Limit>\nOrder allow,deny\n<Limit PUT>\n\
             Order deny,allow\n</Limit>",
            &[("GET", 403), ("POST", 403), ("PUT", 200)],
        ),
    ]);
}

#[test]
fn a_folder_forgets_what_is_said_above_it() {
    run(&[
        ("Order allow,deny\nDeny from all\n--\nDirectoryIndex x", &[("GET", 403)]),
        ("Order allow,deny\nDeny from all\n--\nOrder deny,allow", &[("GET", 200)]),
        ("Deny from all\n--\nSatisfy All", &[("GET", 200)]),
        ("Deny from env=e\n--\nDeny from all", &[("GET", 403)]),
        ("Deny from all\n--\nAllow from 10.0.0.1", &[("GET", 200)]),
    ]);
}

#[test]
fn address_and_user_or_one_of_them() {
    let require = format!("{USERS_OF}Require valid-user\n");
    let all = format!("{require}Order deny,allow\nDeny from env=e");
    let any = format!("{all}\nSatisfy Any");
    let open = format!("{require}Satisfy Any");
    let post_only = format!("{all}\n<Limit POST>\nSatisfy Any\n</Limit>");
    let not_post = format!("{any}\n<Limit POST>\nSatisfy All\n</Limit>");
    run(&[
        (
            &all,
            &[("GET", 401), ("GET e=1", 403), ("GET e=1 ann:secret", 403), ("GET ann:secret", 200)],
        ),
        (&any, &[("GET", 200), ("GET e=1", 401), ("GET e=1 ann:secret", 200)]),
        (&open, &[("GET", 200)]),
        (&format!("{open}\nSatisfy Any"), &[("GET", 200)]),
        (&post_only, &[("GET", 401), ("POST", 200), ("POST e=1", 401)]),
        (&not_post, &[("GET", 200), ("POST", 401), ("POST e=1", 403)]),
        ("Satisfy Any\nOrder allow,deny\nRequire all granted", &[("GET", 200)]),
        ("Satisfy Any\nOrder allow,deny\nRequire all denied", &[("GET", 403)]),
    ]);
}

#[test]
fn what_apache_does_not_take() {
    for (text, part) in [
        ("Order allow, deny", "one argument"),
        ("Order deny", "Order is"),
        ("Allow all", "two arguments"),
        ("Deny from", "two arguments"),
        ("Deny to all", "\"from\""),
        ("Deny from 10/8", "neither an address"),
        ("Deny from 10.0.0.0/33", "neither an address"),
        ("Deny from 300.1.2.3", "neither an address"),
        ("Deny from ::ffff:1.2.3.4", "neither an address"),
        ("Deny from x/8", "no address before"),
        ("Deny from a#b", "comment"),
        ("Satisfy Both", "All or Any"),
    ] {
        let complaint = try_settings(text).expect_err(text);
        assert!(complaint.message.contains(part), "{text}: {complaint:?}");
    }
}
