//! The last step before the head: content that is short and available passes its filters, so that
//! the head can state its length.

use std::future::poll_fn;
use std::task::Poll;

use howdah_files::CompressedCache;

use super::filtering::{FilterPlace, filtered};
use super::filters::coding;
use super::pump::{PumpError, of_file};
use super::residence::Residence;
use super::source::{AvailableContent, Body, BodySource};
use super::spool::SpoolLimits;
use crate::pipeline::Response;

/// Output of a script up to this length is copied out when the script has ended, so that its slot
/// is free before the client has the response.
const SCRIPT: usize = 64 * 1024;
/// Stored content up to this length passes its filters before the head is sent.
const STORED: u64 = 1 << 20;

/// Filters the content of `response`, if it is short and available. `buffer` lends its memory to a
/// script's output; `place` is where the filters work.
///
/// # Errors
/// The content cannot be read; nothing was sent yet.
// Steps that most responses do not need are in boxes: all would have room for them otherwise.
pub(crate) async fn settle(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    cache: &CompressedCache,
    place: FilterPlace<'_>,
    limits: &SpoolLimits,
) -> Result<(), PumpError> {
    if let Body::Script(_) = response.body {
        let available = poll_fn(|context| Poll::Ready(response.body.poll_available(context))).await;
        return match available {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(PumpError::Source(error)),
            Poll::Ready(Ok(available)) => settle_script(response, buffer, available, place).await,
        };
    }
    let length = response.body.length();
    let is_short = length.is_some_and(|length| length <= STORED);
    if response.filters.is_empty() || !is_short || !response.body.is_stored() {
        return Ok(());
    }
    let kept = response.representation.as_ref().zip(coding(&response.filters));
    let Some((representation, coding)) = kept else {
        let plain = Box::pin(read(&mut response.body, limits)).await?;
        let content = Box::pin(filtered(plain, &response.filters, place)).await?;
        response.body = Body::whole(content.into());
        response.filters.clear();
        return Ok(());
    };
    let content = match cache.find(representation, coding) {
        Some(content) => content,
        None => {
            let plain = Box::pin(read(&mut response.body, limits)).await?;
            match cache.share(representation, coding, &plain) {
                Some(content) => content,
                None => {
                    let content = Box::pin(filtered(plain, &response.filters, place)).await?.into();
                    cache.keep(representation, coding, &content);
                    content
                }
            }
        }
    };
    response.body = Body::shared(content);
    response.filters.clear();
    Ok(())
}

/// The output of a script that has ended, unless it is long.
async fn settle_script(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    available: AvailableContent,
    place: FilterPlace<'_>,
) -> Result<(), PumpError> {
    if !available.is_last {
        return Ok(());
    }
    if available.bytes > SCRIPT {
        // A script's own Content-Length may be wrong; the bytes that are there are not.
        response.body.set_length(available.bytes as u64);
        return Ok(());
    }
    let mut content = std::mem::take(buffer);
    content.clear();
    content.resize(available.bytes, 0);
    if available.bytes > 0 {
        response.body.piece().read(&mut content).map_err(of_file)?;
        response.body.consume(available.bytes);
    }
    if !response.filters.is_empty() {
        content = Box::pin(filtered(content, &response.filters, place)).await?;
        response.filters.clear();
    }
    response.body = Body::Buffer(content, 0);
    Ok(())
}

/// Returns all of the content of a stored body.
async fn read(body: &mut Body, limits: &SpoolLimits) -> Result<Vec<u8>, PumpError> {
    let mut content = Vec::new();
    let mut residence = Residence::new(limits);
    loop {
        let in_memory = poll_fn(|context| residence.poll(body.piece(), context)).await;
        let length = usize::try_from(in_memory).unwrap_or(usize::MAX);
        if length == 0 {
            return Ok(content);
        }
        let start = content.len();
        content.resize(start + length, 0);
        let count = body.piece().read(&mut content[start..]).map_err(of_file)?;
        content.truncate(start + count);
        body.consume(count);
    }
}
