//! The constancy of a file while it is sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_files::{FileChange, OpenFile};
use howdah_sys::stat::FileTime;
use tokio::time::{Instant, Sleep, sleep};

use super::SourceError;

/// The demand that a file is as it was when it was opened, or that there is none.
#[derive(Debug)]
pub(crate) enum Constancy {
    /// No bytes of the file were sent yet.
    Any,
    /// Bytes of the file were sent: the rest has to come from the same state.
    Same,
    /// The file was written, and may be about to become longer.
    Doubted(Box<SuspectedChange>),
}

/// A file with another time and the former length: overwritten in place, being appended to, or only
/// given another time.
#[derive(Debug)]
pub(crate) struct SuspectedChange {
    written: FileTime,
    /// Looks that are left.
    looks: u32,
    /// The time until the next look.
    pause: Pin<Box<Sleep>>,
}

/// The time between two looks at a file that was written. Short: between two looks, a program that
/// overwrites a file and then makes it longer looks as one that appends.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks until a file that has not become longer, and of which no write is known, counts as what it
/// seems to be: unchanged where writes to it are reported, else overwritten. An append sets the
/// time and, microseconds later, the length, unless the processor is busy with others in between. A
/// write in place sets the time and is reported when it is done.
const LOOKS: u32 = 100;

impl Constancy {
    /// Demands that the file stays as it is from now on.
    pub(crate) fn begin(&mut self, file: &OpenFile) {
        if let Constancy::Any = self {
            file.watch_writes();
            *self = Constancy::Same;
        }
    }

    /// Waits until the file is known to hold the bytes that it held, and perhaps more behind them.
    ///
    /// # Errors
    /// The file was changed.
    pub(crate) fn poll(
        &mut self,
        file: &OpenFile,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SourceError>> {
        if let Constancy::Any = self {
            return Poll::Ready(Ok(()));
        }
        loop {
            if let Constancy::Doubted(doubt) = self {
                ready!(doubt.pause.as_mut().poll(context));
            }
            let written = match file.change() {
                None => {
                    *self = Constancy::Same;
                    return Poll::Ready(Ok(()));
                }
                Some(FileChange::Cut) => return Poll::Ready(Err(SourceError::FileChanged)),
                Some(FileChange::Written(time)) => time,
            };
            // An append that was reported has made the file longer meanwhile.
            let was_written = file.was_written();
            if was_written == Some(true) && file.change().is_some() {
                return Poll::Ready(Err(SourceError::FileChanged));
            }
            let is_reported = was_written.is_some();
            match self {
                Constancy::Doubted(doubt)
                    if doubt.looks > 0 && (is_reported || doubt.written == written) =>
                {
                    doubt.looks -= 1;
                    doubt.written = written;
                    doubt.pause.as_mut().reset(Instant::now() + PAUSE);
                }
                Constancy::Doubted(doubt) if is_reported && doubt.written == written => {
                    file.accept_time(written);
                }
                Constancy::Doubted(_) => return Poll::Ready(Err(SourceError::FileChanged)),
                _ => {
                    *self = Constancy::Doubted(Box::new(SuspectedChange {
                        written,
                        looks: LOOKS,
                        pause: Box::pin(sleep(PAUSE)),
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::future::poll_fn;
    use std::io::Write;
    use std::rc::Rc;
    use std::time::SystemTime;

    use super::*;
    use crate::body::{BodySource, ResponseBody};
    use crate::net::ContentPiece;

    const TEXT: &[u8] = b"all that is there";

    /// A file of which some bytes were sent.
    fn begun() -> (File, ResponseBody, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.log"), TEXT).unwrap();
        let file = File::options().append(true).open(folder.path().join("a.log")).unwrap();
        let open = File::open(folder.path().join("a.log")).unwrap();
        let mut body = ResponseBody::File {
            file: Rc::new(OpenFile::of(open).unwrap()),
            offset: 0,
            length: TEXT.len() as u64,
            constancy: Constancy::Any,
        };
        body.consume(4);
        (file, body, folder)
    }

    /// Sets the file's time to one that no former write had, as the kernel does when a write
    /// begins. With both times, no write is reported.
    fn touch(file: &File, seconds: u64) {
        let time = SystemTime::now() + Duration::from_secs(seconds);
        file.set_times(FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
    }

    fn is_pending(body: &mut ResponseBody) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        body.poll_available(&mut context).is_pending()
    }

    async fn available(body: &mut ResponseBody) -> Result<usize, SourceError> {
        poll_fn(|context| body.poll_available(context))
            .await
            .map(|available| available.bytes)
    }

    #[tokio::test]
    async fn a_file_that_is_just_being_appended_to_goes_on_when_it_is_longer() {
        let (mut file, mut body, _folder) = begun();
        assert_eq!(available(&mut body).await.unwrap(), TEXT.len() - 4);
        touch(&file, 10);
        assert!(is_pending(&mut body));
        file.write_all(b", and more").unwrap();
        assert_eq!(available(&mut body).await.unwrap(), TEXT.len() - 4);
        assert!(matches!(body.piece(), ContentPiece::Document { offset: 4, .. }));
    }

    #[tokio::test]
    async fn a_file_that_only_gets_another_time_goes_on() {
        let (file, mut body, _folder) = begun();
        touch(&file, 10);
        assert!(is_pending(&mut body));
        touch(&file, 20);
        assert_eq!(available(&mut body).await.unwrap(), TEXT.len() - 4);
        assert!(matches!(constancy(&mut body), Constancy::Same));
        assert_eq!(available(&mut body).await.unwrap(), TEXT.len() - 4);
    }

    #[tokio::test]
    async fn a_file_that_is_written_in_place_has_changed() {
        let (file, mut body, folder) = begun();
        touch(&file, 10);
        assert!(is_pending(&mut body));
        let in_place = File::options().write(true).open(folder.path().join("a.log")).unwrap();
        (&in_place).write_all(b"A").unwrap();
        assert!(matches!(available(&mut body).await, Err(SourceError::FileChanged)));
    }

    #[tokio::test]
    async fn a_file_whose_writes_are_not_reported_has_changed_with_its_time() {
        let (file, mut body, _folder) = begun();
        let ResponseBody::File { file: open, .. } = &mut body else {
            panic!("it is a file")
        };
        *open = Rc::new(OpenFile::of(open.share().try_clone().unwrap()).unwrap());
        touch(&file, 10);
        assert!(is_pending(&mut body));
        touch(&file, 20);
        let Constancy::Doubted(doubt) = constancy(&mut body) else {
            panic!("it is in doubt")
        };
        doubt.looks = u32::MAX;
        assert!(matches!(available(&mut body).await, Err(SourceError::FileChanged)));
    }

    #[tokio::test]
    async fn a_file_that_was_cut_has_changed_at_once() {
        let (file, mut body, _folder) = begun();
        file.set_len(5).unwrap();
        assert!(!is_pending(&mut body));
        assert!(matches!(available(&mut body).await, Err(SourceError::FileChanged)));
    }

    fn constancy(body: &mut ResponseBody) -> &mut Constancy {
        match body {
            ResponseBody::File { constancy, .. } => constancy,
            _ => panic!("it is a file"),
        }
    }
}
