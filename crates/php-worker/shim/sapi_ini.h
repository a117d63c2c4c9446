/* The settings that Apache's module and php-fpm add to PHP's own, for scripts to read. They have no
 * effect here. For shim.c alone. */
#ifndef HOWDAH_SAPI_INI_H
#define HOWDAH_SAPI_INI_H

#include "php.h"
#include "php_ini.h"
#include "SAPI.h"

static const zend_ini_entry_def shim_apache_ini[] = {
	PHP_INI_ENTRY("engine", "1", PHP_INI_ALL, NULL)
	PHP_INI_ENTRY("last_modified", "0", PHP_INI_ALL, NULL)
	PHP_INI_ENTRY("xbithack", "0", PHP_INI_ALL, NULL)
PHP_INI_END()

static const zend_ini_entry_def shim_fpm_ini[] = {
	PHP_INI_ENTRY("cgi.discard_path", "0", PHP_INI_SYSTEM, NULL)
	PHP_INI_ENTRY("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, NULL)
	PHP_INI_ENTRY("cgi.nph", "0", PHP_INI_ALL, NULL)
	PHP_INI_ENTRY("cgi.rfc2616_headers", "0", PHP_INI_ALL, NULL)
	PHP_INI_ENTRY("fastcgi.error_header", NULL, PHP_INI_SYSTEM, NULL)
	PHP_INI_ENTRY("fastcgi.logging", "1", PHP_INI_SYSTEM, NULL)
	PHP_INI_ENTRY("fpm.config", NULL, PHP_INI_SYSTEM, NULL)
PHP_INI_END()

/* Registers the settings at the start of the extension. Later, without opcache, PHP would keep
 * their names for the present request alone, and there is none. */
static int shim_register_ini(INIT_FUNC_ARGS)
{
	int is_fpm = strcmp(sapi_module.name, "fpm-fcgi") == 0;

	(void) type;
	return zend_register_ini_entries(is_fpm ? shim_fpm_ini : shim_apache_ini, module_number);
}

#endif
