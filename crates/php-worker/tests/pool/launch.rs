//! The start of a zygote by a test that plays supervisor and front.

use std::ffi::CString;
use std::fs::File;
use std::io::PipeReader;
use std::os::fd::{AsFd, OwnedFd};

use howdah_ipc::control::{FromZygote, MOST_BYTES};
use howdah_sys::process::{Pid, Program};
use howdah_sys::seqpacket::SeqPacket;

/// A zygote that has got its first message.
pub struct Launched {
    pub zygote: Pid,
    pub supervisor: SeqPacket,
    pub front_socket: SeqPacket,
    pub log: PipeReader,
}

/// Starts a zygote, and sends it `first` with the list of scripts.
pub fn launch(first: &[u8], list: Option<OwnedFd>) -> Launched {
    let (supervisor, their_supervisor) = SeqPacket::pair().unwrap();
    let (front_socket, their_front) = SeqPacket::pair().unwrap();
    let (log, their_log) = std::io::pipe().unwrap();
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let descriptors = vec![
        OwnedFd::from(null.try_clone().unwrap()),
        OwnedFd::from(null),
        OwnedFd::from(their_log),
        OwnedFd::from(their_supervisor),
        OwnedFd::from(their_front),
    ];
    let text = |text: &str| CString::new(text).unwrap();
    let program = Program {
        path: text(env!("CARGO_BIN_EXE_howdah-php")),
        arguments: vec![text("howdah-php"), text("zygote")],
        environment: vec![text("HOME=/nowhere")],
        descriptors,
        identity: None,
        umask: 0o022,
        descriptor_limit: None,
        death_signal: Some(9),
        confinement: howdah_sys::confinement::Confinement::default(),
    };
    let zygote = program.start().unwrap();
    drop(program);
    let list: Vec<_> = list.iter().map(AsFd::as_fd).collect();
    supervisor.send(first, &list).unwrap();
    Launched { zygote, supervisor, front_socket, log }
}

/// Returns the reason for which a zygote does not start after `first`, its first message.
pub fn refusal(first: &[u8]) -> String {
    let launched = launch(first, None);
    let mut buffer = vec![0; MOST_BYTES];
    let received = launched.supervisor.receive(&mut buffer).unwrap();
    match FromZygote::decode(&buffer[..received.length]).unwrap() {
        FromZygote::Failed { reason } => reason,
        other => panic!("the zygote starts: {other:?}"),
    }
}
