//! Requests that wait for a slot.

use tokio::sync::oneshot::error::TryRecvError;

use super::*;

fn of_client(client: u128) -> QueuePlace {
    QueuePlace { client, ..QueuePlace::default() }
}

#[test]
fn nobody_waits_for_a_zygote_that_gives_no_slots_any_more() {
    for end in [Zygote::condemn, Zygote::cut_off_waiting] {
        let played = played(Scaling::Static, &[]);
        let mut leases = Vec::new();
        let mut before = loop {
            let mut waits = played.zygote.join_queue(of_client(1)).unwrap();
            match waits.try_recv() {
                Ok(lease) => leases.push(lease),
                Err(error) => {
                    assert_eq!(error, TryRecvError::Empty);
                    break waits;
                }
            }
        };
        end(&played.zygote);
        let mut after = played.zygote.join_queue(of_client(2)).unwrap();
        assert_eq!(before.try_recv().err(), Some(TryRecvError::Closed));
        assert_eq!(after.try_recv().err(), Some(TryRecvError::Closed));
        assert_eq!(played.zygote.waiting.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_request_that_had_a_slot_is_not_refused() {
    let played = played(Scaling::Static, &[]);
    played.start(0..PLACES);
    let (mut kept, mut client) = (Vec::new(), 0);
    let refused = loop {
        client += 1;
        match played.zygote.join_queue(of_client(client)) {
            Ok(waits) => kept.push(waits),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, DispatchError::QueueFull);
    assert_eq!(kept.len(), PLACES + 100);
    let again = QueuePlace {
        since: Some(Instant::now()),
        ..of_client(client)
    };
    assert!(played.zygote.join_queue(again).is_ok());
}

#[test]
fn a_lane_has_the_place_of_a_request_that_found_no_slot() {
    let played = played(Scaling::Static, &[lane("all", 9), lane("own", 9)]);
    played.start(0..PLACES);
    while played.zygote.front.checkout().is_some() {}
    assert!(played.zygote.try_lease(1).is_none());
    let running = played.zygote.lane_figures().iter().map(|lane| lane.running).sum::<usize>();
    assert_eq!(running, 0);
}
