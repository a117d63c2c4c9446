//! The workers of the zygote: threads that run scripts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use howdah_ipc::control::{AttachMessage, FromZygote};
use howdah_ipc::request::{DecodedRequest, FixedText};
use howdah_ipc::response::{HeadEncoder, HeadKind};
use howdah_ipc::worker::{Attachment, WorkerJob};
use howdah_sys::seqpacket::SeqPacket;

use super::{Gate, Staff, buried, copy};

/// A worker's place: one worker after the other.
pub(super) fn live(
    attach: &AttachMessage,
    mut attachment: Attachment,
    index: usize,
    socket: &SeqPacket,
    staff: &Staff,
) {
    for deaths in 1.. {
        let pid = staff.pids.fetch_add(1, Ordering::Relaxed);
        if socket
            .send(&FromZygote::Started { worker: index as u64, pid }.encode(), &[])
            .is_err()
        {
            return;
        }
        let mut worker = attachment.worker(index).unwrap();
        let Death { status, successor } = loop {
            let Ok(Some(job)) = worker.next(&AtomicBool::new(false)) else {
                return;
            };
            if let Some(death) = run(attach, staff, job) {
                break death;
            }
        };
        attachment = buried(attach, index, deaths);
        let died = FromZygote::Died {
            worker: index as u64,
            pid,
            status,
            processor: 1_000_000,
        };
        if socket.send(&died.encode(), &[]).is_err() {
            return;
        }
        successor.into_iter().for_each(Gate::pass);
    }
}

/// The death of a worker.
struct Death {
    status: u64,
    /// Number of the gate that its successor waits at.
    successor: Option<u64>,
}

impl Death {
    fn of(status: u64) -> Option<Death> {
        Some(Death { status, successor: None })
    }
}

/// Runs one request. `Some`: the worker dies, its slot as it is.
fn run(attach: &AttachMessage, staff: &Staff, job: WorkerJob<'_>) -> Option<Death> {
    let WorkerJob { request, mut writer, .. } = job;
    let request = DecodedRequest::decode(request).unwrap();
    let name = std::str::from_utf8(request.fixed(FixedText::Script).unwrap())
        .unwrap()
        .to_owned();
    let (what, number) = name.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let pause = || {
        if number > 10_000 {
            staff.sleepers.lock().unwrap().push(copy(attach));
        }
        std::thread::sleep(Duration::from_millis(number));
    };
    if what == "die" {
        std::mem::forget(writer);
        return Death::of(number);
    }
    if what == "die-alone" {
        std::mem::forget(writer);
        return Some(Death { status: 9, successor: Some(number) });
    }
    match what {
        "sleep" => pause(),
        "hold" => Gate::pass(number),
        "hold-then-ask" => {
            Gate::pass(number);
            ANSWERS.lock().unwrap().push((number, writer.ask(b"nobody reads")));
            let why = if writer.is_late() { &b"late"[..] } else { b"unread" };
            ANSWERS.lock().unwrap().push((number, Some(why.to_vec())));
            // The front sees the question before the script has ended.
            std::thread::sleep(Duration::from_millis(50));
        }
        _ => {}
    }
    if what == "nothing" {
        return None;
    }
    if what == "head-in-two" {
        let mut head = HeadEncoder::default();
        head.begin(HeadKind::Final, 200, b"");
        let (first, second) = head.finish().unwrap().split_at(9);
        let _ = writer.write(first);
        writer.flush();
        Gate::pass(number);
        let _ = writer.write(second);
        return None;
    }
    let _ = writer.send_head(HeadKind::Final, 200, b"", std::iter::empty());
    match what {
        "bytes" => drop(writer.write(&vec![b'x'; number as usize])),
        "bytes-then-die" => {
            let _ = writer.write(&vec![b'x'; number as usize]);
            writer.flush();
            std::thread::sleep(Duration::from_millis(20));
            std::mem::forget(writer);
            return Death::of(11);
        }
        "hold-then-print" => {
            Gate::pass(number);
            let printed = writer.write(b"more").is_ok();
            ANSWERS.lock().unwrap().push((number, printed.then(Vec::new)));
        }
        "print-then-hold" => {
            let _ = writer.write(b"some");
            Gate::pass(number);
        }
        "end-then-die" => {
            let _ = writer.write(b"early");
            writer.end();
            std::mem::forget(writer);
            return Death::of(number);
        }
        "ask" => {
            for question in 1..=number {
                let answer = writer.ask(format!("{question}").as_bytes()).expect("an answer");
                let _ = writer.write(&[&answer[..], b";"].concat());
            }
        }
        "end-then-ask" => {
            let _ = writer.write(b"early");
            writer.end();
            Gate::pass(number);
            for question in [b"1", b"2"] {
                ANSWERS.lock().unwrap().push((number, writer.ask(question)));
            }
        }
        "end-then-hold" => {
            let _ = writer.write(b"early");
            writer.end();
            Gate::pass(number);
        }
        _ => {}
    }
    None
}

/// The answers that scripts got whose responses nobody reads, with the number of their gate.
static ANSWERS: Mutex<Vec<(u64, Option<Vec<u8>>)>> = Mutex::new(Vec::new());

/// Returns the answers to the script of this gate.
pub(super) fn answers(gate: u64) -> Vec<Option<Vec<u8>>> {
    let answers = ANSWERS.lock().unwrap();
    answers
        .iter()
        .filter(|(of, _)| *of == gate)
        .map(|(_, answer)| answer.clone())
        .collect()
}
