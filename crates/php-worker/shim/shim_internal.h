/* Declarations shared by the files of the shim. */
#ifndef HOWDAH_SHIM_INTERNAL_H
#define HOWDAH_SHIM_INTERNAL_H

#include "php.h"
#include "SAPI.h"

#include "shim.h"
#include "shim_versions.h"

/* The callbacks; set by howdah_start. */
extern const struct howdah_callbacks *rust __attribute__((visibility("hidden")));

/* The running request; null between requests. */
extern const struct howdah_request *current __attribute__((visibility("hidden")));

/* Goes through the header lines of `from`; `at` is a zend_llist_position. */
#define FOR_EACH_LINE(line, at, from) \
	for (sapi_header_struct *line = zend_llist_get_first_ex(&(from)->headers, &(at)); line; \
			line = zend_llist_get_next_ex(&(from)->headers, &(at)))

/* Sends PHP's present header lines as a head: an interim one with the status `interim`, or the
 * response's own where that is 0. Returns non-zero if the client has gone. */
int shim_send_head(sapi_headers_struct *headers, int interim);

/* Ends the script, whose output is not wanted any more, unless the script goes on without a
 * client. */
void shim_refuse_output(void);

/* The functions that scripts find beside Apache's module, and those beside php-fpm. */
extern const zend_function_entry shim_apache_functions[] __attribute__((visibility("hidden")));
extern const zend_function_entry shim_fpm_functions[] __attribute__((visibility("hidden")));
char *shim_getenv(const char *name, size_t length);

/* Before a request starts: sets the values that php.ini has for its host and folder, those of
 * .user.ini files, and those of directives. */
void shim_apply_ini(const struct howdah_request *request);
/* After that, with `now`: lets a session that the request starts delete old ones, if the request
 * says so. Called again without `now` when the request is over. */
void shim_let_sessions_collect(const struct howdah_request *request, bool now);
/* After it, when PHP has restored its ini values. */
void shim_settle_ini(void);
/* After PHP's start: Rust hears of every time limit, and open_basedir always lets the pool's own
 * folders in. */
void shim_watch_ini(const char *own_folders);
/* Before PHP's module ends. */
void shim_forget_ini(void);

#endif
