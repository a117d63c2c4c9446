/*
 * What passes between the shim (C, knows PHP) and src/sapi.rs (Rust, knows everything else).
 *
 * Every text is NUL-terminated; an absent one is a null pointer. Rust never calls back into PHP from a callback, so a
 * bail-out of PHP (longjmp) never crosses a Rust frame: callbacks return codes, and the shim acts on them afterwards.
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

/* One request. All pointers stay valid until howdah_execute returns. */
struct howdah_request {
	void *context; /* Rust's; never null; handed back to every callback */
	const char *method;
	const char *script;
	const char *uri;
	const char *query_string;
	const char *content_type;
	const char *cookie;
	const char *authorization;
	int64_t content_length;
	double time; /* seconds since 1970 */
	struct howdah_text ini; /* all that next_ini gives, in a form of Rust's: the same bytes for the same values, none for none */
	int status;             /* what the response begins with; 0 is 200 */
	int collects_sessions;  /* a session that it starts has old ones deleted, unless it says otherwise */
};

/* What to do about the .user.ini files that cover a script. */
struct howdah_user_ini {
	void **table;                   /* where the shim keeps what it has read */
	const char *const *directories; /* to be read anew, in this order; none if the table is fresh */
	size_t directory_count;
};

/* Rust's side. Each is a leaf: it does not call PHP, does not panic through, and returns. */
struct howdah_callbacks {
	/* 0, or -1 if nobody wants the bytes any more. */
	int (*write)(void *context, const char *bytes, size_t length);
	int (*flush)(void *context);
	/* A head is complete. `interim`: a 1xx head, another follows. `status_line` is what the script gave, or null. */
	int (*head)(void *context, int interim, int status, const char *status_line, const struct howdah_text *lines,
		size_t count);
	/* The response is complete, whatever the script does from here on. 1 if it was not complete before. */
	int (*end)(void *context);
	size_t (*read_body)(void *context, char *room, size_t length);
	/* The next entry of $_SERVER, beginning with the first if `first`; 0 at the end. */
	int (*next_variable)(void *context, int first, struct howdah_pair *pair);
	/* As above, of the request's own alone: what rules have set is not among them. */
	int (*next_own_variable)(void *context, int first, struct howdah_pair *pair);
	const char *(*variable)(void *context, const char *name, size_t length);
	/* The next ini value of this request; as above. */
	int (*next_ini)(void *context, int first, struct howdah_pair *pair);
	/* 0 if no .user.ini can apply. */
	int (*user_ini)(void *context, int64_t seconds_to_live, struct howdah_user_ini *plan);
	/* `context` may be null: no request is running. `level` is one of syslog's. */
	void (*log)(void *context, int level, const char *message);
	/* Whether a time-out signal that just came can be meant for this request. */
	int (*is_overdue)(void *context);
};

struct howdah_settings {
	const char *ini_file;    /* instead of PHP's own choice of php.ini, or null */
	const char *ini_entries; /* text in php.ini's form that goes before everything in php.ini, or null */
	const struct howdah_callbacks *callbacks;
};

/* howdah_execute's answer, bits. */
enum {
	HOWDAH_BROKEN = 1, /* PHP's state cannot be trusted: the process must not run another request */
	HOWDAH_COLLECTED = 2, /* it was to delete old sessions, and had one of its own */
};

/* howdah_opcache's answer. */
enum {
	HOWDAH_OPCACHE_MISSING = -1,
	HOWDAH_OPCACHE_OFF = 0,
	HOWDAH_OPCACHE_ON = 1,
};

int howdah_start(const struct howdah_settings *settings); /* 0, or -1: PHP did not start */
void howdah_stop(void);
int howdah_execute(const struct howdah_request *request);
int howdah_opcache(void); /* runs a request of its own */
const char *howdah_php_version(void);
/* The value of an ini setting, or null if there is no such setting. Valid until PHP runs again. */
const char *howdah_ini_value(const char *name);
int howdah_ini_protect(const char *name); /* scripts cannot change it any more; -1: no such setting */
void howdah_disable_functions(const char *list);
void howdah_disable_classes(const char *list);
void howdah_user_ini_free(void *table);
/* Async-signal-safe: asks the running script to end with a fatal error. */
void howdah_time_out(void);

#endif
