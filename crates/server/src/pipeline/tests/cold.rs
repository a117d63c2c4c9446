//! A disk that does not answer.

use std::ffi::CString;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::mpsc;

use howdah_sys::open::{self, Lookup};
use tokio::task::{spawn_local, yield_now};

use super::line_protocol;
use super::site::{on_thread, peer};
use crate::crew::{ClientNetwork, JobOrigin};
use crate::front::FrontThread;

#[test]
fn a_disk_that_does_not_answer_holds_up_no_other_request() {
    if !remembers_names() {
        howdah_skip::skip!("the kernel or the file system cannot tell what is in memory");
        return;
    }
    on_thread(|thread| async move {
        let warm = ask(Rc::clone(&thread), "x /small.txt").await;
        assert!(warm.starts_with("200 "), "{warm}");
        let held: Vec<_> = (0..10).map(|_| hang(&thread)).collect();
        let cold = spawn_local(ask(Rc::clone(&thread), "x /nobody/has/asked/this.txt"));
        for _ in 0..3 {
            yield_now().await;
            assert_eq!(ask(Rc::clone(&thread), "x /small.txt").await, warm);
        }
        assert!(!cold.is_finished());
        drop(held);
        let missing = cold.await.expect("it does not panic");
        assert!(missing.starts_with("404 "), "{missing}");
    });
}

/// Sends a request and returns the response.
pub(super) async fn ask(thread: Rc<FrontThread>, line: &'static str) -> String {
    let sent = Rc::new(line_protocol::Stream::default());
    line_protocol::serve(&thread, &peer(), line, &sent).await;
    String::from_utf8(sent.bytes()).expect("the test's files are text")
}

/// Keeps a thread that asks the disk busy until the result is dropped.
fn hang(thread: &Rc<FrontThread>) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    let shared = std::sync::Arc::clone(&thread.shared);
    spawn_local(async move {
        let network = ClientNetwork::of(IpAddr::from([192, 0, 2, 9]));
        let job = move |_: &mut _| held.recv();
        shared.readers.run(JobOrigin { site: 0, network }, job).await
    });
    release
}

/// Returns whether the kernel can look a name up in memory alone, and the folder for temporary
/// files remembers which names are there and which are missing.
fn remembers_names() -> bool {
    let there = tempfile::tempdir().expect("a temporary folder");
    let path = CString::new(there.path().to_str().expect("it is text")).expect("it has no NUL");
    if open::folder(&path, Lookup::Cached).is_err() {
        return false;
    }
    let path = std::env::temp_dir().join(format!("howdah-missing-{}", std::process::id()));
    let path = CString::new(path.to_str().expect("it is text")).expect("it has no NUL");
    let is_new = open::folder(&path, Lookup::Cached)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    let is_missing = |lookup| {
        open::folder(&path, lookup).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    is_new && is_missing(Lookup::Full) && is_missing(Lookup::Cached)
}
