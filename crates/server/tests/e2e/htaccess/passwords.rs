//! Passwords: comparisons are slow by design, and delay no other request.

use crate::site::Site;
use crate::support::Client;

/// The output of `htpasswd -nbB -C 10 slow secret`. Comparing it takes a twentieth of a second in a
/// release build, some seconds in a debug build.
const SLOW: &str = "slow:$2y$10$qYH7NNZAIiAwzQe6lAymRu5AGkNb/oudWkF4xxes8oA8OaxKi35BG\n";
/// The output of `htpasswd -nbs quick 'open sesame'`.
const QUICK: &str = "quick:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n";

fn files() -> Vec<(&'static str, &'static str)> {
    vec![("private/file.txt", "private"), ("open.txt", "open")]
}

fn site(users: &str) -> Site {
    let site = Site::new(&files());
    let path = site.path().join("users");
    std::fs::write(&path, users).unwrap();
    let rules = format!(
        "AuthType Basic\nAuthName \"Friends\"\nAuthUserFile {}\nRequire valid-user\n",
        path.display()
    );
    site.file("private/.htaccess", rules);
    site
}

#[test]
fn only_who_has_the_password() {
    let site = site(&format!("{QUICK}{SLOW}"));
    let ask = |credentials: &str| {
        let value = format!("Basic {}", base64(credentials.as_bytes()));
        site.ask("GET", "/private/file.txt", &[("Authorization", &value)], b"")
    };
    let reply = site.get("/private/file.txt");
    assert_eq!(reply.status, 401);
    assert_eq!(reply.field("www-authenticate"), Some("Basic realm=\"Friends\""));
    for _ in 0..3 {
        assert_eq!(ask("quick:open sesame").text(), "private");
        assert_eq!(ask("slow:secret").text(), "private");
        for wrong in ["quick:open", "slow:secret2", "quick:secret", "nobody:", ":"] {
            assert_eq!(ask(wrong).status, 401, "{wrong}");
        }
    }
    crate::support::wait_until("the access log names who it was", || {
        site.access_log().contains("127.0.0.1 - quick [")
    });
    std::fs::write(site.path().join("users"), "other:x\n").unwrap();
    for gone in ["quick:open sesame", "slow:secret"] {
        assert_eq!(ask(gone).status, 401, "who was taken out is out at once");
    }
}

#[test]
fn comparing_them_delays_no_other_request() {
    let site = site(SLOW);
    let address = site.server.address();
    let guessers: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                // `slow:guess0` …
                let guess = base64(format!("slow:guess{number}").as_bytes());
                let head = format!(
                    "GET /private/file.txt HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {guess}\r\n\
                     Connection: close\r\n\r\n"
                );
                client.send(head).unwrap();
                client.answer().unwrap().status
            })
        })
        .collect();
    let mut client = Client::connect(address);
    for _ in 0..50 {
        assert_eq!(client.get("/open.txt").text(), "open");
    }
    for guesser in guessers {
        assert_eq!(guesser.join().unwrap(), 401);
    }
    // The event loops have left the work to threads of its own.
    let front = site.server.front();
    let crew = front.time_of_threads(|name| name.starts_with("passwords"));
    let others = front.time_of_threads(|name| !name.starts_with("passwords"));
    assert!(crew.is_none() || crew > others, "{crew:?}, and {others:?} in all other threads");
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(match place <= chunk.len() {
                true => char::from(LETTERS[(number >> (18 - 6 * place) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}
