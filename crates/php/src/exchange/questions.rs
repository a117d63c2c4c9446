//! Answering the questions that a script asks while it runs.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Exchange;

/// The answer to a question of a script, as it is made.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// The two ends of the connection whose request a script answers. The front's own knowledge: a
/// script cannot ask in the name of another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The client's end.
    pub remote: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
}

/// Answers the questions of a pool's scripts. A question is the pool's: nothing has checked its
/// bytes.
pub struct Answers(Box<dyn Fn(Vec<u8>, Asker) -> AnswerFuture>);

impl Answers {
    /// Answers with what `answer` makes of the question.
    pub fn new(answer: impl Fn(Vec<u8>, Asker) -> AnswerFuture + 'static) -> Answers {
        Answers(Box::new(answer))
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// The question of a script that is being answered, and the count of its questions.
#[derive(Default)]
pub(super) struct AskedQuestion {
    /// The question's number and its answer.
    present: Option<(u32, AnswerFuture)>,
    count: u32,
}

impl fmt::Debug for AskedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Answers the script's question, if it asks one, as far as that is possible now.
    #[inline]
    pub(super) fn attend(&mut self, context: &mut Context<'_>) {
        let lease = self.lease.as_mut().expect("held until dropped");
        if self.asked.present.is_none() && !lease.zygote.front.asks(lease.slot_ref()) {
            return;
        }
        let zygote = &lease.zygote.clone();
        if self.asked.present.is_none() {
            let Some(question) = zygote.front.question(lease.slot()) else {
                return;
            };
            self.asked.count += 1;
            let asker = self.waiters.askers.borrow()[lease.index()];
            let answers = self.waiters.answers.as_ref().zip(asker);
            let Some((answers, asker)) = answers.filter(|_| self.asked.count <= MOST_QUESTIONS)
            else {
                return zygote.front.answer(lease.slot_ref(), question.number, b"");
            };
            self.asked.present = Some((question.number, (answers.0)(question.text, asker)));
        }
        let Some((number, answer)) = &mut self.asked.present else {
            return;
        };
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            zygote.front.answer(lease.slot_ref(), *number, &answer);
            self.asked.present = None;
        }
    }
}

/// The most questions that are answered during one request. Further ones get an empty answer.
const MOST_QUESTIONS: u32 = 1000;
