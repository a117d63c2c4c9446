/* What the files of the shim know of each other. */
#ifndef HOWDAH_SHIM_INTERNAL_H
#define HOWDAH_SHIM_INTERNAL_H

#include "shim.h"
#include "shim_versions.h"

/* Rust's side, from howdah_start on. */
extern const struct howdah_callbacks *rust __attribute__((visibility("hidden")));

/* Before a request starts: what php.ini has for its host and folder, what .user.ini files have, and what directives have. */
void shim_apply_ini(const struct howdah_request *request);
/* After it, when PHP has restored its ini values. */
void shim_settle_ini(void);
/* Before PHP's module ends. */
void shim_forget_ini(void);

#endif
