/*
 * The server interface (SAPI) between PHP and Howdah's worker.
 *
 * This file only translates. Rust (src/sapi.rs) decides about requests, output and .user.ini files.
 * This file, ini.c and functions.c know PHP's interface. A bail-out of PHP (zend_bailout, a
 * longjmp) starts and ends within these files.
 */
#include "shim_internal.h" /* first: PHP's configuration says what the system's headers declare */
#include "sapi_ini.h"
#include "php_main.h"
#include "php_output.h"
#include "php_variables.h"
#include "zend_exceptions.h"
#include "zend_extensions.h"
#include "zend_ini.h"
#include "zend_signal.h"
#include "zend_stream.h"

#include <unistd.h>

const struct howdah_callbacks *rust;
const struct howdah_request *current;
static void (*next_interrupt)(zend_execute_data *);
static bool has_pcntl;

/* ---- The end of a script, and output ---- */

/* The engine calls this at a safe point of the script, soon after vm_interrupt was set. Without a
 * frame: output was refused. */
static void shim_interrupt(zend_execute_data *execute_data)
{
	if (rust->interrupted(current ? current->context : NULL)) {
		PG(connection_status) |= PHP_CONNECTION_TIMEOUT;
		zend_error_noreturn(E_ERROR, "Maximum request time exceeded");
	}
	if (next_interrupt && execute_data) {
		next_interrupt(execute_data);
	}
}

void shim_refuse_output(void)
{
	shim_interrupt(NULL);
	php_handle_aborted_connection();
	/* A script that goes on prints on: its output is a sign of life. */
	OG(flags) &= ~PHP_OUTPUT_DISABLED;
}

static size_t shim_write(const char *bytes, size_t length)
{
	if (rust->write(current ? current->context : NULL, bytes, length) != 0) {
		shim_refuse_output();
	}
	return length;
}

static void shim_flush(void *server_context)
{
	if (server_context) {
		int status = SG(sapi_headers).http_response_code;
		/* The status of an interim response: a script that flushes it goes on to another. */
		if (SG(headers_sent) || status < 100 || status > 199 || status == 101) {
			sapi_send_headers();
		} else if (shim_send_head(&SG(sapi_headers), status) == 0) {
			sapi_header_op(SAPI_HEADER_SET_STATUS, (void *) (zend_intptr_t) 200);
		}
		if (rust->flush(server_context) != 0) {
			shim_refuse_output();
		}
	}
}

/* Field lines that fit on the stack; WordPress sends about ten. */
#define FEW_LINES 32

int shim_send_head(sapi_headers_struct *headers, int interim)
{
	struct howdah_text few[FEW_LINES], *lines = few;
	size_t count = 0;
	zend_llist_position at;

	if (zend_llist_count(&headers->headers) > FEW_LINES) {
		lines = safe_emalloc(zend_llist_count(&headers->headers), sizeof(*lines), 0);
	}
	FOR_EACH_LINE(line, at, headers) {
		lines[count++] = (struct howdah_text) { .at = line->header, .length = line->header_len };
	}
	int gone = rust->head(current->context, interim, headers->http_response_code,
		headers->http_status_line, lines, count);
	if (lines != few) {
		efree(lines);
	}
	return gone;
}

static int shim_send_headers(sapi_headers_struct *headers)
{
	if (current && !SG(request_info).no_headers) {
		/* If the client has gone, the first write of the body reports it, where PHP can bail out. */
		shim_send_head(headers, 0);
	}
	return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static int shim_header(sapi_header_struct *line, sapi_header_op_enum op,
	sapi_headers_struct *headers)
{
	const char *text = op == SAPI_HEADER_DELETE_ALL ? NULL : line->header;
	bool is_added = op == SAPI_HEADER_ADD || op == SAPI_HEADER_REPLACE;

	if (current && (!text || strncasecmp(text, "Status", strlen("Status")) == 0)) {
		headers->http_response_code = rust->status_field(current->context, is_added, text,
			headers->http_response_code, headers->http_status_line);
	}
	return SAPI_HEADER_ADD;
}

/* ---- Input ---- */

static size_t shim_read_post(char *room, size_t length)
{
	return current ? rust->read_body(current->context, room, length) : 0;
}

static char *shim_read_cookies(void)
{
	return current ? (char *) current->cookie : NULL;
}

static void shim_register_variables(zval *array)
{
	struct howdah_pair pair;

	php_import_environment_variables(array);
	if (!current) {
		return;
	}
	for (int first = 1; rust->next_variable(current->context, first, &pair); first = 0) {
		char *value = (char *) pair.value.at;
		size_t length;
		/* The filter extension registers the variable itself and returns 0. */
		if (sapi_module.input_filter(PARSE_SERVER, pair.name.at, &value, pair.value.length, &length)) {
			php_register_variable_safe(pair.name.at, value, length, array);
		}
	}
}

static zend_result shim_request_time(double *time)
{
	*time = current ? current->time : 0;
	return current ? SUCCESS : FAILURE;
}

static void shim_log(const char *message, int level)
{
	rust->log(current ? current->context : NULL, level, message);
}

/* ---- The SAPI module ---- */

/*
 * PHP calls this function early in its start, when the engine exists and no other function of the
 * shim was called. The library's SONAME contains no version, therefore the loader may have found
 * another PHP than that of the headers.
 */
static void shim_check_version(HashTable *configuration)
{
	const char *engine = get_zend_version();

	(void) configuration;
	if (strncmp(engine, HOWDAH_ENGINE_PREFIX, sizeof(HOWDAH_ENGINE_PREFIX) - 1) != 0) {
		fprintf(stderr, "howdah-php was built for PHP %d.%d, but the loader found a libphp with %.*s\n",
			PHP_MAJOR_VERSION, PHP_MINOR_VERSION, (int) strcspn(engine, ","), engine);
		_exit(2);
	}
}

static sapi_module_struct shim_module = {
	.pretty_name = "Howdah",
	.shutdown = php_module_shutdown_wrapper,
	.ub_write = shim_write,
	.flush = shim_flush,
	.getenv = shim_getenv,
	.sapi_error = php_error,
	.header_handler = shim_header,
	.send_headers = shim_send_headers,
	.read_post = shim_read_post,
	.read_cookies = shim_read_cookies,
	.register_server_variables = shim_register_variables,
	.log_message = shim_log,
	.get_request_time = shim_request_time,
	.ini_defaults = shim_check_version,
	.php_ini_ignore_cwd = 1,
};

/* ---- The extension ---- */

static zend_result shim_post_deactivate(void)
{
	/* The front keeps the rest of the request's body. PHP would read it, only to throw it away. */
	SG(post_read) = 1;
	/* PHP has undone the script's own changes at this point. */
	shim_settle_ini();
	return SUCCESS;
}

static zend_result shim_deactivate(int type, int module_number)
{
	rust->left();
	return SUCCESS;
}

static zend_module_entry shim_extension = {
	STANDARD_MODULE_HEADER,
	.name = "howdah",
	.version = PHP_VERSION,
	.module_startup_func = shim_register_ini,
	.request_shutdown_func = shim_deactivate,
	.post_deactivate_func = shim_post_deactivate,
	STANDARD_MODULE_PROPERTIES_EX
};

/* ---- Looking at a running script ---- */

const struct howdah_layout howdah_layout = {
	.frame = (void *const *) &EG(current_execute_data),
	.interrupt = &EG(vm_interrupt),
	.exit_status = &EG(exit_status),
	.opline = offsetof(zend_execute_data, opline),
	.function = offsetof(zend_execute_data, func),
	.previous = offsetof(zend_execute_data, prev_execute_data),
	.name = offsetof(zend_function, common.function_name),
	.scope = offsetof(zend_function, common.scope),
	.file = offsetof(zend_function, op_array.filename),
	.oplines = offsetof(zend_function, op_array.opcodes),
	.line = offsetof(zend_op, lineno),
	.class_name = offsetof(zend_class_entry, name),
	.length = offsetof(zend_string, len),
	.text = offsetof(zend_string, val),
};

/* ---- Start and end of the process ---- */

/* Debian builds ext/pcntl into the embed library, and not into mod_php. Without ext/pcntl, a script
 * finds none of its functions. */
static int shim_register_extensions(void)
{
	/* The first one: PHP ends extensions in the opposite order, and sessions call the script. */
	int result = zend_register_internal_module(&shim_extension)
		? php_register_internal_extensions() : FAILURE;
	zend_module_entry *pcntl =
		has_pcntl ? NULL : zend_hash_str_find_ptr(&module_registry, ZEND_STRL("pcntl"));

	if (pcntl) {
		zend_unregister_functions(pcntl->functions, -1, NULL);
		zend_hash_str_del(&module_registry, ZEND_STRL("pcntl"));
	}
	return result;
}

int howdah_start(const struct howdah_settings *settings)
{
	rust = settings->callbacks;
	has_pcntl = settings->has_pcntl;
	shim_module.name = (char *) settings->sapi;
	shim_extension.functions = settings->is_apache ? shim_apache_functions : shim_fpm_functions;
	php_register_internal_extensions_func = shim_register_extensions;
	shim_module.php_ini_path_override = (char *) settings->ini_file;

	zend_signal_startup();
	sapi_startup(&shim_module);
	/* sapi_startup clears this one, and works on a copy of the rest. */
	sapi_module.ini_entries = shim_module.ini_entries = (char *) settings->ini_entries;
	if (php_module_startup(&shim_module, NULL) == FAILURE) {
		return -1;
	}
#ifdef ZEND_SIGNALS
	/* PHP does not have to check all seven handlers: no code in a worker replaces them. */
	SIGG(reset) = 0;
#endif
	/* The script's folder is the working directory throughout the request: this takes one chdir()
	 * instead of a getcwd() and two. */
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	shim_watch_ini(settings->own_folders);
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = shim_interrupt;
	return 0;
}

void howdah_stop(void)
{
	current = NULL;
	shim_forget_ini();
	php_module_shutdown();
	sapi_shutdown();
}

const char *howdah_php_version(void)
{
	zval *version = zend_get_constant_str("PHP_VERSION", sizeof("PHP_VERSION") - 1);

	return version && Z_TYPE_P(version) == IS_STRING ? Z_STRVAL_P(version) : PHP_VERSION;
}

/* ---- A request ---- */

/*
 * Opens the script as php_fopen_primary_script() does, without `user_dir` and `doc_root`: Howdah
 * maps URLs itself. With opcache this finds a cached script without a system call.
 */
static bool shim_open_script(const char *path, zend_file_handle *file)
{
	zend_string *name = zend_string_init(path, strlen(path), 0);
	zend_string *resolved = zend_resolve_path(name);
	bool opened = false;

	memset(file, 0, sizeof(*file));
	if (resolved) {
		bool display_errors = PG(display_errors);
		zend_string_release(resolved);
		zend_stream_init_filename_ex(file, name);
		file->primary_script = 1;
		PG(display_errors) = 0;
		opened = zend_stream_open(file) == SUCCESS;
		PG(display_errors) = display_errors;
	}
	zend_string_release(name);
	return opened;
}

/* Answers for a script that PHP did not open. Returns whether this worker can open the next one. */
static bool shim_refuse(void)
{
	const char *page;
	int status = rust->refuse(current->context, &page);

	SG(sapi_headers).http_response_code = status;
	zend_try {
		PHPWRITE(page, strlen(page));
	} zend_end_try();
	return status != 503;
}

static bool shim_run_script(const char *path)
{
	zend_file_handle file;
	bool is_sound = true;

	if (shim_open_script(path, &file)) {
		EG(exit_status) = 0;
		php_execute_script(&file);
	} else {
		is_sound = shim_refuse();
	}
	zend_destroy_file_handle(&file);
	return is_sound;
}

static const struct howdah_request no_request;

static void shim_describe(const struct howdah_request *request)
{
	SG(server_context) = request->context;
	SG(sapi_headers).http_response_code = 200;
	SG(request_info).request_method = request->method;
	SG(request_info).path_translated = (char *) request->script;
	SG(request_info).request_uri = (char *) request->uri;
	SG(request_info).query_string = (char *) request->query_string;
	SG(request_info).content_type = request->content_type ? request->content_type : "";
	SG(request_info).content_length = request->content_length;
	php_handle_auth_data(request->authorization);
}

/*
 * Compiles a file as `include` does, and does not execute it. After opcache_compile_file(), a
 * script would not find its classes before the lines that declare them.
 */
static bool shim_compile(zend_string *path)
{
	zend_op_array *code = compile_filename(ZEND_INCLUDE, path);

	zend_clear_exception();
	if (code) {
		destroy_op_array(code);
		efree(code);
	}
	return code != NULL;
}

/* Returns the number that a PHP expression has. The present script has ended, or was cut short. */
static zend_long shim_evaluate(const char *expression, zend_long otherwise)
{
	volatile zend_long number = otherwise;
	zval value;

	EG(current_execute_data) = NULL;
	zend_try {
		if (zend_eval_string(expression, &value, "howdah") == SUCCESS) {
			number = Z_TYPE(value) == IS_STRING ? shim_compile(Z_STR(value)) : zval_get_long(&value);
			zval_ptr_dtor(&value);
		}
	} zend_end_try();
	return number;
}

int howdah_execute(const struct howdah_request *request)
{
	volatile int outcome = 0;

	zend_first_try {
		shim_describe(request);
		current = request;
		/* A relative open_basedir means the script's folder from here on. */
		VCWD_CHDIR_FILE(request->script);
		shim_apply_ini(request);
		shim_let_sessions_collect(request, true);
		if (php_request_startup() == SUCCESS) {
			SG(sapi_headers).http_response_code = request->status;
			if (!shim_run_script(request->script)) {
				outcome = HOWDAH_BROKEN;
			}
			zend_long answer = -1;
			for (const char *question; (question = rust->question(request->context, answer));) {
				answer = shim_evaluate(question, -1);
			}
		} else {
			/* For example, the form is larger than the memory limit. PHP has logged the reason. */
			outcome = HOWDAH_BROKEN;
			if (!SG(headers_sent)) {
				SG(sapi_headers).http_response_code = 500;
			}
		}
		if (rust->ended(request->context)) {
			SG(rfc1867_uploaded_files) = NULL; /* The files belong to the worker. */
		}
		php_request_shutdown(NULL);
		shim_let_sessions_collect(request, false);
	} zend_catch {
		outcome = HOWDAH_BROKEN;
	} zend_end_try();
	current = NULL;
	shim_describe(&no_request);
	return outcome;
}

int64_t howdah_ask(const char *expression, int64_t otherwise)
{
	volatile zend_long answer = otherwise;
	/* opcache.restrict_api permits questions about opcache only to scripts below that path. */
	const char *allowed = howdah_ini_value("opcache.restrict_api");

	zend_first_try {
		SG(request_info).path_translated = (char *) allowed;
		if (php_request_startup() == SUCCESS) {
			answer = shim_evaluate(expression, otherwise);
		}
		php_request_shutdown(NULL);
	} zend_end_try();
	SG(request_info).path_translated = NULL;
	return answer;
}
