//! PHP for Rust: the functions of the shim, and [`Engine`], which makes sure that they are called
//! in the right order.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_double, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::callbacks;
use crate::children;
use crate::ini::PoolIni;
use crate::log;
use crate::php_request::PhpRequest;
use crate::process;
use crate::running::RUNNING;
use crate::user_ini::UserIniCache;

/// The C structures and functions of `shim/shim.h`.
pub mod raw {
    use super::*;

    /// `struct howdah_text`
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct Text {
        pub at: *const c_char,
        pub length: usize,
    }

    /// `struct howdah_pair`
    #[repr(C)]
    pub struct Pair {
        pub name: Text,
        pub value: Text,
    }

    /// `struct howdah_request`
    #[repr(C)]
    pub struct Request {
        pub context: *mut c_void,
        pub method: *const c_char,
        pub script: *const c_char,
        pub uri: *const c_char,
        pub query_string: *const c_char,
        pub content_type: *const c_char,
        pub cookie: *const c_char,
        pub authorization: *const c_char,
        pub content_length: i64,
        pub time: c_double,
        pub ini: c_int,
        pub status: c_int,
        pub collects_sessions: c_int,
    }

    /// `struct howdah_user_ini`
    #[repr(C)]
    pub struct UserIni {
        pub table: *mut *mut c_void,
        pub directories: *const *const c_char,
        pub directory_count: usize,
    }

    type Context = *mut c_void;

    /// `struct howdah_callbacks`
    #[repr(C)]
    pub struct Callbacks {
        pub write: unsafe extern "C" fn(Context, *const c_char, usize) -> c_int,
        pub flush: unsafe extern "C" fn(Context) -> c_int,
        pub head:
            unsafe extern "C" fn(Context, c_int, c_int, *const c_char, *const Text, usize) -> c_int,
        pub status_field:
            unsafe extern "C" fn(Context, c_int, *const c_char, c_int, *const c_char) -> c_int,
        pub end: unsafe extern "C" fn(Context) -> c_int,
        pub read_body: unsafe extern "C" fn(Context, *mut c_char, usize) -> usize,
        pub next_variable: unsafe extern "C" fn(Context, c_int, *mut Pair) -> c_int,
        pub next_listed: unsafe extern "C" fn(Context, c_int, Text, c_int, *mut Pair) -> c_int,
        pub variable: unsafe extern "C" fn(Context, *const c_char, usize) -> *const c_char,
        pub set_variable: unsafe extern "C" fn(Context, Text, Text),
        pub fpm_status: unsafe extern "C" fn(Context, *mut Text) -> c_int,
        pub note: unsafe extern "C" fn(Context, Text, Text, *mut Text) -> c_int,
        pub sub_request: unsafe extern "C" fn(Context, Text, *mut Text) -> c_int,
        pub end_sub_request: unsafe extern "C" fn(Context, c_int) -> c_int,
        pub next_ini: unsafe extern "C" fn(Context, c_int, *mut Pair) -> c_int,
        pub refuse: unsafe extern "C" fn(Context, *mut *const c_char) -> c_int,
        pub user_ini: unsafe extern "C" fn(Context, i64, *mut UserIni) -> c_int,
        pub log: unsafe extern "C" fn(Context, c_int, *const c_char),
        pub time_limit: unsafe extern "C" fn(Context, i64),
        pub interrupted: unsafe extern "C" fn(Context) -> c_int,
        pub question: unsafe extern "C" fn(Context, i64) -> *const c_char,
        pub ended: unsafe extern "C" fn(Context) -> c_int,
        pub left: unsafe extern "C" fn(),
    }

    /// `struct howdah_settings`
    #[repr(C)]
    pub struct Settings {
        pub ini_file: *const c_char,
        pub ini_entries: *const c_char,
        pub callbacks: *const Callbacks,
        pub has_pcntl: c_int,
        pub sapi: *const c_char,
        pub is_apache: c_int,
        pub own_folders: *const c_char,
    }

    /// `struct howdah_layout`
    #[repr(C)]
    pub struct Layout {
        pub frame: *const *const c_void,
        pub interrupt: *mut c_void,
        pub exit_status: *const c_int,
        pub opline: usize,
        pub function: usize,
        pub previous: usize,
        pub name: usize,
        pub scope: usize,
        pub file: usize,
        pub oplines: usize,
        pub line: usize,
        pub class_name: usize,
        pub length: usize,
        pub text: usize,
    }

    // SAFETY: the shim has one, which never changes.
    unsafe impl Sync for Layout {}

    /// The places where PHP keeps what is read while a script runs.
    pub fn layout() -> &'static Layout {
        // SAFETY: as above.
        unsafe { &howdah_layout }
    }

    /// `HOWDAH_INI_AS_BEFORE`
    pub const INI_AS_BEFORE: c_int = 0;
    /// `HOWDAH_INI_TO_KEEP`
    pub const INI_TO_KEEP: c_int = 1;
    /// `HOWDAH_INI_TO_FORGET`
    pub const INI_TO_FORGET: c_int = 2;
    /// `HOWDAH_FIELDS`
    pub const FIELDS: c_int = 0;
    /// `HOWDAH_MODULES`
    pub const MODULES: c_int = 1;
    /// `HOWDAH_NOTHING`
    pub const NOTHING: c_int = 0;
    /// `HOWDAH_FILE`
    pub const FILE: c_int = 1;
    /// `HOWDAH_SCRIPT`
    pub const SCRIPT: c_int = 2;
    /// `HOWDAH_BROKEN`
    pub const BROKEN: c_int = 1;

    unsafe extern "C" {
        pub fn howdah_start(settings: *const Settings) -> c_int;
        pub fn howdah_stop();
        pub fn howdah_execute(request: *const Request) -> c_int;
        pub fn howdah_ask(expression: *const c_char, otherwise: i64) -> i64;
        /// PHP's own: bytes that its memory manager has taken from the system now, and at most; and
        /// what ends a request for it.
        pub fn zend_memory_usage(real: bool) -> usize;
        pub fn zend_memory_peak_usage(real: bool) -> usize;
        pub fn shutdown_memory_manager(silent: bool, full: bool);
        pub fn howdah_php_version() -> *const c_char;
        pub fn howdah_ini_value(name: *const c_char) -> *const c_char;
        pub fn howdah_ini_set(name: *const c_char, value: *const c_char) -> c_int;
        pub fn howdah_ini_protect(name: *const c_char) -> c_int;
        /// PHP's own: what scripts do not find.
        pub fn zend_disable_functions(list: *const c_char);
        pub fn zend_disable_class(name: *const c_char, length: usize) -> c_int;
        pub fn howdah_user_ini_free(table: *mut c_void);
        static howdah_layout: Layout;
    }
}

/// A started PHP module. A process has at most one. It must stay on the thread that started it.
#[derive(Debug)]
pub struct Engine {
    user_ini: UserIniCache,
    /// The ini values of the last request, encoded, if the shim keeps them.
    known_ini: Vec<u8>,
    /// PHP keeps pointers to this text.
    _ini_file: Option<CString>,
    _ini_entries: CString,
    _sapi: CString,
    _own_folders: Option<CString>,
    not_send: std::marker::PhantomData<*mut ()>,
}

/// The settings that PHP is started with, besides ini settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineOptions<'o> {
    /// Path of a `php.ini` file that replaces PHP's own choice.
    pub ini_file: Option<&'o Path>,
    /// Scripts have the functions of ext/pcntl, if PHP was built with it.
    pub has_pcntl: bool,
    /// The name of the server interface, `PHP_SAPI`; empty for that of Apache's module. Opcache
    /// before PHP 8.5 starts only under names that it knows.
    pub sapi: &'o str,
    /// The pool's own folders, which every `open_basedir` allows, in the form of that setting;
    /// empty for none.
    pub own_folders: &'o str,
}

/// Functions of PHP's embed library that Apache's module and php-fpm do not have.
const ABSENT_FUNCTIONS: &str = "chroot";

thread_local! {
    /// The output of [`Engine::print`] until now; `None` while it does not run.
    static OUTPUT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The name of Apache's module: scripts and `.htaccess` files find what they find there.
const USUAL_SAPI: &str = "apache2handler";

/// The name of php-fpm.
pub const FPM: &str = "fpm-fcgi";

/// Bytes of a request's ini values, encoded, up to which they are kept for the next request. Larger
/// ones are set again for each request.
const LONGEST_KEPT: usize = 1024;

/// Bytes that PHP's memory manager takes from the system at once, `ZEND_MM_CHUNK_SIZE`.
const MEMORY_CHUNK: u64 = 2 << 20;
/// Calls after which nothing is left of an average of a thousand chunks.
const MEMORY_ROUNDS: usize = 12;

/// The state of PHP after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// PHP can run another request.
    Ready,
    /// PHP can run another request, and the request has deleted old sessions.
    Collected,
    /// This process must not run another request.
    Broken,
}

impl Engine {
    /// Starts the PHP module. Call it once per process, before other threads exist.
    ///
    /// # Errors
    /// The reason, as text for a person. PHP has logged details.
    pub fn start(options: &EngineOptions<'_>, pool: &PoolIni) -> Result<Engine, String> {
        let ini_file = options
            .ini_file
            .map(|path| c_string(path.as_os_str().as_encoded_bytes()))
            .transpose()?;
        let ini_entries = c_string(&pool.entries)?;
        let name = if options.sapi.is_empty() {
            USUAL_SAPI
        } else {
            options.sapi
        };
        let sapi = c_string(name.as_bytes())?;
        let own_folders = (!options.own_folders.is_empty())
            .then(|| c_string(options.own_folders.as_bytes()))
            .transpose()?;
        let settings = raw::Settings {
            ini_file: ini_file.as_ref().map_or(std::ptr::null(), |path| path.as_ptr()),
            ini_entries: ini_entries.as_ptr(),
            callbacks: &raw const callbacks::CALLBACKS,
            has_pcntl: options.has_pcntl.into(),
            sapi: sapi.as_ptr(),
            is_apache: (name == USUAL_SAPI).into(),
            own_folders: own_folders.as_ref().map_or(std::ptr::null(), |list| list.as_ptr()),
        };
        log::note_errors();
        // SAFETY: the texts live in the engine, the callbacks for ever; `settings` itself is not
        // kept.
        let result = unsafe { raw::howdah_start(&raw const settings) };
        let first = log::first_error();
        if result != 0 {
            return Err(first.unwrap_or("see the log for its messages".to_owned()));
        }
        // SAFETY: the function only frees a table that the shim made.
        let user_ini = UserIniCache::new(|table| unsafe { raw::howdah_user_ini_free(table) });
        let mut engine = Engine {
            user_ini,
            known_ini: Vec::new(),
            _ini_file: ini_file,
            _ini_entries: ini_entries,
            _sapi: sapi,
            _own_folders: own_folders,
            not_send: std::marker::PhantomData,
        };
        let lists = pool.disabled_functions.iter().map(String::as_str);
        for list in lists.chain([ABSENT_FUNCTIONS]) {
            let list = c_string(list.as_bytes())?;
            // SAFETY: PHP runs, and copies what it needs of the list.
            unsafe { raw::zend_disable_functions(list.as_ptr()) };
        }
        let classes = pool.disabled_classes.iter().flat_map(|list| list.split([',', ' ']));
        for name in classes.filter(|name| !name.is_empty()) {
            let name = c_string(name.as_bytes())?;
            // SAFETY: as above.
            unsafe { raw::zend_disable_class(name.as_ptr(), name.as_bytes().len()) };
        }
        engine.show_disabled("disable_functions", &pool.disabled_functions);
        engine.show_disabled("disable_classes", &pool.disabled_classes);
        for name in &pool.protected {
            let name = c_string(name.as_bytes())?;
            // SAFETY: PHP runs; the name is only read.
            unsafe { raw::howdah_ini_protect(name.as_ptr()) };
        }
        Ok(engine)
    }

    /// Lets `ini_get()` tell what was added to a list of php.ini, as under php-fpm.
    fn show_disabled(&mut self, name: &str, added: &[String]) {
        let present = self.ini_value(name);
        let all = present.as_deref().into_iter().chain(added.iter().map(String::as_str));
        let all: Vec<&str> = all.filter(|list| !list.is_empty()).collect();
        if !added.is_empty() {
            // A PHP without the setting has nobody who reads it.
            let _ = self.set_ini(name, all.join(",").as_bytes());
        }
    }

    /// Version of PHP, for example `8.2.29`.
    pub fn php_version(&self) -> String {
        // SAFETY: PHP runs; the answer is a NUL-terminated text that lives as long as it does.
        unsafe { CStr::from_ptr(raw::howdah_php_version()) }
            .to_string_lossy()
            .into_owned()
    }

    /// Returns the value of an ini setting; `None` if this PHP has no such setting.
    pub fn ini_value(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: PHP runs; the answer is null or a NUL-terminated text, copied before PHP runs
        // again.
        unsafe {
            let value = raw::howdah_ini_value(name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    /// Sets the value that an ini setting has in all requests of this process.
    ///
    /// # Errors
    /// This PHP has no such setting, or refuses the value.
    pub fn set_ini(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let (name, value) = (c_string(name.as_bytes())?, c_string(value)?);
        // SAFETY: PHP runs and no request does; both texts are copied.
        match unsafe { raw::howdah_ini_set(name.as_ptr(), value.as_ptr()) } {
            0 => Ok(()),
            _ => Err(format!("PHP refuses a value for {}", name.to_string_lossy())),
        }
    }

    /// Evaluates an expression of PHP in a request that has no client. Returns its number;
    /// `otherwise` if it fails. A text is the path of a file, which is compiled for opcache and not
    /// executed; its number is 1, or 0 if it does not compile.
    pub fn ask(&mut self, expression: &CStr, otherwise: i64) -> i64 {
        // SAFETY: PHP runs, and no request is running. The text is only read.
        unsafe { raw::howdah_ask(expression.as_ptr(), otherwise) }
    }

    /// Evaluates an expression as [`Engine::ask`] does. Returns its number, and what it prints.
    pub fn print(&mut self, expression: &CStr, otherwise: i64) -> (i64, Vec<u8>) {
        OUTPUT.set(Some(Vec::new()));
        let number = self.ask(expression, otherwise);
        (number, OUTPUT.take().unwrap_or_default())
    }

    /// Runs a request from start to end.
    pub fn execute(&mut self, mut call: PhpRequest<'_>) -> RequestOutcome {
        call.user_ini = Some(&raw mut self.user_ini);
        let mut request = call.raw_request();
        request.ini = self.compare_ini(call.ini_bytes());
        request.context = (&raw mut call).cast();
        // SAFETY: PHP runs and no other request does. `request` and the `PhpRequest` behind
        // `context` outlive the call of the function, and nobody else uses them meanwhile: the
        // callbacks get at the `PhpRequest` through `context` only.
        let outcome = unsafe { raw::howdah_execute(&raw const request) };
        if !children::is_worker() {
            // SAFETY: PHP runs; the address is that of a number.
            process::exit_now(unsafe { *raw::layout().exit_status })
        }
        if outcome & raw::BROKEN != 0 || callbacks::has_panicked() {
            call.give_up();
            RequestOutcome::Broken
        } else if call.had_session() {
            RequestOutcome::Collected
        } else {
            RequestOutcome::Ready
        }
    }

    /// Compares the ini values of a request with those of the last one. Equal values have equal
    /// bytes.
    fn compare_ini(&mut self, encoded: &[u8]) -> c_int {
        if encoded == self.known_ini {
            return raw::INI_AS_BEFORE;
        }
        self.known_ini.clear();
        if encoded.len() > LONGEST_KEPT {
            return raw::INI_TO_FORGET;
        }
        self.known_ini.extend_from_slice(encoded);
        raw::INI_TO_KEEP
    }

    /// Returns whether PHP keeps memory of former requests for the next one, beside the first chunk
    /// of its memory manager, which it never gives back.
    pub fn keeps_memory(&self) -> bool {
        memory_now() > MEMORY_CHUNK
    }

    /// Shuts the PHP module down before the process exits normally.
    pub fn stop(self) {
        let Engine { user_ini, .. } = self;
        drop(user_ini); // Its tables are PHP's memory.
        // SAFETY: PHP runs, no request is running, and no `Engine` is left to call it again.
        unsafe { raw::howdah_stop() };
    }
}

/// Gives the memory back that PHP keeps for the next request; see [`Engine::keeps_memory`]. Does
/// nothing while a request runs.
pub(crate) fn give_memory_back() {
    // PHP keeps as much as requests used on average, and each of these halves the average.
    for _ in 0..MEMORY_ROUNDS {
        if RUNNING.present().is_some() || memory_now() <= MEMORY_CHUNK {
            return;
        }
        // SAFETY: PHP has started, and no request has memory, as at the end of each. The function
        // runs nothing of a script and raises no error.
        unsafe { raw::shutdown_memory_manager(true, false) };
    }
}

/// Keeps output of a request that has no client, for [`Engine::print`].
pub(crate) fn keep_output(bytes: &[u8]) {
    OUTPUT.with_borrow_mut(|output| output.iter_mut().for_each(|kept| kept.extend(bytes)));
}

/// Returns the bytes of memory that PHP has taken from the system at most since the request began,
/// as `memory_get_peak_usage(true)`. Call it while a request runs.
pub(crate) fn memory_peak() -> u64 {
    // SAFETY: PHP runs. The function reads a number.
    unsafe { raw::zend_memory_peak_usage(true) as u64 }
}

/// Returns whether the script that has just ended failed, as with an error that ends it.
pub(crate) fn has_failed() -> bool {
    const FAILED: c_int = 255;
    // SAFETY: PHP has started; the address is that of a number.
    unsafe { *raw::layout().exit_status == FAILED }
}

/// Returns the bytes of memory that PHP has from the system now, as `memory_get_usage(true)`.
/// Async-signal-safe, and safe beside a script that runs.
pub(crate) fn memory_now() -> u64 {
    // SAFETY: PHP has started. The function reads a number.
    unsafe { raw::zend_memory_usage(true) as u64 }
}

/// Makes PHP call the shim's `interrupted` at the script's next safe point. Async-signal-safe, and
/// safe in any thread.
pub(crate) fn interrupt() {
    // SAFETY: the address is that of a byte which PHP itself uses as an atomic.
    unsafe { AtomicBool::from_ptr(raw::layout().interrupt.cast()) }.store(true, Ordering::SeqCst);
}

fn c_string(bytes: &[u8]) -> Result<CString, String> {
    CString::new(bytes)
        .map_err(|_| format!("a setting contains a NUL byte: {}", String::from_utf8_lossy(bytes)))
}
