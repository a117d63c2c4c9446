/*
 * The interface between the shim (C, knows PHP) and src/sapi.rs (Rust, knows everything else).
 *
 * Every text is NUL-terminated; an absent text is a null pointer. Rust never calls PHP from a
 * callback: callbacks return codes, and the shim acts on them afterwards. Therefore a bail-out of
 * PHP (longjmp) never crosses a Rust frame.
 */
#ifndef HOWDAH_SHIM_H
#define HOWDAH_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct howdah_text {
	const char *at;
	size_t length;
};

struct howdah_pair {
	struct howdah_text name;
	struct howdah_text value;
};

/* Values of howdah_request's `ini`. */
enum {
	HOWDAH_INI_AS_BEFORE,
	HOWDAH_INI_TO_KEEP, /* others, and the next request probably has the same */
	HOWDAH_INI_TO_FORGET, /* others, for this request alone */
};

/* One request. All pointers stay valid until howdah_execute returns. */
struct howdah_request {
	void *context; /* belongs to Rust; never null; passed to every callback */
	const char *method;
	const char *script;
	const char *uri;
	const char *query_string;
	const char *content_type;
	const char *cookie;
	const char *authorization;
	int64_t content_length;
	double time; /* seconds since 1970 */
	int ini; /* how the values of next_ini differ from those of the last request, see above */
	int status; /* initial status of the response */
	/* A session that the script starts deletes old sessions, unless the script says otherwise. */
	int collects_sessions;
};

/* The .user.ini files that apply to a script. */
struct howdah_user_ini {
	void **table;                   /* the shim's table of the values that it has read */
	const char *const *directories; /* folders to read, in this order; none if the table is fresh */
	size_t directory_count;
};

/* The callbacks, implemented in Rust. A callback does not call PHP, stops its own panics, and
 * always returns. */
struct howdah_callbacks {
	/* Returns 0, or -1 if the client has gone. `context` may be null: the output is that of
	 * howdah_ask. */
	int (*write)(void *context, const char *bytes, size_t length);
	int (*flush)(void *context);
	/* Sends a complete head. `interim`: the status of a 1xx head, which another head follows; 0 for
	 * the response's own head with `status`. `status_line` is the script's, or null. */
	int (*head)(void *context, int interim, int status, const char *status_line,
		const struct howdah_text *lines, size_t count);
	/* A header line was added, or the fields of this name are about to go, or all of them where it is
	 * null. Returns the response code from then on. `status_line` is as above. */
	int (*status_field)(void *context, int is_added, const char *line, int code,
		const char *status_line);
	/* Completes the response, even if the script continues. Returns 1 if the response was not complete
	 * before. */
	int (*end)(void *context);
	size_t (*read_body)(void *context, char *room, size_t length);
	/* Stores the next entry of $_SERVER, or the first one if `first`. Returns 0 at the end. */
	int (*next_variable)(void *context, int first, struct howdah_pair *pair);
	/* Stores the next entry of one of the lists below, as above. Without NULs; valid until the next
	 * call. A null name: the value alone. A null value: its length is a number. */
	int (*next_listed)(void *context, int list, struct howdah_text about, int first,
		struct howdah_pair *pair);
	const char *(*variable)(void *context, const char *name, size_t length);
	void (*set_variable)(void *context, struct howdah_text name, struct howdah_text value);
	/* Stores what fpm_get_status() returns, as JSON, or returns 0. */
	int (*fpm_status)(void *context, struct howdah_text *json);
	/* Stores the former note of that name, or returns 0. A null value changes nothing. */
	int (*note)(void *context, struct howdah_text name, struct howdah_text value,
		struct howdah_text *former);
	/* Finds the target of a URI of this site: returns one of the numbers below, and stores a script's
	 * path, or the reason why there is nothing. */
	int (*sub_request)(void *context, struct howdah_text uri, struct howdah_text *about);
	/* Sends the file that was found, or notes that the script that was found has ended. Returns the
	 * result of `write`. */
	int (*end_sub_request)(void *context, int found);
	/* Stores the next ini value of this request, as above. */
	int (*next_ini)(void *context, int first, struct howdah_pair *pair);
	/* Logs why PHP did not open the script. Returns the status of the response, and stores its
	 * content. */
	int (*refuse)(void *context, const char **page);
	/* Returns 0 if no .user.ini can apply. */
	int (*user_ini)(void *context, int64_t seconds_to_live, struct howdah_user_ini *plan);
	/* `context` may be null: no request is running. `level` is one of syslog's. */
	void (*log)(void *context, int level, const char *message);
	/* max_execution_time was set for this request, by whatever means; 0 and less is no limit. */
	void (*time_limit)(void *context, int64_t seconds);
	/* The script is at a safe point, after `interrupt` of howdah_layout was set or output was refused.
	 * Returns whether it must end now. `context` may be null: no request is running. */
	int (*interrupted)(void *context);
	/* The script has ended. Returns an expression whose number the next call gets as `answer`, or
	 * null. The first call gets -1, and so does one after an expression that has failed. */
	const char *(*question)(void *context, int64_t answer);
	/* PHP ends the request. Returns whether this process is a child that a script has forked. */
	int (*ended)(void *context);
	/* PHP has run the last function of the script's, and is about to remove what the script has left.
	 * Called in every process that runs PHP. */
	void (*left)(void);
};

/* Lists for scripts. */
enum {
	HOWDAH_FIELDS,  /* the request's fields, with names as the client wrote them */
	HOWDAH_MODULES, /* Apache's modules whose directives have an effect */
	HOWDAH_URI,     /* the facts about the target of a URI of this site */
};

/* The target of a URI. */
enum {
	HOWDAH_NOTHING, /* to include */
	HOWDAH_FILE,
	HOWDAH_SCRIPT,
};

struct howdah_settings {
	const char *ini_file;    /* instead of PHP's own choice of php.ini, or null */
	const char *ini_entries; /* text in php.ini's form, read before php.ini; or null */
	const struct howdah_callbacks *callbacks;
	int has_pcntl;           /* scripts have the functions of ext/pcntl, if PHP was built with it */
	const char *sapi;        /* the name of the server interface */
	int is_apache;           /* scripts have the functions of Apache's module */
	const char *own_folders; /* allowed by every open_basedir, whose form they have; or null */
};

/* Bits of howdah_execute's result. */
enum {
	HOWDAH_BROKEN = 1, /* PHP's state cannot be trusted: the process must not run another request */
};

int howdah_start(const struct howdah_settings *settings); /* 0, or -1: PHP did not start */
void howdah_stop(void);
int howdah_execute(const struct howdah_request *request);
/* Evaluates an expression in a request without a client. Returns its number, or `otherwise` if it
 * fails. A text is the path of a file to compile for opcache, without executing it; then the number
 * is 1 if it compiles and 0 if not. */
int64_t howdah_ask(const char *expression, int64_t otherwise);
const char *howdah_php_version(void);
/* The value of an ini setting, or null if there is no such setting. Valid until PHP runs again. */
const char *howdah_ini_value(const char *name);
/* Sets a default for all requests. Returns 0, or -1: PHP has refused it. */
int howdah_ini_set(const char *name, const char *value);
/* Keeps scripts from changing a setting. Returns 0, or -1: there is no such setting. */
int howdah_ini_protect(const char *name);
void howdah_user_ini_free(void *table);

/* The places of data that others than PHP read while a script runs: addresses of globals, and
 * offsets within structures. */
struct howdah_layout {
	void *const *frame;     /* the innermost frame, or null */
	void *interrupt;        /* a byte; the engine calls `interrupted` soon after it was set */
	const int *exit_status; /* of the last script */
	size_t opline, function, previous;     /* of a frame */
	size_t name, scope;                    /* of a function, which begins with a byte for its kind */
	size_t file, oplines;                  /* of a function that is written in PHP */
	size_t line;                           /* of an opline: 32 bits */
	size_t class_name;                     /* of a class */
	size_t length, text;                   /* of a string */
};
extern const struct howdah_layout howdah_layout;

#endif
