//! Groups of system calls, for filters. A call that an architecture lacks is left out there.

use libc::c_long;

/// The number of a system call (`SYS_…`).
pub type Number = c_long;

/// A list of `SYS_` numbers.
macro_rules! calls {
    ($($name:ident),+ $(,)?) => { &[$(libc::$name),+] };
}

/// Returns the number of a call by its name, for tests: of those that attacks use, and of
/// `openat2`. `None` for other names.
pub fn number(name: &str) -> Option<Number> {
    let known = [
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("kcmp", libc::SYS_kcmp),
        ("unshare", libc::SYS_unshare),
        ("setns", libc::SYS_setns),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("mount", libc::SYS_mount),
        ("openat2", libc::SYS_openat2),
        ("fsopen", libc::SYS_fsopen),
        ("open_tree", libc::SYS_open_tree),
        ("chroot", libc::SYS_chroot),
        ("bpf", libc::SYS_bpf),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("init_module", libc::SYS_init_module),
        ("kexec_load", libc::SYS_kexec_load),
        ("syslog", libc::SYS_syslog),
        ("ioctl", libc::SYS_ioctl),
        ("socket", libc::SYS_socket),
        ("listen", libc::SYS_listen),
        ("prlimit64", libc::SYS_prlimit64),
        ("setpriority", libc::SYS_setpriority),
        ("ioprio_set", libc::SYS_ioprio_set),
        ("sched_setaffinity", libc::SYS_sched_setaffinity),
        ("sched_setscheduler", libc::SYS_sched_setscheduler),
        ("sched_setparam", libc::SYS_sched_setparam),
        ("sched_setattr", libc::SYS_sched_setattr),
        ("migrate_pages", libc::SYS_migrate_pages),
        ("move_pages", libc::SYS_move_pages),
    ];
    known.into_iter().find(|(known, _)| *known == name).map(|(_, number)| number)
}

/// Looking into other processes and taking their memory or descriptors.
pub const OTHER_PROCESSES: &[Number] = calls![
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
];

/// Changing how the kernel schedules a process, or where its memory is. The first argument is the
/// process, 0 for the caller.
pub const SCHEDULING: &[Number] = calls![
    SYS_sched_setaffinity,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_migrate_pages,
    SYS_move_pages,
];
/// `prlimit`: its first argument is the process, 0 for the caller, its third one the new limit.
pub const PRLIMIT: &[Number] = calls![SYS_prlimit64];
/// `setpriority`: its first argument says what the second one is the number of.
pub const SETPRIORITY: &[Number] = calls![SYS_setpriority];
/// A first argument of [`SETPRIORITY`]: a process (`PRIO_PROCESS`), 0 for the caller.
pub const PRIORITY_OF_PROCESS: u32 = 0;
/// `ioprio_set`: as [`SETPRIORITY`], for the disk.
pub const IOPRIO_SET: &[Number] = calls![SYS_ioprio_set];
/// A first argument of [`IOPRIO_SET`]: a process (`IOPRIO_WHO_PROCESS`), 0 for the caller.
pub const DISK_PRIORITY_OF_PROCESS: u32 = 1;

/// Mounting, and changing the root folder.
pub const MOUNTS: &[Number] = calls![
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_quotactl,
    SYS_quotactl_fd,
];

/// Changing the root folder. One of [`MOUNTS`].
pub const CHROOT: &[Number] = calls![SYS_chroot];

/// The kernel's modules and its replacement.
pub const MODULES: &[Number] = calls![
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
];

/// The kernel's key rings.
pub const KEYS: &[Number] = calls![SYS_add_key, SYS_request_key, SYS_keyctl];

/// Interfaces of the kernel that run programs or watch the machine, and that had many holes.
pub const KERNEL_PROGRAMS: &[Number] = calls![
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
];

/// The state of the whole machine: its clock, names, swap space, kernel log and power.
pub const MACHINE: &[Number] = calls![
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_swapon,
    SYS_swapoff,
    SYS_syslog,
    SYS_reboot,
    SYS_acct,
    SYS_vhangup,
];

/// Old interfaces to x86 hardware.
#[cfg(target_arch = "x86_64")]
pub const HARDWARE: &[Number] = calls![SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib];
/// Old interfaces to x86 hardware: none.
#[cfg(not(target_arch = "x86_64"))]
pub const HARDWARE: &[Number] = &[];

/// Old calls that create a process. Newer architectures have only `clone` and `clone3`.
#[cfg(target_arch = "x86_64")]
pub const OLD_FORKS: &[Number] = calls![SYS_fork, SYS_vfork];
/// Old calls that create a process: none.
#[cfg(not(target_arch = "x86_64"))]
pub const OLD_FORKS: &[Number] = &[];

/// Executing programs, signals to others, and changes of identity.
pub const PROGRAMS_AND_IDENTITIES: &[Number] = calls![
    SYS_execve,
    SYS_execveat,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_pidfd_open,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_capset,
    SYS_setsid,
    SYS_setpgid,
    SYS_bind,
    SYS_listen,
];

/// Joining a namespace.
pub const SETNS: &[Number] = calls![SYS_setns];
/// Leaving a namespace. The first argument has the namespaces as bits.
pub const UNSHARE: &[Number] = calls![SYS_unshare];
/// Creating a process or a thread. The first argument has flags.
pub const CLONE: &[Number] = calls![SYS_clone];
/// Creating a process or a thread. The flags are in memory, where no filter can read them.
pub const CLONE3: &[Number] = calls![SYS_clone3];
/// Device requests. The second argument is the request.
pub const IOCTL: &[Number] = calls![SYS_ioctl];
/// Creating a socket: family, type and protocol.
pub const SOCKET: &[Number] = calls![SYS_socket];
/// Creating a pair of connected sockets.
pub const SOCKETPAIR: &[Number] = calls![SYS_socketpair];
/// Attributes of the process. The first argument is the attribute.
pub const PRCTL: &[Number] = calls![SYS_prctl];
/// The execution domain, which also turns off protections such as random addresses.
pub const PERSONALITY: &[Number] = calls![SYS_personality];
/// Sending. The fourth argument has flags.
pub const SENDTO: &[Number] = calls![SYS_sendto, SYS_sendmmsg];
/// Sending with descriptors. The third argument has flags.
pub const SENDMSG: &[Number] = calls![SYS_sendmsg];

/// Bits of [`CLONE`] and [`UNSHARE`] that make namespaces: `CLONE_NEWNS`, `CGROUP`, `UTS`, `IPC`,
/// `USER`, `PID` and `NET`.
pub const NAMESPACES: u32 = 0x7E02_0000;
/// The bits of [`NAMESPACES`], and `CLONE_NEWTIME`, which only [`UNSHARE`] knows.
pub const NAMESPACES_TO_UNSHARE: u32 = NAMESPACES | 0x80;
/// Bit of [`CLONE`] for a thread of the same process (`CLONE_THREAD`).
pub const THREAD: u32 = 0x0001_0000;
/// Flag of [`SENDTO`] and [`SENDMSG`] that connects while sending (`MSG_FASTOPEN`).
pub const FAST_OPEN: u32 = 0x2000_0000;
/// Requests of [`IOCTL`] that type into a terminal: `TIOCSTI` and `TIOCLINUX`.
pub const TERMINAL_INPUT: &[u32] = &[0x5412, 0x541C];
/// Requests of [`IOCTL`] that a server makes of its own descriptors: `FIONBIO`, `FIONREAD`,
/// `TIOCOUTQ`, `FIOCLEX`, `TCGETS` and `TIOCGWINSZ`.
pub const DESCRIPTOR_REQUESTS: &[u32] = &[0x5421, 0x541B, 0x5411, 0x5451, 0x5401, 0x5413];
/// `listen`. Its arguments do not tell the socket's family.
pub const LISTEN: &[Number] = calls![SYS_listen];
/// Families of [`SOCKET`]: `AF_UNIX`.
pub const UNIX: u32 = 1;
/// Families of [`SOCKET`]: `AF_INET`.
pub const INET: u32 = 2;
/// Families of [`SOCKET`]: `AF_INET6`.
pub const INET6: u32 = 10;
/// Families of [`SOCKET`]: `AF_NETLINK`. C libraries ask it for the machine's addresses.
pub const NETLINK: u32 = 16;
/// Bits of a socket's type, without its flags.
pub const SOCKET_TYPE: u32 = 0xF;
/// Type of a socket: `SOCK_STREAM`.
pub const STREAM: u32 = 1;
/// Type of a socket: `SOCK_DGRAM`.
pub const DATAGRAM: u32 = 2;
/// Protocols of a datagram: the usual one, and UDP by its number.
pub const UDP: &[u32] = &[0, 17];
/// Protocols of a stream: the usual one, and TCP by its number. Landlock's rules for ports hold for
/// no other one, such as MPTCP and SMC, which speak TCP, too.
pub const TCP: &[u32] = &[0, 6];
/// The `errno` for a protocol that is not supported. Programs that prefer MPTCP then take TCP.
pub const NO_SUCH_PROTOCOL: i32 = libc::EPROTONOSUPPORT;
/// The `errno` for a family of sockets that is not supported.
pub const NO_SUCH_FAMILY: i32 = libc::EAFNOSUPPORT;

/// Calls that a server with threads makes, which neither start programs nor reach other processes:
/// files, memory, sockets that exist, events, threads, time and its own identity.
pub const SERVER: &[Number] = calls![
    // Descriptors and their content.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_close,
    SYS_close_range,
    SYS_dup,
    SYS_dup3,
    SYS_fcntl,
    SYS_lseek,
    SYS_pipe2,
    SYS_sendfile,
    SYS_splice,
    SYS_tee,
    SYS_copy_file_range,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync_file_range,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_readahead,
    SYS_flock,
    SYS_memfd_create,
    // Names of files.
    SYS_openat,
    SYS_openat2,
    SYS_newfstatat,
    SYS_fstat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_readlinkat,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getdents64,
    SYS_getcwd,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_umask,
    SYS_fchmod,
    SYS_utimensat,
    // Memory.
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mincore,
    SYS_msync,
    SYS_brk,
    SYS_mlock,
    SYS_munlock,
    SYS_membarrier,
    // Events.
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_signalfd4,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_futex,
    SYS_futex_waitv,
    // Sockets that exist.
    SYS_accept,
    SYS_accept4,
    SYS_connect,
    SYS_recvfrom,
    SYS_sendto,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_recvmmsg,
    SYS_sendmmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    // Threads and signals. Landlock keeps signals within the process.
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_gettid,
    SYS_tgkill,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getpriority,
    SYS_setpriority,
    SYS_getcpu,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_rt_sigpending,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    // Time.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_setitimer,
    SYS_getitimer,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    // Its own identity and limits.
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getgroups,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_prlimit64,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    SYS_times,
    SYS_capget,
];

/// Older forms of calls in [`SERVER`], which only x86-64 has.
#[cfg(target_arch = "x86_64")]
pub const SERVER_OLD: &[Number] = calls![
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
    SYS_mkdir,
    SYS_rename,
    SYS_poll,
    SYS_select,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_pipe,
    SYS_dup2,
    SYS_eventfd,
    SYS_inotify_init,
    SYS_getdents,
    SYS_alarm,
    SYS_time,
    SYS_arch_prctl,
];
/// Older forms of calls in [`SERVER`]: none.
#[cfg(not(target_arch = "x86_64"))]
pub const SERVER_OLD: &[Number] = &[];

/// The attribute of [`PRCTL`] that says whether a process can be looked into: its value is the next
/// argument.
pub const SET_DUMPABLE: u32 = libc::PR_SET_DUMPABLE as u32;

/// Attributes of [`PRCTL`] that a process may ask of itself: its name, the signal at its parent's
/// death, the names of its memory, and reading of what it has.
pub const OWN_ATTRIBUTES: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_SET_PDEATHSIG as u32,
    libc::PR_GET_PDEATHSIG as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_CAPBSET_READ as u32,
    // PR_SET_VMA: C libraries name their anonymous memory.
    0x5356_4D41,
];
