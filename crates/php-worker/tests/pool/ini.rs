//! Ini values that requests bring along, one request after the other in the same worker.

use howdah_ipc::control::PoolSettings;

use crate::pool::{Pool, Site};

#[test]
fn each_request_has_its_own_ini_values_and_no_others() {
    // `user_agent` is merely copied by PHP, `precision` is not; scripts change one of them, or
    // restore it.
    let site = Site::new(&[(
        "a.php",
        "echo implode(' ', array_map('ini_get', ['user_agent', 'from', 'precision'])), '.';
         if (isset($_GET['set'])) ini_set($_GET['set'], str_repeat('9', 99));
         if (isset($_GET['restore'])) ini_restore($_GET['restore']);
         echo ini_get('user_agent');",
    )]);
    let ini = ["user_agent", "from", "precision"].map(|name| (name.to_owned(), "1".to_owned()));
    let mut pool = Pool::start(
        PoolSettings {
            ini: ini.into(),
            ..PoolSettings::default()
        },
        1,
    );
    let long = "x".repeat(2000);
    let agent = ("user_agent", "2".to_owned());
    let both = [agent.clone(), ("precision", "3".to_owned())];
    let twice = [agent.clone(), ("from", "4".to_owned()), ("user_agent", "5".to_owned())];
    let too_long = [agent.clone(), ("from", long.clone())];
    let agent = &[agent][..];
    let changed = "9".repeat(99);
    let long_page = format!("2 {long} 1.2");
    type Row<'r> = (&'r [(&'static str, String)], &'r str, &'r str);
    let rows: [Row; 19] = [
        (&[], "a.php", "1 1 1.1"),
        (agent, "a.php", "2 1 1.2"),
        (agent, "a.php?set=user_agent", &format!("2 1 1.{changed}")),
        (agent, "a.php?restore=user_agent", "2 1 1.1"),
        (agent, "a.php", "2 1 1.2"),
        (&[], "a.php", "1 1 1.1"),
        (&[], "a.php?set=user_agent", &format!("1 1 1.{changed}")),
        (&both, "a.php", "2 1 3.2"),
        (&both, "a.php?set=precision", "2 1 3.2"),
        (&both, "a.php", "2 1 3.2"),
        (agent, "a.php?set=user_agent", &format!("2 1 1.{changed}")),
        (&twice, "a.php", "5 4 1.5"),
        (&twice, "a.php?set=user_agent", &format!("5 4 1.{changed}")),
        (&twice, "a.php", "5 4 1.5"),
        (&too_long, "a.php?set=user_agent", &long_page.replace(".2", &format!(".{changed}"))),
        (&too_long, "a.php", &long_page),
        (&[], "a.php", "1 1 1.1"),
        (agent, "a.php?set=user_agent", &format!("2 1 1.{changed}")),
        (&[], "a.php", "1 1 1.1"),
    ];
    for (number, (ini, script, expected)) in rows.into_iter().enumerate() {
        pool.ini = ini.to_vec();
        assert_eq!(pool.get(&site, script).text(), expected, "request {number}: {script}");
    }
    assert_eq!(pool.stop(), "");
}

#[test]
fn what_a_request_does_not_set_a_user_ini_file_does() {
    let site = Site::new(&[("a.php", "echo ini_get('user_agent'), ini_get('from');")]);
    std::fs::write(site.root.join(".user.ini"), "user_agent=file\nfrom=file\n").unwrap();
    let mut pool = Pool::start(PoolSettings::default(), 1);
    let rows = [
        (Some("user_agent"), "rulefile"),
        (Some("from"), "filerule"),
        (Some("from"), "filerule"),
        (None, "filefile"),
        (Some("user_agent"), "rulefile"),
    ];
    for (name, expected) in rows {
        pool.ini = name.into_iter().map(|name| (name, "rule".to_owned())).collect();
        assert_eq!(pool.get(&site, "a.php").text(), expected);
    }
}
