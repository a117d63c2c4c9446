use super::*;

fn to_front() -> Vec<ToFront> {
    vec![
        ToFront::Drain { keep_idle: true },
        ToFront::Drain { keep_idle: false },
        ToFront::KeepTunnels(true),
        ToFront::KeepTunnels(false),
        ToFront::PoolReplaced { pool: 3, zygote: 9 },
        ToFront::Status { id: u64::MAX },
        ToFront::ReopenLogs { first: 200 },
        ToFront::Present {
            id: 9,
            answer: ChallengeAnswer::Http { token: "a".into(), content: "a.b".into() },
        },
        ToFront::Withdraw { id: 9 },
        ToFront::StatusJson { id: 9 },
        ToFront::Monitor {
            id: 9,
            received: b"GET / HTTP/1.1\r\n".to_vec(),
        },
        ToFront::Certificates { site: 2 },
        ToFront::OneCertificate { site: 2 },
        ToFront::Closed { site: 2, why: Some("no key".into()) },
        ToFront::Closed { site: 2, why: None },
        ToFront::ClientAuthorities { site: 2 },
        ToFront::Renewals {
            names: vec![("a.example".into(), Some(9)), ("b.example".into(), None)],
        },
        ToFront::TicketKeys,
        ToFront::ReadPackets,
    ]
    .into_iter()
    .chain(reasons())
    .collect()
}

fn reasons() -> impl Iterator<Item = ToFront> {
    let reason = |topic, why| ToFront::Reason { topic, site: 2, why };
    let whys = [Some("a reason".to_owned()), None];
    let topics = ReasonTopic::ALL.into_iter();
    topics.flat_map(move |topic| whys.clone().map(|why| reason(topic, why)))
}

fn from_front() -> Vec<FromFront> {
    let facts = |workers| PoolFacts {
        php_version: "8.2.29".into(),
        opcache: "on".into(),
        workers,
    };
    vec![
        FromFront::Ready { pools: vec![] },
        FromFront::Ready { pools: vec![facts(8), facts(0)] },
        FromFront::Closed,
        FromFront::Drained,
        FromFront::Status { id: 7, text: "all\nwell".into() },
        FromFront::PoolBroken {
            pool: 1,
            zygote: Some(2),
            reason: "nonsense".into(),
        },
        FromFront::Presented { id: 9 },
        FromFront::StatusTaken { id: 9 },
        FromFront::Demand(Demand {
            name: "a.example.org".into(),
            has_folder: true,
            site: "customers".into(),
            owner: Some(1001),
            domain: "example.org".into(),
        }),
        FromFront::Demand(Demand {
            name: "a.example.org".into(),
            has_folder: false,
            site: "customers".into(),
            owner: None,
            domain: "example.org".into(),
        }),
    ]
}

#[test]
fn messages_survive_the_way() {
    for message in to_front() {
        assert_eq!(ToFront::decode(&message.encode()).unwrap(), message);
    }
    for message in from_front() {
        assert_eq!(FromFront::decode(&message.encode()).unwrap(), message);
    }
}

#[test]
fn a_message_that_is_cut_off_is_malformed() {
    for bytes in to_front().iter().map(ToFront::encode) {
        for end in 0..bytes.len() {
            assert!(ToFront::decode(&bytes[..end]).is_err());
        }
    }
    for bytes in from_front().iter().map(FromFront::encode) {
        for end in 0..bytes.len() {
            assert!(FromFront::decode(&bytes[..end]).is_err());
        }
    }
    assert!(ToFront::decode(&[99]).is_err());
    let endless = [&[1][..], &u64::MAX.to_ne_bytes()].concat();
    assert!(FromFront::decode(&endless).is_err());
}
