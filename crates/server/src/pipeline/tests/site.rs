//! A site in a temporary folder, and an event loop to serve it.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use howdah_config::Config;
use tokio::runtime::{Builder, LocalOptions};

use crate::front::{FrontThread, thread_for_tests};
use crate::net::Peer;

/// Runs `serve` on a thread of a front whose site `x` has a few files.
pub(super) fn on_thread<F: Future<Output = ()> + 'static>(
    serve: impl FnOnce(Rc<FrontThread>) -> F,
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is below the folder"))
            .and_then(|()| std::fs::write(path, content))
            .expect("the folder can be written");
    };
    write("small.txt", "small");
    write("large.txt", &large());
    write("folder/x.txt", "");
    write("ruled/plain.txt", "plain");
    write("ruled/page.html", "small one\n");
    write("ruled/large.css", &large());
    write("listed/.htaccess", "Options +Indexes\n");
    write("broken/.htaccess", "Broken\n");
    write(
        "ruled/.htaccess",
        "Header set X-Ruled yes\nAddOutputFilterByType SUBSTITUTE text/html\n\
         AddOutputFilterByType DEFLATE text/css\n\
         Substitute \"s/small one/replaced!/\"\n",
    );
    let text = format!(
        "strict_hosts = true\n[[site]]\nhosts = [\"x\"]\nroot = {:?}\nphp = false\n",
        folder.path().to_str().expect("the path is text")
    );
    let config = Config::parse(&text, "test.toml").expect("the configuration is right");
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .expect("an event loop");
    runtime.block_on(async {
        let thread = thread_for_tests(config).expect("a thread");
        let served = tokio::time::timeout(Duration::from_secs(90), serve(thread)).await;
        served.expect("it ends");
    });
}

/// The two ends of a connection.
pub(super) fn peer() -> Peer {
    Peer::new(([192, 0, 2, 7], 40_000).into(), ([192, 0, 2, 1], 80).into())
}

/// The content of the large file.
pub(super) fn large() -> String {
    (0..20_000).map(|number| format!("line {number}\n")).collect()
}
