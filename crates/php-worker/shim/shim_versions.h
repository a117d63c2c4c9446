/*
 * The differences between the versions of PHP that the shim supports (8.2, 8.3, 8.4). No other file
 * of the shim depends on the version.
 */
#ifndef HOWDAH_SHIM_VERSIONS_H
#define HOWDAH_SHIM_VERSIONS_H

#include "php_version.h"

#if PHP_VERSION_ID < 80200
# error "howdah-php needs PHP 8.2 or later"
#endif

#ifdef ZTS
# error "howdah-php runs one request per process and needs a PHP without thread safety (NTS)"
#endif

/* The engine calls itself 4.x where PHP is 8.x. libphp has no other version that can be asked
 * before it has started. */
#define HOWDAH_TEXT(x) #x
#define HOWDAH_EXPANDED(x) HOWDAH_TEXT(x)
#define HOWDAH_ENGINE_PREFIX "Zend Engine v4." HOWDAH_EXPANDED(PHP_MINOR_VERSION) "."

#endif
