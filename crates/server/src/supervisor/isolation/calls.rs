//! The system calls that are refused.

use howdah_config::{Destination, Sandbox};
use howdah_sys::seccomp::{SeccompRules, SeccompVerdict, calls};

/// Values of `personality(2)` that a strict sandbox leaves: the usual one, and the question which
/// one it is.
const USUAL_PERSONALITY: &[u32] = &[0, u32::MAX];

/// Returns the rules for a pool: everything is allowed but what serves attacks.
pub(super) fn of_pool(level: Sandbox, connect: Option<&[Destination]>) -> SeccompRules {
    let mut rules = SeccompRules::new(SeccompVerdict::Allow);
    for group in dangerous() {
        rules = rules.set(group, &SeccompVerdict::NOT_PERMITTED);
    }
    rules = rules
        .set(calls::CLONE, &SeccompVerdict::without_bits(0, calls::NAMESPACES))
        .set(calls::CLONE3, &SeccompVerdict::NOT_THERE)
        .set(calls::UNSHARE, &SeccompVerdict::without_bits(0, calls::NAMESPACES_TO_UNSHARE))
        // Typing into the terminal that the server was started from.
        .set(calls::IOCTL, &SeccompVerdict::none_of(1, calls::TERMINAL_INPUT))
        .set(calls::SOCKET, &sockets(connect))
        // The kernel asks for the same user only, and pools may have one.
        .set(calls::SCHEDULING, &SeccompVerdict::only(0, &[0]))
        .set(calls::PRLIMIT, &own_limits())
        .set(calls::SETPRIORITY, &own_priority(calls::PRIORITY_OF_PROCESS))
        .set(calls::IOPRIO_SET, &own_priority(calls::DISK_PRIORITY_OF_PROCESS));
    if connect.is_some() {
        // A connection that is made while sending passes Landlock.
        rules = rules
            .set(calls::SENDTO, &SeccompVerdict::without_bits(3, calls::FAST_OPEN))
            .set(calls::SENDMSG, &SeccompVerdict::without_bits(2, calls::FAST_OPEN));
    }
    if level == Sandbox::Strict {
        rules = rules
            .set(calls::PERSONALITY, &SeccompVerdict::only(0, USUAL_PERSONALITY))
            // A socket that was not bound gets a port by this call, which Landlock does not see.
            .set(calls::LISTEN, &SeccompVerdict::NOT_PERMITTED);
    }
    rules
}

/// The rules of a pool whose zygote keeps the right to change the root folder. Without that right
/// the kernel refuses the call with the same error.
pub(super) fn with_chroot(rules: SeccompRules) -> SeccompRules {
    rules.set(calls::CHROOT, &SeccompVerdict::Allow)
}

/// Returns the rules for the front: nothing is allowed but what it needs.
///
/// Unknown calls get `ENOSYS`, because C libraries then take an older call.
pub(super) fn of_front() -> SeccompRules {
    let mut rules = SeccompRules::new(SeccompVerdict::NOT_THERE);
    for group in dangerous() {
        rules = rules.set(group, &SeccompVerdict::NOT_PERMITTED);
    }
    rules
        .set(calls::OLD_FORKS, &SeccompVerdict::NOT_PERMITTED)
        .set(calls::PROGRAMS_AND_IDENTITIES, &SeccompVerdict::NOT_PERMITTED)
        .set(calls::SERVER, &SeccompVerdict::Allow)
        .set(calls::SERVER_OLD, &SeccompVerdict::Allow)
        .set(calls::CLONE, &SeccompVerdict::with_bits(0, calls::THREAD))
        .set(calls::CLONE3, &SeccompVerdict::NOT_THERE)
        .set(calls::UNSHARE, &SeccompVerdict::NOT_PERMITTED)
        .set(calls::IOCTL, &SeccompVerdict::only(1, calls::DESCRIPTOR_REQUESTS))
        .set(
            calls::SOCKET,
            &families(&[calls::UNIX, calls::INET, calls::INET6], SeccompVerdict::Allow),
        )
        .set(calls::SOCKETPAIR, &families(&[calls::UNIX], SeccompVerdict::Allow))
        .set(calls::PRCTL, &own_attributes())
}

/// The front stays a process that nobody may look into.
fn own_attributes() -> SeccompVerdict {
    SeccompVerdict::Argument {
        index: 0,
        mask: u32::MAX,
        values: vec![calls::SET_DUMPABLE],
        then: Box::new(SeccompVerdict::only(1, &[0])),
        otherwise: Box::new(SeccompVerdict::only(0, calls::OWN_ATTRIBUTES)),
    }
}

/// Limits are set by the process itself, and read of every process.
fn own_limits() -> SeccompVerdict {
    SeccompVerdict::Null {
        index: 2,
        then: Box::new(SeccompVerdict::Allow),
        otherwise: Box::new(SeccompVerdict::only(0, &[0])),
    }
}

/// A priority is set by the process itself. `kind` says that the next argument is a process.
fn own_priority(kind: u32) -> SeccompVerdict {
    SeccompVerdict::Argument {
        index: 0,
        mask: u32::MAX,
        values: vec![kind],
        then: Box::new(SeccompVerdict::only(1, &[0])),
        otherwise: Box::new(SeccompVerdict::NOT_PERMITTED),
    }
}

fn dangerous() -> [&'static [calls::Number]; 8] {
    [
        calls::OTHER_PROCESSES,
        calls::MOUNTS,
        calls::MODULES,
        calls::KEYS,
        calls::KERNEL_PROGRAMS,
        calls::MACHINE,
        calls::HARDWARE,
        calls::SETNS,
    ]
}

/// The sockets that a pool may make.
fn sockets(connect: Option<&[Destination]>) -> SeccompVerdict {
    let Some(destinations) = connect else {
        let internet = of_type(calls::STREAM, calls::TCP, SeccompVerdict::Allow);
        return internet_or(internet, &[calls::UNIX, calls::NETLINK]);
    };
    let unix = destinations
        .iter()
        .any(|destination| matches!(destination, Destination::Unix(_)));
    let tcp = destinations.iter().any(|destination| destination.port().is_some());
    let udp = destinations.contains(&Destination::Udp);
    let mut internet = SeccompVerdict::NOT_PERMITTED;
    if udp {
        internet = of_type(calls::DATAGRAM, calls::UDP, internet);
    }
    if tcp {
        internet = of_type(calls::STREAM, calls::TCP, internet);
    }
    let local: &[u32] = if unix {
        &[calls::UNIX, calls::NETLINK]
    } else {
        &[calls::NETLINK]
    };
    internet_or(internet, local)
}

/// Sockets of the families `local`, and those that `internet` allows.
fn internet_or(internet: SeccompVerdict, local: &[u32]) -> SeccompVerdict {
    SeccompVerdict::Argument {
        index: 0,
        mask: u32::MAX,
        values: vec![calls::INET, calls::INET6],
        then: Box::new(internet),
        otherwise: Box::new(families(local, SeccompVerdict::Allow)),
    }
}

/// Sockets of this type need one of these protocols; `otherwise` decides on other types.
fn of_type(kind: u32, protocols: &[u32], otherwise: SeccompVerdict) -> SeccompVerdict {
    SeccompVerdict::Argument {
        index: 1,
        mask: calls::SOCKET_TYPE,
        values: vec![kind],
        then: Box::new(SeccompVerdict::Argument {
            index: 2,
            mask: u32::MAX,
            values: protocols.to_vec(),
            then: Box::new(SeccompVerdict::Allow),
            otherwise: Box::new(SeccompVerdict::Refuse(calls::NO_SUCH_PROTOCOL)),
        }),
        otherwise: Box::new(otherwise),
    }
}

fn families(families: &[u32], then: SeccompVerdict) -> SeccompVerdict {
    SeccompVerdict::Argument {
        index: 0,
        mask: u32::MAX,
        values: families.to_vec(),
        then: Box::new(then),
        otherwise: Box::new(SeccompVerdict::Refuse(calls::NO_SUCH_FAMILY)),
    }
}
