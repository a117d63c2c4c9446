//! Questions that scripts ask while they run.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_php::{AskingConnection, ExchangeError, PoolLimits, QuestionHandler, QueuePlace};

use super::support::{Front, Gate, PATIENCE, Script, Stage, limits};
use super::{ask, body, dispatch, dispatch_for};

/// The client whose request a script answers.
fn client() -> Option<AskingConnection> {
    let address = |port| ([127, 0, 0, 1], port).into();
    Some(AskingConnection {
        remote: address(4000),
        local: address(80),
    })
}

/// Answers a question with itself and the client's port. Returns the questions as they come.
fn answer_each(front: &Stage) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let questions = asked.clone();
    front.handle().answer_with(QuestionHandler::new(move |question, asker| {
        questions.borrow_mut().push(question.clone());
        Box::pin(async move {
            // The answer is not there at once.
            if is_slow(&question) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            [&question[..], format!("@{}", asker.remote.port()).as_bytes()].concat()
        })
    }));
    asked
}

/// Whether the answer to a question takes a moment.
fn is_slow(question: &[u8]) -> bool {
    question == b"1"
}

#[test]
fn a_script_gets_the_answers_to_its_questions_for_its_client() {
    Front::new(1, limits()).run(async |front| {
        let asked = answer_each(front);
        for round in 1..3 {
            let place = QueuePlace::default();
            let script = Script::Ask(2);
            let mut exchange = dispatch_for(front.handle(), place, client(), script).await.unwrap();
            exchange.head(&mut Vec::new()).await.unwrap();
            assert_eq!(body(&mut exchange).await.unwrap(), b"1@4000;2@4000;");
            assert_eq!(asked.borrow().len(), 2 * round);
        }
        // Without a client nobody is asked.
        let (mut exchange, _) = ask(front.handle(), Script::Ask(2)).await.unwrap();
        assert_eq!(body(&mut exchange).await.unwrap(), b";;");
        assert_eq!(asked.borrow().len(), 4);
    });
}

#[test]
fn a_script_gets_a_bounded_number_of_answers() {
    Front::new(1, limits()).run(async |front| {
        let asked = answer_each(front);
        let (place, script) = (QueuePlace::default(), Script::Ask(1002));
        let mut exchange = dispatch_for(front.handle(), place, client(), script).await.unwrap();
        exchange.head(&mut Vec::new()).await.unwrap();
        let body = body(&mut exchange).await.unwrap();
        assert!(body.ends_with(b"999@4000;1000@4000;;;"));
        assert_eq!(asked.borrow().len(), 1000);
    });
}

#[test]
fn a_script_gets_answers_when_its_response_is_complete() {
    Front::new(1, limits()).run(async |front| {
        answer_each(front);
        let gate = Gate::new();
        let (place, script) = (QueuePlace::default(), Script::EndThenAsk(gate));
        let mut exchange = dispatch_for(front.handle(), place, client(), script).await.unwrap();
        exchange.head(&mut Vec::new()).await.unwrap();
        assert_eq!(body(&mut exchange).await.unwrap(), b"early");
        drop(exchange);
        gate.open();
        front.expect_idle().await;
        let answer = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(gate.answers(), [answer("1@4000"), answer("2@4000")]);
    });
}

#[test]
fn a_script_whose_client_is_gone_gets_no_answer() {
    Front::new(1, limits()).run(async |front| {
        let asked = answer_each(front);
        let gate = Gate::new();
        let (place, script) = (QueuePlace::default(), Script::HoldThenAsk(gate));
        let exchange = dispatch_for(front.handle(), place, client(), script).await.unwrap();
        gate.is_reached().await;
        drop(exchange);
        gate.open();
        front.expect_idle().await;
        let until = Instant::now() + PATIENCE;
        while gate.answers().len() < 2 {
            assert!(Instant::now() < until, "the script waits for an answer");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answers = gate.answers();
        assert!([None, Some(Vec::new())].contains(&answers[0]), "{answers:?}");
        assert!(asked.borrow().is_empty());
        assert_eq!(answers[1].as_deref(), Some(&b"unread"[..]));
        // The next request of the slot has its own count.
        let mut next = dispatch(front.handle(), Script::Bytes(1)).await.unwrap();
        next.head(&mut Vec::new()).await.unwrap();
    });
}

#[test]
fn a_script_that_is_late_is_told_so() {
    let request_timeout = Duration::from_millis(100);
    Front::new(1, PoolLimits { request_timeout, ..limits() }).run(async |front| {
        let gate = Gate::new();
        let mut late = dispatch(front.handle(), Script::HoldThenAsk(gate)).await.unwrap();
        assert_eq!(late.head(&mut Vec::new()).await, Err(ExchangeError::Silent));
        drop(late);
        gate.open();
        front.expect_idle().await;
        assert_eq!(gate.answers()[1].as_deref(), Some(&b"late"[..]));
    });
}
