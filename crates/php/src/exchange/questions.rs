//! Answering the questions that a script asks while it runs.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::ScriptExchange;
use crate::waiters::Waiters;
use crate::zygote::Lease;

/// The answer to a question of a script, as it is made.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// The two ends of the connection whose request a script answers. The front's own knowledge: a
/// script cannot ask in the name of another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskingConnection {
    /// The client's end.
    pub remote: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
}

/// Answers the questions of a pool's scripts. A question is the pool's: nothing has checked its
/// bytes.
pub struct QuestionHandler(Box<dyn Fn(Vec<u8>, AskingConnection) -> AnswerFuture>);

impl QuestionHandler {
    /// Answers with what `answer` makes of the question.
    pub fn new(
        answer: impl Fn(Vec<u8>, AskingConnection) -> AnswerFuture + 'static,
    ) -> QuestionHandler {
        QuestionHandler(Box::new(answer))
    }
}

impl fmt::Debug for QuestionHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuestionHandler")
    }
}

/// The question of a script that is being answered, and the count of its questions.
#[derive(Default)]
pub(crate) struct AskedQuestion {
    /// The question's number and its answer.
    present: Option<(u32, AnswerFuture)>,
    /// A task of its own makes the answer, because nobody reads the response any more.
    is_with_task: bool,
    count: u32,
}

impl fmt::Debug for AskedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("count", &self.count).finish_non_exhaustive()
    }
}

impl AskedQuestion {
    /// A script whose further questions get empty answers.
    pub(crate) fn no_more() -> AskedQuestion {
        AskedQuestion {
            count: MOST_QUESTIONS,
            ..AskedQuestion::default()
        }
    }

    /// Notes that the task has made its answer: the script may ask again.
    pub(crate) fn note_answer(&mut self) {
        self.is_with_task = false;
    }

    /// Begins to answer the question that the script of the slot asks, if it asks one.
    fn begin(&mut self, waiters: &Waiters, lease: &mut Lease) {
        let front = &waiters.zygote.front;
        if self.present.is_some() || self.is_with_task || !front.asks(lease.slot_ref()) {
            return;
        }
        let Some(question) = front.question(lease.slot()) else {
            return;
        };
        self.count = self.count.saturating_add(1);
        let asker = waiters.askers.borrow()[lease.index()];
        let answers = waiters.answers.as_ref().zip(asker);
        match answers.filter(|_| self.count <= MOST_QUESTIONS) {
            Some((answers, asker)) => {
                self.present = Some((question.number, (answers.0)(question.text, asker)));
            }
            None => front.answer(lease.slot_ref(), question.number, b""),
        }
    }
}

impl ScriptExchange {
    /// Answers the script's question, if it asks one, as far as that is possible now.
    #[inline]
    pub(super) fn attend(&mut self, context: &mut Context<'_>) {
        let lease = self.lease.as_mut().expect("held until dropped");
        if self.asked.present.is_none() && !lease.zygote.front.asks(lease.slot_ref()) {
            return;
        }
        self.asked.begin(&self.waiters, lease);
        if let Some((number, answer)) = &mut self.asked.present
            && let Poll::Ready(answer) = answer.as_mut().poll(context)
        {
            lease.zygote.front.answer(lease.slot_ref(), *number, &answer);
            self.asked.present = None;
        }
    }
}

impl Waiters {
    /// Answers the question of a script whose response has no reader any more, if it asks one.
    pub(crate) fn attend_unread(self: &Rc<Self>, lease: &mut Lease, asked: &mut AskedQuestion) {
        asked.begin(self, lease);
        let Some((number, answer)) = asked.present.take() else {
            return;
        };
        asked.is_with_task = true;
        let (waiters, slot) = (Rc::downgrade(self), lease.index());
        let generation = lease.slot_ref().generation();
        tokio::task::spawn_local(async move {
            let answer = answer.await;
            if let Some(waiters) = waiters.upgrade() {
                waiters.answer_unread(slot, generation, number, &answer);
            }
        });
    }
}

/// The most questions that are answered during one request. Further ones get an empty answer.
const MOST_QUESTIONS: u32 = 1000;
