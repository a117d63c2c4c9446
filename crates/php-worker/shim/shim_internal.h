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

/* Sends PHP's present header lines as a head. Returns non-zero if the client has gone. */
int shim_send_head(sapi_headers_struct *headers, int interim);

/* Ends the script, whose output is not wanted any more, unless the script goes on without a client. */
void shim_refuse_output(void);

/* The functions that scripts find beside Apache's module, and those beside php-fpm. */
extern const zend_function_entry shim_apache_functions[] __attribute__((visibility("hidden")));
extern const zend_function_entry shim_fpm_functions[] __attribute__((visibility("hidden")));
char *shim_getenv(const char *name, size_t length);

/* Before a request starts: what php.ini has for its host and folder, what .user.ini files have, and what directives have. */
void shim_apply_ini(const struct howdah_request *request);
/* After that: whether a session that the request starts is to delete old ones. Not any more when the request is over. */
void shim_let_sessions_collect(bool now);
/* After it, when PHP has restored its ini values. */
void shim_settle_ini(void);
/* After PHP's start: Rust hears of every time limit, and open_basedir always lets the pool's own folders in. */
void shim_watch_ini(const char *own_folders);
/* Before PHP's module ends. */
void shim_forget_ini(void);

#endif
