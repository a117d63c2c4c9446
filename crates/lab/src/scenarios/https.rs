//! TLS on all servers with the same certificate: handshakes, HTTP/1.1, HTTP/2 and HTTP/3, and the
//! memory of idle connections.

use std::rc::Rc;
use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::load::{Closed, Load, LoadProtocol, Question, TlsHandshake};
use crate::plan::{CellGroup, Effort, GroupConditions, Plan, PlannedCell};
use crate::record::{Bound, CellTarget, Figure};
use crate::stack::Stack;
use crate::stacks;
use crate::tls::KeyKind;

/// Connections of the closed loops with one stream each, and PHP processes of each stack.
const CONNECTIONS: usize = 32;
/// Connections of the closed loops with several streams each.
const SHARED: usize = 8;
/// Streams at once on one connection.
const STREAMS: usize = 32;
/// Clients that make handshakes at once.
const CLIENTS: usize = 8;
/// Idle connections.
const CROWD: usize = 10_000;
/// PHP processes beside the idle connections.
const FEW: usize = 8;

/// Many short rounds say more than few long ones.
pub(super) const EFFORT: Effort = Effort {
    rounds: 7,
    time: Duration::from_secs(2),
    ..Effort::FULL
};

/// The measured stacks.
const USUAL: &[&str] = &["howdah", "nginx-fpm", "apache-event-fpm", "lighttpd-fpm", "h2o", "caddy"];
/// The stacks of a quick run.
const QUICK: &[&str] = &["howdah", "nginx-fpm", "apache-event-fpm", "h2o"];
/// Stacks without a process or a thread for each idle connection.
const WITH_MANY_CONNECTIONS: &[&str] = &["howdah", "nginx-fpm", "lighttpd-fpm", "h2o", "caddy"];

const OURS: &str = "howdah";
const OURS_OVER_HTTP3: &str = "howdah-http3";
const CROWD_CELL: &str = "memory with 10,000 idle TLS connections";

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let quick = facts.effort.quick;
    let chosen = facts.stacks(if quick { QUICK } else { USUAL })?;
    let mut groups = vec![
        handshakes(facts, &chosen, KeyKind::EcdsaP256),
        handshakes(facts, &chosen, KeyKind::Rsa2048),
        throughput(facts, &chosen),
    ];
    if chosen.iter().any(|stack| stack.name() == OURS) {
        groups.push(http3(facts)?);
    }
    if !quick {
        groups.push(crowd(&chosen));
    }
    groups.retain(|group| !group.stacks.is_empty());
    let targets = targets(&groups);
    let mut notes: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
    if quick {
        notes.push(
            "a quick run leaves out lighttpd, Caddy, idle connections, resumption with \
                    RSA and HTTP/1.1"
                .to_owned(),
        );
    }
    Ok(Plan {
        groups,
        notes,
        targets,
        ..Plan::default()
    })
}

fn encrypted(conditions: GroupConditions, kind: KeyKind) -> GroupConditions {
    GroupConditions { tls: Some(kind), ..conditions }
}

/// A document over that protocol.
fn over(protocol: LoadProtocol, path: &str) -> Question {
    Question { protocol, ..page(path) }
}

fn key_name(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::EcdsaP256 => "ECDSA P-256",
        KeyKind::Rsa2048 => "RSA 2048",
    }
}

fn handshake_cell(kind: KeyKind, handshake: TlsHandshake) -> String {
    let what = match handshake {
        TlsHandshake::Full => "full handshakes",
        TlsHandshake::Resumed => "resumed handshakes",
    };
    format!("{what} with {}", key_name(kind))
}

fn handshakes(facts: &Facts, chosen: &[Rc<dyn Stack>], kind: KeyKind) -> CellGroup {
    let closed = Closed {
        connections: CLIENTS,
        time: facts.effort.time,
    };
    let kinds: &[TlsHandshake] = if facts.effort.quick && kind == KeyKind::Rsa2048 {
        &[TlsHandshake::Full]
    } else {
        &[TlsHandshake::Full, TlsHandshake::Resumed]
    };
    let cells = kinds.iter().map(|handshake| {
        let name = handshake_cell(kind, *handshake);
        let load = Load::Handshakes(closed, *handshake);
        cell(&name, None, Figure::PerCpuSecond, over(LoadProtocol::Https, "/2B.txt"), load)
    });
    CellGroup {
        title: format!("handshakes, {}", key_name(kind)),
        stacks: chosen.to_vec(),
        conditions: encrypted(together(FEW, CONNECTIONS), kind),
        cells: cells.collect(),
    }
}

/// A protocol with its streams, as a cell is named after it.
#[derive(Clone, Copy)]
struct Way {
    protocol: LoadProtocol,
    connections: usize,
    streams: usize,
    name: &'static str,
}

const HTTP1: Way = Way {
    protocol: LoadProtocol::Https,
    connections: CONNECTIONS,
    streams: 1,
    name: "HTTP/1.1",
};
const HTTP2: Way = Way {
    protocol: LoadProtocol::Http2,
    name: "HTTP/2",
    ..HTTP1
};
const HTTP2_STREAMS: Way = Way {
    connections: SHARED,
    streams: STREAMS,
    name: "HTTP/2 with 32 streams",
    ..HTTP2
};

impl Way {
    fn cell(self, path: &str, figure: Figure, time: Duration) -> PlannedCell {
        let closed = Closed { connections: self.connections, time };
        let load = Load::H2load(closed, self.streams);
        cell(&self.cell_name(path), None, figure, over(self.protocol, path), load)
    }

    fn cell_name(self, path: &str) -> String {
        format!("{} over {}", path.trim_start_matches('/'), self.name)
    }
}

const PHP: &str = "/HelloWorld.php";
const SMALL: &str = "/HelloWorld.txt";
const LARGE: [&str; 2] = ["/100KB.txt", "/1MB.txt"];

fn ways(facts: &Facts) -> &'static [Way] {
    if facts.effort.quick {
        &[HTTP2, HTTP2_STREAMS]
    } else {
        &[HTTP1, HTTP2, HTTP2_STREAMS]
    }
}

fn throughput(facts: &Facts, chosen: &[Rc<dyn Stack>]) -> CellGroup {
    let (time, figure) = (facts.effort.time, Figure::RequestsPerSecond);
    let small = [PHP, SMALL]
        .into_iter()
        .flat_map(|path| ways(facts).iter().map(move |way| way.cell(path, figure, time)));
    let large = LARGE.map(|path| HTTP2.cell(path, figure, time));
    CellGroup {
        title: "pages and files over TLS".to_owned(),
        stacks: chosen.to_vec(),
        conditions: encrypted(together(CONNECTIONS, SHARED * STREAMS), KeyKind::EcdsaP256),
        cells: small.chain(large).collect(),
    }
}

/// Names that a cell of HTTP/2 beside HTTP/3 has.
fn http3_cell(path: &str) -> String {
    format!("{} over HTTP/3 and HTTP/2", path.trim_start_matches('/'))
}

fn http3(facts: &Facts) -> Result<CellGroup, String> {
    let paths: &[&str] = if facts.effort.quick {
        &[PHP, SMALL]
    } else {
        &[PHP, SMALL, LARGE[0]]
    };
    let cells = paths.iter().map(|path| {
        let way = if LARGE.contains(path) { HTTP2 } else { HTTP2_STREAMS };
        let cell = way.cell(path, Figure::PerCpuSecond, facts.effort.time);
        let name = http3_cell(path);
        PlannedCell { chart: name.clone(), name, ..cell }
    });
    Ok(CellGroup {
        title: "HTTP/3 beside HTTP/2".to_owned(),
        stacks: stacks::named(&[OURS, OURS_OVER_HTTP3])?,
        conditions: encrypted(together(CONNECTIONS, SHARED * STREAMS), KeyKind::EcdsaP256),
        cells: cells.collect(),
    })
}

fn crowd(chosen: &[Rc<dyn Stack>]) -> CellGroup {
    let idle = Load::Idle(Closed {
        connections: CROWD,
        time: Duration::from_secs(1),
    });
    let cell = cell(CROWD_CELL, None, Figure::PeakPss, over(LoadProtocol::Https, "/2B.txt"), idle);
    let has_many_connections =
        |stack: &&Rc<dyn Stack>| WITH_MANY_CONNECTIONS.contains(&stack.name());
    CellGroup {
        title: "idle TLS connections".to_owned(),
        stacks: chosen.iter().filter(has_many_connections).cloned().collect(),
        conditions: GroupConditions {
            alone: true,
            ..encrypted(together(FEW, CROWD), KeyKind::EcdsaP256)
        },
        cells: vec![PlannedCell { most_rounds: Some(2), ..cell }],
    }
}

fn targets(groups: &[CellGroup]) -> Vec<CellTarget> {
    let peers: Vec<&str> = USUAL.iter().copied().filter(|name| *name != OURS).collect();
    let target = |cell: String, figure, ours: &str, against: &[&str], bound| CellTarget {
        cell,
        figure,
        ours: ours.to_owned(),
        against: against.iter().map(|name| (*name).to_owned()).collect(),
        bound,
    };
    let mut targets = Vec::new();
    for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048] {
        for handshake in [TlsHandshake::Full, TlsHandshake::Resumed] {
            let (name, figure) = (handshake_cell(kind, handshake), Figure::PerCpuSecond);
            targets.push(target(name, figure, OURS, &peers, Bound::AtLeast(1.0)));
        }
    }
    for way in [HTTP1, HTTP2, HTTP2_STREAMS] {
        for figure in [Figure::RequestsPerSecond, Figure::CpuPerRequest] {
            let (php, file) = (way.cell_name(PHP), way.cell_name(SMALL));
            targets.push(target(php, figure, OURS, &["nginx-fpm"], Bound::AtLeast(1.5)));
            targets.push(target(file, figure, OURS, &peers, Bound::AtLeast(1.0)));
        }
    }
    for path in LARGE {
        for figure in [Figure::RequestsPerSecond, Figure::CpuPerRequest] {
            let name = HTTP2.cell_name(path);
            targets.push(target(name, figure, OURS, &peers, Bound::AtLeast(1.0)));
        }
    }
    for path in [PHP, SMALL, LARGE[0]] {
        let (name, bound) = (http3_cell(path), Bound::AtLeast(0.6));
        targets.push(target(name, Figure::PerCpuSecond, OURS_OVER_HTTP3, &[OURS], bound));
    }
    let most = Bound::AtMost(1.0);
    for figure in [Figure::PeakPss, Figure::FrontPss] {
        targets.push(target(CROWD_CELL.to_owned(), figure, OURS, &["nginx-fpm"], most));
    }
    targets.retain(|target| is_asked(groups, target));
    targets
}

/// Returns whether the cell is planned for our stack and for one of the others.
fn is_asked(groups: &[CellGroup], target: &CellTarget) -> bool {
    let has_cell = |group: &&CellGroup| group.cells.iter().any(|cell| cell.name == target.cell);
    groups.iter().find(has_cell).is_some_and(|group| {
        let has = |name: &String| group.stacks.iter().any(|stack| stack.name() == name);
        has(&target.ours) && target.against.iter().any(has)
    })
}

const NOTES: &[&str] = &[
    "One certificate for all, signed by itself. The clients offer TLS 1.3 and 1.2, the key \
     exchange X25519 and AES-128-GCM only, so that all servers compute the same",
    "A handshake is a new connection with one request for a file of two bytes, which is in the \
     figure. Eight clients on one processor make them; where the load generator is the limit, the \
     handshakes per second of the server's processor time still count. The clients do not check \
     signatures while they measure; a connection before does. h2o and lighttpd give no ticket on a \
     resumed connection, so they cannot be resumed again and again",
    "Over HTTP/1.1 and HTTP/2, 32 connections ask for one thing at a time; with 32 streams, 8 \
     connections for 32 at a time. lighttpd allows 8 streams, whatever the client wants",
    "HTTP/3 is asked by a client of the laboratory (quinn), since Debian's h2load has no HTTP/3. \
     It is compared in requests per second of the server's processor time. QUIC's key exchange and \
     cipher are the same",
    "Howdah's answers carry Alt-Svc besides, which names HTTP/3",
];
