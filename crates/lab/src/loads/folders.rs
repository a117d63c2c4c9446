//! Many folders, each with an `.htaccess` file of its own: what the first request for each costs,
//! and what a store remembers of them.

use std::time::{Duration, Instant};

use super::client::{LoadClient, PreparedRequest, RequestResult};
use super::{Measured, Wrong, on_a_loop};
use crate::environment::{FOLDER_FILE, folder_path};
use crate::load::Question;
use crate::probes::pss;
use crate::record::Figure;
use crate::stack::LoadTarget;

/// The time that an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Asks for the file in each of `count` folders over one connection, twice.
///
/// # Errors
/// The connection fails, or an answer is wrong.
pub(super) fn put(
    count: usize,
    question: &Question,
    target: &LoadTarget,
) -> Result<Measured, Wrong> {
    let port = target.port;
    let before = pss(&target.roots);
    let mut measured = on_a_loop(async move {
        let mut client = LoadClient::connect(&PreparedRequest::new(question, port, true)?).await?;
        let began = Instant::now();
        let first = visit(&mut client, count, question, port).await?;
        let second = visit(&mut client, count, question, port).await?;
        Ok(Measured {
            requests: 2 * count as u64,
            seconds: began.elapsed().as_secs_f64(),
            figures: [
                (Figure::FirstRequest, first.mean),
                (Figure::LongestRequest, first.longest.as_secs_f64() * 1e3),
                (Figure::SecondRequest, second.mean),
            ]
            .into(),
            ..Measured::default()
        })
    })?;
    if let Some((before, after)) = before.zip(pss(&target.roots)) {
        let grown = after.saturating_sub(before) as f64;
        measured.figures.insert(Figure::GrownPss, grown);
    }
    Ok(measured)
}

/// One pass over all folders.
struct FolderPass {
    /// Microseconds of a request.
    mean: f64,
    longest: Duration,
}

async fn visit(
    client: &mut LoadClient,
    count: usize,
    question: &Question,
    port: u16,
) -> Result<FolderPass, Wrong> {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    for number in 0..count {
        let question = Question {
            path: folder_path(number),
            body: Some(FOLDER_FILE.to_vec()),
            ..question.clone()
        };
        let asked = Instant::now();
        match client.ask(&PreparedRequest::new(&question, port, true)?, LIMIT).await {
            RequestResult::Hit => longest = longest.max(asked.elapsed()),
            RequestResult::Error => {
                return Err(Wrong(format!("{}: a wrong answer", question.path)));
            }
            RequestResult::Timeout => {
                return Err(Wrong(format!("{}: no answer in time", question.path)));
            }
        }
    }
    Ok(FolderPass {
        mean: began.elapsed().as_secs_f64() * 1e6 / count.max(1) as f64,
        longest,
    })
}
