/* The functions for scripts, and their parameters and results, as in Apache's module. For
 * functions.c alone. */
#ifndef HOWDAH_FUNCTIONS_ARGINFO_H
#define HOWDAH_FUNCTIONS_ARGINFO_H

#include "php.h"

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_finish_request, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_apache_lookup_uri, 0, 1,
	MAY_BE_OBJECT | MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, filename, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_apache_setenv, 0, 2, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_apache_getenv, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_apache_get_version, 0, 0,
	MAY_BE_STRING | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_fpm_get_status, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_apache_note, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, note_name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, note_value, IS_STRING, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_virtual, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, uri, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

ZEND_FUNCTION(apache_get_modules);
ZEND_FUNCTION(apache_get_version);
ZEND_FUNCTION(apache_getenv);
ZEND_FUNCTION(apache_lookup_uri);
ZEND_FUNCTION(apache_note);
ZEND_FUNCTION(apache_setenv);
ZEND_FUNCTION(virtual);
ZEND_FUNCTION(apache_request_headers);
ZEND_FUNCTION(apache_response_headers);
ZEND_FUNCTION(fastcgi_finish_request);
ZEND_FUNCTION(fpm_get_status);
ZEND_FUNCTION(headers_send);

#define SHIM_COMMON_FUNCTIONS \
	ZEND_FE(apache_request_headers, arginfo_headers) \
	ZEND_FALIAS(getallheaders, apache_request_headers, arginfo_headers) \
	ZEND_FE(fastcgi_finish_request, arginfo_finish_request) \
	ZEND_FE(headers_send, arginfo_headers_send)

const zend_function_entry shim_apache_functions[] = {
	ZEND_FE(apache_get_modules, arginfo_headers)
	ZEND_FE(apache_get_version, arginfo_apache_get_version)
	ZEND_FE(apache_getenv, arginfo_apache_getenv)
	ZEND_FE(apache_lookup_uri, arginfo_apache_lookup_uri)
	ZEND_FE(apache_note, arginfo_apache_note)
	ZEND_FE(apache_setenv, arginfo_apache_setenv)
	ZEND_FE(virtual, arginfo_virtual)
	ZEND_FE(apache_response_headers, arginfo_headers)
	SHIM_COMMON_FUNCTIONS
	ZEND_FE_END
};

const zend_function_entry shim_fpm_functions[] = {
	ZEND_FE(fpm_get_status, arginfo_fpm_get_status)
	SHIM_COMMON_FUNCTIONS
	ZEND_FE_END
};

#endif
