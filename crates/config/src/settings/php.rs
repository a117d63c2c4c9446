//! The keys of `[site.php]` and of its limits of resources.

use std::path::PathBuf;
use std::time::Duration;

use super::{Lane, loopback};
use crate::kinds::{
    AtLeast, AutoCountTo, ConnectTo, Extension, FilePath, Flag, FunctionName, Ini, LaneTables,
    List, ModeName, Niceness, Optional, PagePath, PhpVersion, Proxies, SandboxLevel, SapiName,
    Size, SizeWithin, Table, Text, TimeSpan, TimeSpanOrZero, Umask, User, VariableName,
    VariableTable, Within,
};
use crate::listener::TrustedProxies;
use crate::section::section;
use crate::values::{Count, Destination, PoolMode, Sandbox, Sapi, UserName};

/// Workers that a pool can have. More in the configuration is a mistake.
pub const MOST_WORKERS: usize = 1024;

section! {
    /// A site's PHP pool.
    pub struct Php {
        /// The `howdah-php` program to run; one built against another PHP serves that version.
        program ("program"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is the one that `version` names.";
        /// The version of PHP, as `"8.2"`: the pool runs `howdah-php8.2`, which is beside the
        /// `howdah` that runs. Sites of one server can have different versions. `howdah check`
        /// lists those that are there.
        version ("version"): Option<String> as Optional<PhpVersion> = None,
            "Unset is `howdah-php`, or where that is missing the newest version that is there.";
        /// The php.ini to read.
        ini_file ("ini_file"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is the one that `howdah-php` finds for itself, with the distribution's \
                extensions.";
        /// The number of PHP processes that the pool keeps. `"auto"` starts them for requests that
        /// find no free one, as far as the memory has room for them, and ends those that have
        /// nothing to do for `idle_timeout` or that memory is too short for; one stays. `"static"`
        /// keeps all `workers`. `"dynamic"` keeps as many as are busy, and between
        /// `min_spare_workers` and `max_spare_workers` that are free. `"ondemand"` starts with
        /// none; a request that finds no free worker has one started, and a worker that has nothing
        /// to do for `idle_timeout` ends. [pools.md](pools.md) says more.
        mode ("mode"): PoolMode as ModeName = PoolMode::Auto,
            "Fits any machine, and memory that is short does not bring the server down.";
        /// PHP processes at most, each of which runs one request at a time.
        workers ("workers"): Count as AutoCountTo<MOST_WORKERS> = Count::Auto,
            "`auto` is four per processor: scripts spend most of their time waiting for databases.";
        /// Workers that a pool with `mode = "dynamic"` starts with.
        start_workers ("start_workers"): Option<usize> as Optional<AtLeast<usize, 1>> = None,
            "Unset is halfway between `min_spare_workers` and `max_spare_workers`, as in php-fpm.";
        /// Free workers that a pool with `mode = "dynamic"` keeps at least: requests that come
        /// together need not wait for a process to start.
        min_spare_workers ("min_spare_workers"):
            Option<usize> as Optional<AtLeast<usize, 1>> = None,
            "Unset is a quarter of `workers`.";
        /// Free workers that a pool with `mode = "dynamic"` keeps at most. Further ones end one
        /// after the other.
        max_spare_workers ("max_spare_workers"):
            Option<usize> as Optional<AtLeast<usize, 1>> = None,
            "Unset is three quarters of `workers`.";
        /// The time that a worker has nothing to do before it ends, with `mode = "auto"` or
        /// `"ondemand"`. With `mode = "dynamic"`, free workers between `min_spare_workers` and
        /// `max_spare_workers` end after that time.
        idle_timeout ("idle_timeout"): Option<Duration> as Optional<TimeSpan> = None,
            "Unset is 5 minutes with `\"auto\"`, 10 s with `\"ondemand\"`, as in php-fpm, and no \
                limit with `\"dynamic\"`.";
        /// The part of the memory, in per cent, that the workers of a pool with `mode = "auto"` may
        /// use together. All memory is that of the machine, or of the control group that the server
        /// was started in.
        memory_share ("memory_share"): u64 as Within<1, 100> = 80,
            "One site cannot take all of it. Memory that others use does not count as \
                available.";
        /// Requests that may wait for a free worker. Beyond it: 503 with Retry-After.
        queue ("queue"): usize as AtLeast<usize, 0> = 1024,
            "Takes a burst; a longer queue would only be answered after its visitors have left.";
        /// The time that a request may wait for a free worker. Beyond it: 503 with Retry-After.
        queue_timeout ("queue_timeout"): Duration as TimeSpan = Duration::from_secs(15),
            "Few visitors wait longer, and what they no longer want is not worth running.";
        /// Lanes for requests that wait apart from the others. See `[[site.php.lane]]` below. In
        /// every pool the clients whose requests wait take turns, and a full queue takes a request
        /// of a client with few places in exchange for one of the client with the most.
        lanes ("lane"): Vec<Lane> as LaneTables = Vec::new(),
            "Most sites need none: no client can keep the others out.";
        /// The path of a page with the state of the pool, in the words of php-fpm's own: as text,
        /// and as `?json`, `?html`, `?xml` or `?openmetrics`; `&full` adds every worker with its
        /// URL. Directives that refuse or redirect the path have precedence.
        status_path ("status_path"): Option<String> as Optional<PagePath> = None,
            "Unset is no page. It is for monitors that were made for php-fpm; others find more at \
                `admin`.";
        /// The path of a page that says `ping_response`, without PHP, as long as the site answers.
        ping_path ("ping_path"): Option<String> as Optional<PagePath> = None,
            "Unset is no page.";
        /// The content of the page at `ping_path`.
        ping_response ("ping_response"): String as Text = "pong".to_owned(),
            "php-fpm's `ping.response`.";
        /// The clients that may see the pages at `status_path` and `ping_path`: IP addresses and
        /// networks, such as `["10.0.0.0/8"]`. Others get 403.
        status_allow ("status_allow"): TrustedProxies as Proxies = loopback(),
            "The page shows the visitors' URLs. php-fpm leaves its protection to the web server, \
                which is often forgotten.";
        /// The time that a script may run without a sign of life, in wall-clock time. Output that
        /// leaves PHP's buffers is a sign of life, even if its client has gone, and so is
        /// `flush()`. So is `set_time_limit()`, which gives the script the time that it names if
        /// that is longer. Beyond it the script ends with a fatal error,
        /// or with its worker, which is killed two seconds later: 504. A `max_execution_time` in a
        /// `.htaccess` or `.user.ini` file counts as if the script had set it at its start; that of
        /// `ini` and php.ini does not.
        request_timeout ("request_timeout"): Duration as TimeSpan = Duration::from_secs(60),
            "nginx's fastcgi_read_timeout. PHP's `max_execution_time` counts only processor time \
                and ends earlier.";
        /// The time that a script may run, whatever its signs of life. Beyond it the script ends as
        /// after `request_timeout`: 504, or an end of the output that the client notices.
        request_terminate_timeout ("request_terminate_timeout"):
            Option<Duration> as Optional<TimeSpan> = None,
            "Unset is one hour, or `request_timeout` if that is longer: imports, updates and \
                backups run as on Apache, and a worker that is stuck after `set_time_limit(0)` \
                comes back.";
        /// Time after which a running script is written to the error log, once, with its backtrace,
        /// URL, memory, and the time that it has waited and run. The script goes on. `"0s"` is
        /// never.
        slow_after ("slow_after"): Option<Duration> as Optional<TimeSpanOrZero> = None,
            "Unset is never: each worker has a thread for it. php-fpm's `request_slowlog_timeout`.";
        /// Functions of a backtrace that are written: the innermost ones.
        slow_trace_depth ("slow_trace_depth"): u64 as Within<1, 1000> = 20,
            "php-fpm's `request_slowlog_trace_depth`. It counts for scripts that are ended after \
                a time-out, too.";
        /// Requests after which a worker is replaced by a fresh one; 0 is never.
        max_requests ("max_requests"): u64 as AtLeast<u64, 0> = 100_000,
            "Bounds what a leaking extension can take; forking a worker that seldom costs nothing \
                measurable.";
        /// Bytes of its own memory beyond which a worker is replaced by a fresh one, after its
        /// request. Memory that workers share and the kernel's cache of files do not count.
        max_memory ("max_memory"): Option<u64> as
            Optional<SizeWithin<{ 16 << 20 }, { 1 << 40 }>> = None,
            "Unset is no limit: PHP gives a script's memory back, and `max_requests` bounds what \
                leaks.";
        /// Whether a second zygote with PHP already started waits to replace the first one, or to
        /// serve under a new front. Either replacement then takes a few milliseconds instead of the
        /// time that PHP needs to start. It takes about 10 MB of memory.
        standby ("standby"): bool as Flag = true,
            "A crash should cost the requests that it hits and no others.";
        /// Whether the scripts that opcache has used most are compiled again before a reload or a
        /// new release takes over, up to 2,000 of them and for at most three seconds. The first
        /// visitors then do not wait for it. After the death of a zygote or of the front, they are
        /// compiled beside the requests. [pools.md](pools.md) says more.
        opcache_warmup ("opcache_warmup"): bool as Flag = true,
            "A reload should not be noticed. The scripts are read as the pool's user, and not \
                executed.";
        /// Bytes of memory that all processes of the pool may use together. Beyond it the kernel
        /// ends one of its workers. Swap is no way around it: with control groups of version 1 it
        /// counts as memory, with those of version 2 the pool gets none. A kernel that does not
        /// count swap (`swapaccount=0`) limits memory alone. Needs `cgroups`; during a reload the
        /// former pool has its own.
        memory ("memory"): Option<u64> as Optional<Size<u64>> = None,
            "Unset is no limit: what a site needs is not known, and PHP's `memory_limit` bounds \
                each script.";
        /// Processes and threads that the pool may have at once: its workers, two zygotes, and
        /// what scripts start. Beyond it starting a process fails. `0` is no limit besides those of
        /// the system. Needs `cgroups`.
        pids ("pids"): Option<u64> as Optional<AtLeast<u64, 0>> = None,
            "Unset is 1024, or four times as many as the pool's own processes are if that is more: \
                a script that starts processes without end takes none from other sites.";
        /// The pool's share of processor time when the processors are busy, from 1 to 10000. A
        /// pool with 200 gets twice as much as one with 100. Needs `cgroups`.
        cpu_weight ("cpu_weight"): Option<u64> as Optional<Within<1, 10_000>> = None,
            "Unset is the kernel's usual weight, 100.";
        /// The user that the pool runs as when the server is started as root; ignored otherwise.
        /// It must not be the front's user, which is the server's `user`.
        user ("user"): Option<UserName> as Optional<User> = None,
            "Unset is `www-data`, Debian's user for web applications; give each site its own to \
                keep sites from reading each other.";
        /// The group that the pool runs as when the server is started as root; ignored otherwise.
        group ("group"): Option<String> as Optional<Text> = None,
            "Unset is the primary group of the pool's user.";
        /// Further groups of the pool's processes when the server is started as root, by name;
        /// ignored otherwise.
        supplementary_groups ("supplementary_groups"): Vec<String> as List<Text> = Vec::new(),
            "The groups that the user database gives the pool's user are there already.";
        /// The permissions that files made by scripts do not get, in octal.
        umask ("umask"): u32 as Umask = 0o022,
            "The usual one: others may read, and only the pool's user may write. `\"0002\"` lets \
                the group write.";
        /// The working directory outside of scripts: while PHP starts, for preloading, and for
        /// shutdown functions, destructors and session handlers. A script itself always begins in
        /// its own folder. PHP does not start if the folder cannot be entered.
        chdir ("chdir"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is the folder of the present script until its end, and of the last one after \
                it. php-fpm's `chdir`; with `chroot` it is a path below that folder.";
        /// The folder that the pool's workers see as `/`. PHP starts outside of it: its modules,
        /// `ini_file` and a preload script need not be there, but what scripts open must be, such
        /// as the time zones and `/etc/resolv.conf`. The site's `root` and `state_dir` must be
        /// below the folder. Those and all other keys but `chdir` keep the machine's paths; scripts
        /// and values of `ini` have the paths below the folder. Needs a server that is started as
        /// root, a `user` that is not root, and `no_new_privs`. [pools.md](pools.md) says more.
        chroot ("chroot"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is none: `sandbox` keeps a site to its own files, and needs no copies of the \
                system's. php-fpm's `chroot`.";
        /// The scheduling priority of the pool's processes, as nice(1) has it: 19 yields to all
        /// others. Negative numbers need a server that is started as root.
        nice ("nice"): Option<i32> as Optional<Niceness> = None,
            "Unset is the server's own. `cpu_weight` shares the processors in exact parts.";
        /// php.ini values that scripts may change with `ini_set`, as `{ memory_limit = "256M" }`.
        /// `true` and `false` are written as `1` and `0`.
        ini ("ini"): Vec<(String, String)> as Ini = Vec::new(),
            "The distribution's php.ini decides.";
        /// php.ini values that scripts and `.user.ini` files cannot change.
        admin_ini ("admin_ini"): Vec<(String, String)> as Ini = Vec::new(),
            "The distribution's php.ini decides.";
        /// Environment variables that scripts see. Nothing else of the server's environment reaches
        /// them, except `PATH` and those of `pass_env`.
        env ("env"): Vec<(String, String)> as VariableTable = Vec::new(),
            "The server's own environment may hold secrets that are none of a script's business.";
        /// Variables of the server's own environment that scripts see as well. Rules in `.htaccess`
        /// files see these and `PATH`, too, and no others: `PassEnv`, `%{ENV:NAME}`, `osenv()`.
        pass_env ("pass_env"): Vec<String> as List<VariableName> = Vec::new(),
            "Variables that a container or a service manager sets for the server are \
                passed on by name only.";
        /// The folder below which the pool keeps its temporary files, uploads and sessions.
        /// Uploaded files disappear with their request, and with their worker if it is killed.
        /// Files that scripts create in the temporary folder stay until scripts delete them.
        /// Sessions older than `session.gc_maxlifetime` are deleted about every ten minutes, by a
        /// request that has a session, unless `ini` or `admin_ini` say otherwise with
        /// `session.gc_probability` or keep sessions elsewhere with `session.save_path`.
        state_dir ("state_dir"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is `/var/lib/howdah/NAME` as root, which is below the folder of `chroot` if \
                there is one, else `howdah-UID/NAME` in the folder for temporary files.";
        /// The name under which scripts see PHP run (`PHP_SAPI`): that of Apache's module, or that
        /// of php-fpm. Applications choose addresses and work-arounds by it.
        sapi ("sapi"): Sapi as SapiName = Sapi::Apache2handler,
            "A site that moves from Apache keeps its addresses. One that ran on php-fpm needs \
                `\"fpm-fcgi\"`.";
        /// Gives scripts the functions of PHP's `pcntl` extension. A process that a script forks
        /// runs the rest of the script and ends; its output is discarded.
        pcntl ("pcntl"): bool as Flag = false,
            "Debian's Apache has no `pcntl`. Few scripts mean to create processes on a web server.";
        /// File names with these endings run as PHP.
        extensions ("extensions"): Vec<String> as List<Extension> =
            [".php", ".phtml", ".phar"].map(str::to_owned).to_vec(),
            "Debian's Apache runs these. Other names of PHP files (`.phps`, `.php5`, `.PHP`) are \
                refused, never sent.";
        /// Functions that scripts cannot call. They are added to `disable_functions` of php.ini.
        disable_functions ("disable_functions"): Vec<String> as List<FunctionName> = Vec::new(),
            "php.ini decides. The sandbox does not depend on this list: it also binds the \
                programs that scripts execute.";
        /// The part of the machine that the pool is kept from, beside its user's permissions.
        /// `"standard"` hides other sites' files and processes and refuses system calls that serve
        /// attacks. `"strict"` also refuses all files but the site's and the system's, TCP
        /// listening, and signals to other workers. [security.md](security.md) has the table of
        /// both levels. `"off"` refuses nothing. Measures that the kernel does not know are left
        /// out, with a notice in the log.
        sandbox ("sandbox"): Sandbox as SandboxLevel = Sandbox::Standard,
            "Applications run as without it, and code that breaks into one site does not reach \
                the next.";
        /// Folders and files that scripts may read and execute beside those that `sandbox` leaves
        /// them, as far as the user's permissions go.
        readable ("readable"): Vec<PathBuf> as List<FilePath> = Vec::new(),
            "The levels of `sandbox` leave a site what belongs to it.";
        /// Folders and files like those of `readable`. Scripts may also write there.
        writable ("writable"): Vec<PathBuf> as List<FilePath> = Vec::new(),
            "The levels of `sandbox` leave a site what belongs to it.";
        /// The only places that scripts and the programs that they execute may connect to:
        /// `"127.0.0.1:3306"`, `"*:443"`, `"unix:/run/mysqld/mysqld.sock"`, `"udp"` for UDP, which
        /// looking up names needs. `[]` is none. The kernel compares ports alone: a TCP port that
        /// is allowed for one address is allowed for all, and one socket in the file system allows
        /// all that the user's permissions allow. Needs `sandbox`.
        connect ("connect"): Option<Vec<Destination>> as Optional<List<ConnectTo>> = None,
            "Unset is everywhere: applications fetch updates, send mail and ask services of all \
                kinds.";
        /// Whether set-user-ID and set-group-ID programs get no rights when scripts execute them.
        /// `mail()` then needs a `sendmail_path` that works without such rights, for example
        /// msmtp's. [security.md](security.md) says how mail is sent with and without.
        no_new_privs ("no_new_privs"): bool as Flag = true,
            "Every such program is a way to root if it has a hole. Mail can be handed over \
                without one.";
        /// Whether the pool has `/tmp` and `/var/tmp` of its own, in its `state_dir`. Needs root's
        /// rights when the server starts. A site whose root, state or other named paths are below
        /// `/tmp` or `/var/tmp` keeps the machine's.
        private_tmp ("private_tmp"): bool as Flag = true,
            "Debian's Apache has one too. Files in a shared `/tmp` are read, guessed and replaced \
                by other sites.";
        /// Whether the pool has shared memory of its own: System V segments, semaphores and message
        /// queues, and `/dev/shm`. Its workers share them, also after a reload. Needs root's rights
        /// when the server starts.
        private_ipc ("private_ipc"): bool as Flag = true,
            "Other sites can read, guess and use up objects that are shared by key or name.";
        /// Bytes that the pool's own `/dev/shm` may hold, and as many again for its System V
        /// segments. Beyond it: writing and creating fail. Needs `private_ipc`.
        shm_size ("shm_size"): u64 as SizeWithin<{ 64 << 10 }, { 1 << 40 }> = 64 << 20,
            "Containers usually have as much. Opcache, APCu and requests need none of it.";
        /// Whether the pool sees in `/proc` only the processes that it started. Needs root's rights
        /// when the server starts.
        hide_processes ("hide_processes"): bool as Flag = true,
            "Command lines of other users hold names, addresses and sometimes passwords.";
        /// Limits of the pool's processes and of the programs that scripts execute.
        rlimits ("rlimits"): ResourceLimits as Table<ResourceLimits> = ResourceLimits::default(),
            "See `[site.php.rlimits]` below.";
    }
}

section! {
    /// Limits of the pool's processes and of the programs that scripts execute, as `ulimit` sets
    /// them. Each counts per process, except `nproc`.
    pub struct ResourceLimits {
        /// Processes and threads of the pool's user. The kernel counts all processes of the user,
        /// not of this pool alone. Beyond it: no further process starts.
        nproc ("nproc"): Option<u64> as Optional<AtLeast<u64, 1>> = None,
            "Unset is the server's own: several pools and a login session may have the same user.";
        /// Bytes of a core dump. With 0 nothing is written. With more, processes of the same user
        /// may look into the pool's processes.
        core ("core"): u64 as Size<u64> = 0,
            "A core dump holds the visitors' data, and lies in the site's folder.";
        /// Files, sockets and pipes that a process may have open. The pool's own descriptors are
        /// added. Beyond it: opening fails. Both together are at most the server's hard limit; a
        /// warning tells where that is less.
        nofile ("nofile"): Option<u64> as Optional<AtLeast<u64, 16>> = None,
            "Unset is the server's own soft limit, at least 1024.";
        /// Bytes of a file that a process may write. Beyond it: writing fails.
        fsize ("fsize"): Option<u64> as
            Optional<SizeWithin<{ 1 << 10 }, { 1 << 50 }>> = None,
            "Unset is no limit: backups and databases in files may be large.";
        /// Bytes of address space, with shared libraries, opcache and its reserve for compiled
        /// code. Beyond it: allocating fails.
        address_space ("as"): Option<u64> as Optional<Size<u64>> = None,
            "Unset is no limit: PHP's `memory_limit` counts what scripts use, and address space \
                is mostly reserve.";
        /// Processor time of a process. A worker that has used as much is replaced after its
        /// request, and killed if that request takes another minute of it. A program that a script
        /// executes is killed. Rounded up to seconds.
        cpu ("cpu"): Option<Duration> as Optional<TimeSpan> = None,
            "Unset is no limit: `request_timeout` bounds each request, and a worker serves many.";
    }
}

impl Php {
    /// The time that a script may run, whatever its signs of life.
    pub fn longest_request(&self) -> Duration {
        let usual = Duration::from_secs(3600).max(self.request_timeout);
        self.request_terminate_timeout.unwrap_or(usual)
    }

    /// Time after which a running script is logged; `None` for never.
    pub fn slow_after(&self) -> Option<Duration> {
        self.slow_after.filter(|after| !after.is_zero())
    }

    /// Free workers at least and at most of a pool with `mode = "dynamic"` and `workers` workers at
    /// most.
    pub fn spare_workers(&self, workers: usize) -> (usize, usize) {
        let most = self.max_spare_workers.unwrap_or(workers * 3 / 4);
        let most = most.max(self.min_spare_workers.unwrap_or(1)).clamp(1, workers);
        let least = self.min_spare_workers.unwrap_or(workers / 4);
        (least.clamp(1, most), most)
    }

    /// Workers that such a pool starts with.
    pub fn first_workers(&self, workers: usize) -> usize {
        let (least, most) = self.spare_workers(workers);
        self.start_workers.unwrap_or(least + (most - least) / 2).clamp(1, workers)
    }

    /// The number of workers that `auto` means on a machine with this many processors.
    pub fn worker_count(&self, processors: usize) -> usize {
        self.workers.resolve(processors.saturating_mul(4).min(MOST_WORKERS))
    }
}
