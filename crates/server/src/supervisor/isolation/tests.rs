use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use howdah_config::Config;
use howdah_sys::process;
use howdah_sys::seccomp;

use super::super::survey::paths_of;
use super::*;

fn machine() -> IsolationAbilities {
    IsolationAbilities {
        landlock: Some(Landlock { abi: 6 }),
        seccomp: true,
        mounts: Ok(()),
        shared_memory: Ok(()),
        shared_memory_limits: Ok(()),
        as_root: true,
    }
}

fn config(text: &str) -> Config {
    Config::parse(text, "/howdah.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The isolation of the first site's pool, and what is said about it.
fn plan(config: &Config, abilities: &IsolationAbilities) -> (PoolIsolation, Vec<String>) {
    let states: Vec<_> = config
        .sites
        .iter()
        .map(|site| Some(PathBuf::from(format!("/var/lib/howdah/{}", site.name))))
        .collect();
    let answers = SurveyAnswers::ask(&paths_of(config, &states));
    let paths = PoolPaths {
        program: Path::new("/usr/bin/howdah-php"),
        state: states[0].as_deref().unwrap(),
        states: &states,
        answers: &answers,
        ini_folders: &[],
    };
    let mut notices = abilities.notices(config);
    let php = config.sites[0].php.as_ref().unwrap();
    let isolation = PoolIsolation::plan((config, 0), php, &paths, abilities, &mut notices);
    (isolation, notices)
}

const SITE: &str = "[[site]]\nname = \"shop\"\nroot = \"/srv/shop/public\"\n[site.php]\n";

#[test]
fn a_machine_with_everything_needs_no_notice() {
    let (isolation, notices) = plan(&config(SITE), &machine());
    assert_eq!(notices, [""; 0]);
    assert_eq!(
        isolation.summary(),
        "sandbox standard (Landlock 6, seccomp), no new privileges, private /tmp, private shared \
         memory, hidden processes"
    );
    assert!(isolation.is_opaque() && !isolation.separates_workers());
}

/// Each row: lines of `[site.php]`, what the machine lacks, the summary, and a part of a notice.
#[test]
fn what_cannot_be_had_is_said() {
    let full = machine();
    let none = IsolationAbilities {
        landlock: None,
        seccomp: false,
        ..machine()
    };
    let old = IsolationAbilities {
        landlock: Some(Landlock { abi: 3 }),
        ..machine()
    };
    let unlimited = IsolationAbilities {
        shared_memory_limits: Err("read-only".to_owned()),
        ..machine()
    };
    let ordinary = IsolationAbilities {
        mounts: Err("the server was not started as root".to_owned()),
        shared_memory: Err("the server was not started as root".to_owned()),
        shared_memory_limits: Err("the server was not started as root".to_owned()),
        as_root: false,
        ..machine()
    };
    let rows = [
        ("", &none, "sandbox standard (not enforced), no new", "this kernel has no Landlock"),
        ("", &none, "sandbox standard (not enforced), no new", "no seccomp filters"),
        ("", &old, "sandbox standard (Landlock 3, seccomp)", "signals"),
        ("", &ordinary, "shared /tmp, common shared memory, visible", "was not started as root"),
        ("", &ordinary, "common shared memory", "`private_ipc`): the server was not started"),
        ("private_ipc = false", &full, "common shared memory, hidden", ""),
        ("", &unlimited, "private shared memory", "has no limit (`shm_size`): read-only"),
        (
            "no_new_privs = false",
            &ordinary,
            "sandbox standard (not enforced), new privileges",
            "site shop: no sandbox",
        ),
        (
            "connect = [\"127.0.0.1:3306\"]",
            &full,
            "sandbox standard",
            "allows port 3306 of every address",
        ),
        ("connect = [\"*:443\"]", &old, "sandbox standard", "allows all TCP ports"),
        (
            "readable = [\"/tmp/shared\"]",
            &full,
            "shared /tmp, private shared memory, hidden",
            "site shop shares /tmp and /var/tmp with other users, because its /tmp/shared",
        ),
    ];
    for (lines, abilities, summary, notice) in rows {
        let (isolation, notices) = plan(&config(&format!("{SITE}{lines}\n")), abilities);
        let told = isolation.summary();
        assert!(told.contains(summary), "{lines}: {told}");
        assert!(
            notice.is_empty() || notices.iter().any(|told| told.contains(notice)),
            "{lines}: {notices:?}"
        );
    }
}

#[test]
fn core_dumps_need_processes_that_can_be_looked_into() {
    let (isolation, _) =
        plan(&config(&format!("{SITE}rlimits = {{ core = \"1G\" }}\n")), &machine());
    assert!(!isolation.is_opaque());
    let (isolation, _) = plan(&config(&format!("{SITE}sandbox = \"off\"\n")), &machine());
    assert!(!isolation.is_opaque());
    let (isolation, _) = plan(&config(&format!("{SITE}sandbox = \"strict\"\n")), &machine());
    assert!(isolation.separates_workers());
}

/// A new folder with these folders below it. It is in no folder for temporary files, because every
/// pool and the front may write there. `None`: no other place may be written.
fn tree(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    let beside_test = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [Some(beside_test), Some("/srv".into()), std::env::home_dir()];
    let top = places
        .into_iter()
        .flatten()
        .filter(|place| !temporary.iter().any(|temporary| place.starts_with(temporary)))
        .map(|place| place.join(format!("howdah-test-{name}-{}", std::process::id())))
        .find(|top| fs::create_dir_all(top).is_ok());
    let Some(top) = top else {
        howdah_skip::skip!("only folders for temporary files can be written");
        return None;
    };
    for folder in folders {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    Some(top)
}

/// The paths below `top` that the first of these sites may reach.
fn reached(top: &Path, roots: &[&str]) -> BTreeSet<String> {
    let text: String = roots
        .iter()
        .enumerate()
        .map(|(number, root)| {
            format!(
                "[[site]]\nname = \"s{number}\"\nhosts = [\"s{number}.example\"]\n\
                 root = \"{}/{root}\"\n",
                top.display()
            )
        })
        .collect();
    let (isolation, _) = plan(&config(&text), &machine());
    let rules = isolation.reach.rules(&mut Ruleset::new(Landlock { abi: 6 }));
    let below = rules.iter().filter_map(|(path, _)| path.strip_prefix(top).ok());
    below.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_site_reaches_all_but_the_folders_of_others() {
    let Some(top) = tree(
        "reach",
        &[
            "one/public",
            "one/src",
            "two/public",
            "two/src",
            "shared",
            "big/three",
            "big/other",
            "big/one",
        ],
    ) else {
        return;
    };
    let set = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect::<BTreeSet<_>>();
    // Nobody else: everything, with no rule of its own.
    assert_eq!(reached(&top, &["one/public"]), set(&["one", "one/public"]));
    assert_eq!(
        reached(&top, &["one/public", "two/public"]),
        set(&["one", "one/public", "shared", "big"])
    );
    // Of a folder with several sites only their own folders are closed.
    assert_eq!(
        reached(&top, &["one/public", "big/three", "big/one"]),
        set(&["one", "one/public", "shared", "two", "big/other"])
    );
    // A site within another: the inner one does not reach the outer one, which has it inside.
    let beside = ["one", "two", "shared"];
    assert_eq!(reached(&top, &["big/one", "big"]), set(&[&beside[..], &["big/one"]].concat()));
    assert_eq!(reached(&top, &["big", "big/one"]), set(&["big"]));
    // The same code for two sites.
    assert!(reached(&top, &["one/public", "one/public"]).contains("one/public"));
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn links_lead_to_where_their_targets_belong() {
    let Some(top) = tree("links", &["one", "two", "plain"]) else {
        return;
    };
    std::os::unix::fs::symlink(top.join("two"), top.join("alias")).unwrap();
    let reached = reached(&top, &["one", "two"]);
    assert!(reached.contains("plain") && !reached.contains("alias"), "{reached:?}");
    fs::remove_dir_all(&top).unwrap();
}

type ReleaseRow =
    (&'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

/// Each row: links with their targets, the roots of the sites, what the first site may reach.
#[test]
fn a_site_has_what_lies_beside_its_releases() {
    let rows: &[ReleaseRow] = &[
        (&[CURRENT], &["one/public", "two/current/public"], &["one", "one/public", "web"]),
        (&[CURRENT], &["two/current/public", "one/public"], &["two", OF_TWO, RELEASE, "web"]),
        // The root itself is the link, and leads to another place.
        (&[("two/l", "../web/x")], &["one/public", "two/l"], &["one", "one/public"]),
        (&[("two/l", "../web/x")], &["two/l", "one/public"], &["two", "web", "web/x"]),
        // The folder has a root of another site in it, which a link may lead elsewhere.
        (
            &[CURRENT],
            &["one/public", "two/current/public", "two/shared"],
            &["one", "one/public", "two/releases/6", "web"],
        ),
        (
            &[("two/l", "../web/x"), ("two/k", "../web/y")],
            &["one/public", "two/l", "two/k"],
            &["one", "one/public", "two", "web/z"],
        ),
        // Two sites of one release.
        (
            &[CURRENT],
            &["one/public", "two/current/public", "two/current/public"],
            &["one", "one/public", "web"],
        ),
        (
            &[CURRENT],
            &["two/current/public", "two/current/public", "one/public"],
            &["two", OF_TWO, RELEASE, "web"],
        ),
        // A link of root's in the folder of another site.
        (&[("one/x/l", "../../web/x")], &["one/public", "one/x/l"], &["one", "one/public", "two"]),
    ];
    for (number, (links, roots, expected)) in rows.iter().enumerate() {
        let folders = ["one/public", "one/x", OF_TWO, "two/releases/6", "two/shared"];
        let folders = [&folders[..], &["web/x", "web/y", "web/z"]].concat();
        let Some(top) = tree(&format!("release-{number}"), &folders) else {
            return;
        };
        for (link, target) in *links {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        let expected = expected.iter().map(|&path| path.to_owned()).collect();
        assert_eq!(reached(&top, roots), expected, "{links:?} {roots:?}");
        fs::remove_dir_all(&top).unwrap();
    }
}

const CURRENT: (&str, &str) = ("two/current", "releases/7");
const RELEASE: &str = "two/releases/7";
const OF_TWO: &str = "two/releases/7/public";

/// Runs `check` in a thread that is confined as a front is. Restrictions are a thread's own.
fn as_front(config: &Config, check: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = move || {
            process::refuse_new_privileges().unwrap();
            front::confine(config).unwrap();
            check();
        };
        scope.spawn(run).join().unwrap();
    });
}

fn can_confine() -> bool {
    let found = Landlock::of_kernel().is_some_and(Landlock::has_scopes) && seccomp::is_available();
    if !found {
        howdah_skip::skip!("this kernel has no Landlock with scopes, or no seccomp");
    }
    found
}

#[test]
fn a_front_does_what_a_front_does_and_nothing_else() {
    if !can_confine() {
        return;
    }
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, upstream, other) = (listen(), listen(), listen());
    let port = upstream.local_addr().unwrap().port();
    let text = format!(
        "[[site]]\nroot = \"/srv\"\nphp = false\nupstreams = [\"http://127.0.0.1:{port}\"]\n"
    );
    let config = config(&text);
    let Some(outside) = tree("outside", &[]) else {
        return;
    };
    let path = outside.join("file");
    fs::write(&path, "x").unwrap();
    as_front(&config, move || {
        let denied = |what: &str, result: std::io::Result<()>| {
            let kind = result.expect_err(what).kind();
            assert_eq!(kind, ErrorKind::PermissionDenied, "{what}");
        };
        // Files: temporary ones only are written, nothing is executed.
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
        denied("a write", fs::write(&path, "y"));
        denied("a removal", fs::remove_file(&path));
        denied("a new file", fs::write(path.with_extension("new"), ""));
        denied("a program", Command::new("/bin/true").status().map(drop));
        let temporary = tempfile_in_use();
        assert!(temporary.is_ok(), "{temporary:?}");
        // Network: what is there is used, upstreams are reached.
        let client = TcpStream::connect(upstream.local_addr().unwrap());
        assert!(client.is_ok(), "{client:?}");
        denied("a connection", TcpStream::connect(other.local_addr().unwrap()).map(drop));
        denied("a listener", TcpListener::bind("127.0.0.1:0").map(drop));
        denied("a bound socket", UdpSocket::bind("127.0.0.1:0").map(drop));
        assert!(own.set_nonblocking(true).is_ok());
        assert_eq!(own.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(UnixStream::pair().is_ok());
        // Threads and time.
        let doubled = std::thread::spawn(|| 2 * 21).join().unwrap();
        assert_eq!(doubled, 42);
        std::thread::sleep(std::time::Duration::from_millis(1));
    });
    fs::remove_dir_all(&outside).unwrap();
}

/// A file without a name, as those that the front spools content to.
fn tempfile_in_use() -> std::io::Result<()> {
    use std::io::Write;
    tempfile::tempfile()?.write_all(b"spooled")
}
