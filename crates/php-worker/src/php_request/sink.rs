//! The receiver of a PHP request's response.

use howdah_ipc::figures::CacheNumbers;
use howdah_ipc::response::HeadKind;

/// The client has gone; the rest of the response is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

/// The reason why a head was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// The client has gone.
    ClientGone,
    /// The head is longer, or has more fields, than the limit.
    TooLong,
}

/// Name and value of a header field.
pub type Field<'f> = (&'f [u8], &'f [u8]);

/// Receiver of a response.
pub trait ResponseSink {
    /// Sends a head: any number of interim heads, then one final head before the first byte of the
    /// body.
    ///
    /// # Errors
    /// The head was not sent.
    fn head(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadError>;
    /// Tells the server the variables or the notes that the script has set for it, before the final
    /// head.
    ///
    /// # Errors
    /// They were not sent.
    fn tell(
        &mut self,
        _kind: HeadKind,
        _texts: &mut dyn Iterator<Item = Field<'_>>,
    ) -> Result<(), HeadError> {
        Ok(())
    }
    /// Sends bytes of the body.
    ///
    /// # Errors
    /// The client has gone.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone>;
    /// Sends everything written until now to the client.
    ///
    /// # Errors
    /// The client has gone.
    fn flush(&mut self) -> Result<(), ClientGone>;
    /// Returns whether bytes are refused because the script has missed its deadline.
    fn is_late(&self) -> bool {
        false
    }
    /// Marks the response as complete.
    fn end(&mut self);
    /// Notes how many bytes of memory the script had at most.
    fn note_peak(&mut self, _bytes: u64) {}
    /// Notes the use of PHP's caches.
    fn note_caches(&mut self, _caches: &CacheNumbers) {}
    /// Asks the front something. `None`: there is no answer.
    fn ask(&mut self, _question: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Tells that the script lives although it sends nothing.
    fn show_life(&mut self) {}
    /// Tells how many seconds the script has given itself from now; 0 and less is no limit.
    fn time_limit(&mut self, seconds: i64);
}
