//! Costly directives: they harm their own site alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::http2::client::{self, Http2};
use crate::site::Site;
use crate::support::{Client, has_php};

/// The name of the client that makes the patterns costly.
const AGENT: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// Two sites, of which `bad.example` has these directives. One thread serves both.
fn two_sites(limits: &str, directives: &str) -> Site {
    let entry = |name: &str| {
        format!("[[site]]\nhosts = [\"{name}.example\"]\nroot = \"public/{name}\"\nphp = false\n")
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nthreads = 1\ncontrol = \"control\"\n[log]\n\
         access = \"access.log\"\n[limits]\n{limits}\n{}{}",
        entry("good"),
        entry("bad")
    );
    let files = [
        ("good/x.txt", "good"),
        ("good/.htaccess", "RewriteEngine On\nRewriteRule ^y\\.txt$ x.txt\n"),
        ("bad/x.txt", "bad"),
        ("bad/.htaccess", directives),
    ];
    Site::configured(&files, &config)
}

/// Conditions that each nearly exhaust a match.
fn conditions(number: usize) -> String {
    let condition = "RewriteCond %{HTTP_USER_AGENT} !^(x|xx)+[yz]$\n";
    format!("RewriteEngine On\n{}RewriteRule ^ - [F]\n", condition.repeat(number))
}

fn ask(client: &mut Client, host: &str, target: &str) -> (u16, String) {
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: {host}.example\r\nUser-Agent: {AGENT}\r\n\r\n");
    client.send(head).unwrap();
    let answer = client.answer().unwrap();
    (answer.status, answer.text().to_owned())
}

/// A field of the response may ask about a folder whose directives nobody has compiled yet.
#[test]
fn a_field_s_condition_about_another_folder_is_right_the_first_time() {
    let config = "listen = [\"127.0.0.1:0\"]\nthreads = 1\ncontrol = \"control\"\n[[site]]\n\
                  root = \"public\"\nphp = false\n";
    let files = [
        ("a/x.txt", "x"),
        ("a/.htaccess", "Header set X-Open yes \"expr=-A '/open/y.txt'\"\n"),
        ("open/y.txt", "y"),
        ("open/.htaccess", "Require all granted\n"),
        ("b/z.txt", "z"),
    ];
    let site = Site::configured(&files, config);
    for time in 0..3 {
        let reply = site.get("/a/x.txt");
        assert_eq!((reply.status, reply.field("X-Open")), (200, Some("yes")), "{time}");
        assert_eq!(site.get("/b/z.txt").text(), "z");
    }
}

#[test]
fn costly_rules_are_500_with_their_place_and_the_limit_in_the_log() {
    let site = two_sites("htaccess_work = 1_000_000", &conditions(3_000));
    let mut client = Client::connect(site.server.address());
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "bad", "/x.txt").0, 500);
        assert_eq!(ask(&mut client, "good", "/y.txt"), (200, "good".to_owned()));
    }
    site.server
        .wait_for_log("1000000 steps that `htaccess_work` in [limits] allows");
    site.server.wait_for_log("bad/.htaccess:3002:");
}

/// The event loop answers the innocent site while evaluations of the other are under way, and
/// leaves those to threads of their own.
#[test]
fn another_site_is_answered_while_costly_rules_are_evaluated() {
    let site = two_sites("", &conditions(3_000));
    let address = site.server.address();
    let (is_over, costly) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let attackers: Vec<_> = (0..6)
        .map(|_| {
            let (is_over, costly) = (Arc::clone(&is_over), Arc::clone(&costly));
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !is_over.load(Ordering::Relaxed) {
                    let (status, _) = ask(&mut client, "bad", "/x.txt");
                    assert!(status == 500 || status == 503, "{status}");
                    costly.fetch_add(usize::from(status == 500), Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut client = Client::connect(address);
    let has_failed = || attackers.iter().any(|attacker| attacker.is_finished());
    // The first evaluation on the event loop tells that the site is costly.
    while costly.load(Ordering::Relaxed) < 6 && !has_failed() {
        assert_eq!(ask(&mut client, "good", "/y.txt").0, 200);
    }
    let front = site.server.front();
    let times = || {
        let crew = front.time_of_threads(|name| name.starts_with("directives"));
        let others = front.time_of_threads(|name| !name.starts_with("directives"));
        (crew.unwrap_or_default(), others.unwrap_or_default())
    };
    let (crew, others) = times();
    let goal = costly.load(Ordering::Relaxed) + 50;
    for number in 0.. {
        if number >= 500 && costly.load(Ordering::Relaxed) >= goal || has_failed() {
            break;
        }
        assert_eq!(ask(&mut client, "good", "/y.txt"), (200, "good".to_owned()));
        // The work of each answer of this site must not hide the work of the other.
        if number >= 500 {
            thread::sleep(Duration::from_millis(10));
        }
    }
    let (crew, others) = (times().0 - crew, times().1 - others);
    is_over.store(true, Ordering::Relaxed);
    attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
    // On the event loop, each costly evaluation would delay each answer.
    assert!(crew.is_zero() || crew > others, "{crew:?}, and {others:?} in all other threads");
}

#[test]
fn a_large_file_of_directives_is_compiled_beside_the_event_loop() {
    let redirects: String = (0..5_000)
        .map(|number| format!("Redirect 301 /old/page-{number} /new/{number}\n"))
        .collect();
    let site = two_sites("", &redirects);
    let mut client = Client::connect(site.server.address());
    let file = site.path().join("public/bad/.htaccess");
    for round in 0..3 {
        for number in [0, 2_500, 4_999] {
            assert_eq!(ask(&mut client, "bad", &format!("/old/page-{number}")).0, 301);
        }
        assert_eq!(ask(&mut client, "bad", "/x.txt"), (200, "bad".to_owned()));
        assert_eq!(ask(&mut client, "bad", "/old/page-5000").0, 404, "round {round}");
        // Another content, and the same again.
        std::fs::write(&file, "Redirect 410 /x.txt\n").unwrap();
        assert_eq!(ask(&mut client, "bad", "/x.txt").0, 410);
        std::fs::write(&file, &redirects).unwrap();
    }
    std::fs::write(&file, "# a\n".repeat((4 << 20) / 4 + 1)).unwrap();
    assert_eq!(ask(&mut client, "bad", "/x.txt").0, 500);
    site.server
        .wait_for_log("the 4194304 bytes that `htaccess_size` in [limits] allows");
}

/// The head of a response is changed elsewhere, too, and the error page of a costly one is found.
#[test]
fn costly_rules_for_the_response() {
    let header = "Header edit X-Long ^(x|xx)+[yz]$ z\n";
    let directives = format!("Header set X-Long {AGENT}\n{}", header.repeat(3_000));
    let site = two_sites("htaccess_work = 3_000_000", &directives);
    let mut client = Client::connect(site.server.address());
    assert_eq!(ask(&mut client, "bad", "/x.txt").0, 500);
    assert_eq!(ask(&mut client, "good", "/x.txt").0, 200);
    let file = site.path().join("public/bad/.htaccess");
    let few = "Header edit X-Long ^((x|xx)+)$ $1y\n";
    std::fs::write(&file, format!("Header set X-Long xxxx\n{}", few.repeat(1_000))).unwrap();
    let head = "GET /x.txt HTTP/1.1\r\nHost: bad.example\r\n\r\n";
    for _ in 0..3 {
        client.send(head).unwrap();
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.field("x-long")), (200, Some("xxxxy")));
    }
}

/// Links whose targets have hundreds of names end at a bound, for requests and for rules.
#[test]
fn links_of_hundreds_of_names_are_403_with_a_line_in_the_log() {
    let site = two_sites("", "RewriteEngine On\n");
    let bad = site.path().join("public/bad");
    let file = |name: &str, content: &str| std::fs::write(bad.join(name), content).unwrap();
    std::fs::create_dir_all(bad.join("d/e")).unwrap();
    file("d/x.txt", "behind");
    let link = |times: usize, end: &str, name: &str| {
        std::os::unix::fs::symlink("d/../".repeat(times) + end, bad.join(name)).unwrap();
    };
    link(100, "d", "short");
    link(200, "d", "long");
    link(25, "short", "two");
    link(50, "two", "three");
    let rules: String = ["short", "long", "two", "three"]
        .iter()
        .map(|name| {
            let path = bad.join(name);
            format!(
                "RewriteCond {}/x.txt -f\nRewriteRule ^is-{name}$ - [G,L]\n\
                 RewriteCond {}/../{name}/x.txt -f\nRewriteRule ^is-{name}-too$ - [G,L]\n",
                path.display(),
                bad.join("d").display()
            )
        })
        .collect();
    file(".htaccess", &format!("RewriteEngine On\n{rules}"));
    let mut client = Client::connect(site.server.address());
    for (name, leads) in [("short", true), ("two", true), ("long", false), ("three", false)] {
        let status = ask(&mut client, "bad", &format!("/{name}/x.txt")).0;
        assert_eq!(status, if leads { 200 } else { 403 }, "{name}");
        for rule in [format!("/is-{name}"), format!("/is-{name}-too")] {
            let status = ask(&mut client, "bad", &rule).0;
            assert_eq!(status, if leads { 410 } else { 404 }, "{rule}");
        }
        assert_eq!(ask(&mut client, "good", "/x.txt").0, 200);
    }
    site.server.wait_for_log("long/x.txt: the symbolic links on the way");
}

/// Links that take more steps together than a request may: the log names the request.
#[test]
fn many_long_links_are_500_and_the_log_says_for_which_request() {
    let site = two_sites("", "RewriteEngine On\n");
    let bad = site.path().join("public/bad");
    std::fs::create_dir(bad.join("d")).unwrap();
    std::fs::write(bad.join("d/x.txt"), "behind").unwrap();
    let mut rules = "RewriteEngine On\n".to_owned();
    for number in 0..1_000 {
        let link = bad.join(format!("link{number}"));
        std::os::unix::fs::symlink("d/../".repeat(100) + "d", &link).unwrap();
        rules += &format!("RewriteCond {}/x.txt -f\n", link.display());
    }
    std::fs::write(bad.join(".htaccess"), rules + "RewriteRule ^asks$ - [G]\n").unwrap();
    let mut client = Client::connect(site.server.address());
    assert_eq!(ask(&mut client, "bad", "/asks").0, 500);
    site.server.wait_for_log("take too many steps");
    let log = site.server.log();
    let line = log.lines().find(|line| line.contains("take too many steps")).unwrap();
    assert!(line.contains(" while resolving GET http://bad.example/asks from "), "{line}");
    assert_eq!(ask(&mut client, "good", "/x.txt").0, 200);
}

/// A change in a folder that thousands of links lead to is heard, and soon.
#[test]
fn a_change_behind_thousands_of_links_is_seen() {
    let site = two_sites("", "");
    let bad = site.path().join("public/bad");
    std::fs::create_dir(bad.join("d")).unwrap();
    std::fs::write(bad.join("d/x.txt"), "before").unwrap();
    let mut client = Client::connect(site.server.address());
    for number in 0..2_000 {
        for (target, link) in [("d", "folder"), ("d/x.txt", "file")] {
            let name = format!("{link}{number}");
            std::os::unix::fs::symlink(target, bad.join(&name)).unwrap();
            let target = if link == "file" {
                format!("/{name}")
            } else {
                format!("/{name}/x.txt")
            };
            assert_eq!(ask(&mut client, "bad", &target), (200, "before".to_owned()), "{target}");
        }
    }
    let fresh = bad.join("d/new");
    std::fs::write(&fresh, "afterwards").unwrap();
    std::fs::rename(&fresh, bad.join("d/x.txt")).unwrap();
    for number in [0, 255, 256, 1_999] {
        for target in [format!("/file{number}"), format!("/folder{number}/x.txt")] {
            crate::support::wait_until(&format!("{target} is the new one"), || {
                ask(&mut client, "bad", &target).1 == "afterwards"
            });
        }
    }
    assert_eq!(ask(&mut client, "good", "/x.txt").0, 200);
}

/// Each field that is set is compared with all that were set before, so a few megabytes of these
/// would keep the event loop for seconds.
#[test]
fn tens_of_thousands_of_rules_for_the_head_keep_no_other_site_waiting() {
    type Row = (&'static str, fn(usize) -> String);
    let rows: [Row; 4] = [
        ("set", |number| format!("Header set v{number} 1\n")),
        ("merge", |number| format!("Header merge Vary w{number}\n")),
        ("variables", |number| format!("SetEnvIf Host . v{number}=1\n")),
        ("request", |number| format!("RequestHeader merge Vary w{number}\n")),
    ];
    let site = two_sites("htaccess_work = 3_000_000", "");
    let mut client = Client::connect(site.server.address());
    let file = site.path().join("public/bad/.htaccess");
    let front = site.server.front();
    let event_loops = || {
        let time = front.time_of_threads(|name| !name.starts_with("directives"));
        time.unwrap_or_default()
    };
    for (what, line) in rows {
        std::fs::write(&file, (0..30_000).map(line).collect::<String>()).unwrap();
        assert_eq!(ask(&mut client, "bad", "/x.txt").0, 500, "{what}");
        let before = event_loops();
        for _ in 0..3 {
            assert_eq!(ask(&mut client, "bad", "/x.txt").0, 500, "{what}");
            assert_eq!(ask(&mut client, "good", "/y.txt"), (200, "good".to_owned()), "{what}");
        }
        let took = event_loops() - before;
        assert!(took < Duration::from_secs(1), "{what}: {took:?} of the event loop");
    }
    site.server
        .wait_for_log("3000000 steps that `htaccess_work` in [limits] allows");
    // Values that were replaced are forgotten.
    let peak = front.peak_memory();
    assert!(peak < 512 << 10, "{peak} kB");
}

/// Everything that a script says to directives and the log is compared with what they know already.
#[test]
fn variables_without_end_from_a_script_are_cut_off_with_a_line_in_the_log() {
    if !has_php() {
        return;
    }
    let script = "<?php for ($n = 0; $n < 4000; $n++) { apache_setenv(\"v$n\", 1); \
                  apache_note(\"n$n\", 1); } header('X-Last: ' . $n);";
    let directives = "Header set X-First %{v0}e\nHeader set X-999 %{v999}e\n\
                      Header set X-1000 %{v1000}e\n";
    let site = Site::new(&[(".htaccess", directives), ("many.php", script)]);
    let front = site.server.front();
    let time = || front.time_of_threads(|_| true).unwrap_or_default();
    let reply = site.get("/many.php");
    let fields = ["X-Last", "X-First", "X-999", "X-1000"].map(|name| reply.field(name));
    assert_eq!(fields, [Some("4000"), Some("1"), Some("1"), Some("(null)")]);
    site.server
        .wait_for_log("has set 4000 names with apache_setenv(): the server takes the first 1000");
    site.server.wait_for_log("has set 4000 names with apache_note()");
    let before = time();
    for _ in 0..3 {
        assert_eq!(site.get("/many.php").field("X-999"), Some("1"));
    }
    let took = time() - before;
    assert!(took < Duration::from_secs(2), "{took:?} of the front");
}

/// Many files of a name, many languages of each, and long lists of languages in the request: the
/// work is counted, and costs other sites nothing. The same for a page of an error.
#[test]
fn thousands_of_variants_of_a_name_keep_no_other_site_waiting() {
    let letter = |number: usize| char::from(b'a' + (number % 25) as u8);
    let language = |number: usize| String::from_iter([letter(number / 25), letter(number)]);
    let directives: String = (0..208)
        .map(language)
        .map(|language| format!("AddLanguage {language} .{language}\n"))
        .collect();
    let directives = format!("Options +MultiViews\nErrorDocument 404 /page\n{directives}");
    let site = two_sites("htaccess_work = 3_000_000", &directives);
    let bad = site.path().join("public/bad");
    for file in 0..2_500 {
        let languages: String =
            (0..78).map(|number| format!(".{}", language((file + number) % 208))).collect();
        std::fs::write(bad.join(format!("page.html{languages}.{file}")), "").unwrap();
    }
    let mut client = Client::connect(site.server.address());
    let fields = format!("Accept-Language: {}\r\n", "zz,".repeat(2_600)).repeat(4);
    let mut costly = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: bad.example\r\n{fields}\r\n");
        client.send(head).unwrap();
        client.answer().unwrap().status
    };
    let mut other = Client::connect(site.server.address());
    let front = site.server.front();
    let event_loops = || {
        let time = front.time_of_threads(|name| !name.starts_with("directives"));
        time.unwrap_or_default()
    };
    for target in ["/page", "/none"] {
        let before = event_loops();
        for _ in 0..3 {
            assert_eq!(costly(target), 500, "{target}");
            assert_eq!(ask(&mut other, "good", "/y.txt"), (200, "good".to_owned()), "{target}");
        }
        let took = event_loops() - before;
        assert!(took < Duration::from_secs(1), "{target}: {took:?} of the event loop");
    }
    site.server
        .wait_for_log("3000000 steps that `htaccess_work` in [limits] allows");
}

/// Each of these evaluations is short enough for the event loop, and takes more than half of what
/// is.
#[test]
fn many_rules_that_are_not_costly_each_are_not_all_evaluated_in_one_turn_of_the_event_loop() {
    // Fewer than the requests of one client that may wait for the crew: on a slow machine the time
    // of an evaluation may make the site a costly one.
    const STREAMS: usize = 50;
    let site = two_sites("", &conditions_of_short_names(HALF));
    // The site's rules take less than the event loop bears, and more than half of that.
    for (limit, status) in [(190_000, 200), (100_000, 500)] {
        let bounded =
            two_sites(&format!("htaccess_work = {limit}"), &conditions_of_short_names(HALF));
        let reply = ask_named(&bounded, "/x.txt");
        assert_eq!(reply, status, "{limit}: {}", bounded.server.log());
    }
    assert_eq!(ask_named(&site, "/x.txt"), 200);
    let front = site.server.front();
    let crew = || front.time_of_threads(|name| name.starts_with("directives")).unwrap_or_default();
    let before = crew();
    for round in 0..5 {
        let client = Http2::connect(&site);
        let ask = |number: usize| {
            let request = http::Request::get(format!("http://bad.example/x.txt?{round}-{number}"))
                .header("user-agent", SHORT_AGENT)
                .body(())
                .unwrap();
            client.run(client.begin(request, true)).0
        };
        let pending: Vec<_> = (0..STREAMS).map(ask).collect();
        for pending in pending {
            let reply = client.run(client::reply(pending));
            assert_eq!((reply.status, reply.text()), (200, "bad"));
        }
    }
    let crew = crew() - before;
    assert!(!crew.is_zero(), "the event loop has evaluated all");
    assert!(!site.server.log().contains("wait for directives"), "{}", site.server.log());
}

/// The name of a client that makes a condition take more than ten thousand steps.
const SHORT_AGENT: &str = "xxxxxxxxxxxx";
/// Conditions that take more than half of an event loop's budget for that client.
const HALF: usize = 10;

fn conditions_of_short_names(number: usize) -> String {
    let condition = "RewriteCond %{HTTP_USER_AGENT} !^(x|xx)+[yz]$\n";
    format!(
        "RewriteEngine On\n{}RewriteCond %{{HTTP_USER_AGENT}} ^none$\nRewriteRule ^ - [F]\n",
        condition.repeat(number)
    )
}

fn ask_named(site: &Site, target: &str) -> u16 {
    let fields = [("Host", "bad.example"), ("User-Agent", SHORT_AGENT)];
    site.ask("GET", target, &fields, b"").status
}
