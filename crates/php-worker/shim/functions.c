/*
 * Functions for scripts, and the environment that they can change.
 */
#include "php.h"
#include "SAPI.h"
#include "php_output.h"
#include "ext/standard/head.h"

#include "shim_internal.h"

static HashTable *script_environment; /* variables that apache_setenv() has set in this request */

char *shim_getenv(const char *name, size_t length)
{
	if (!current) {
		return getenv(name);
	}
	if (script_environment) {
		zval *value = zend_hash_str_find(script_environment, name, length);
		if (value) {
			return Z_STRVAL_P(value);
		}
	}
	return (char *) rust->variable(current->context, name, length);
}

int shim_deactivate(void)
{
	if (script_environment) {
		zend_hash_destroy(script_environment);
		FREE_HASHTABLE(script_environment);
		script_environment = NULL;
	}
	return SUCCESS;
}

/* {{{ fastcgi_finish_request(): bool */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_finish_request, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(fastcgi_finish_request)
{
	ZEND_PARSE_PARAMETERS_NONE();

	if (!current) {
		RETURN_FALSE;
	}
	php_output_end_all();
	php_header();
	RETURN_BOOL(rust->end(current->context));
}
/* }}} */

/* {{{ getallheaders(): array, apache_request_headers(): array */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(apache_request_headers)
{
	struct howdah_pair pair;

	ZEND_PARSE_PARAMETERS_NONE();

	array_init(return_value);
	for (int first = 1; current && rust->next_field(current->context, first, &pair); first = 0) {
		add_assoc_stringl_ex(return_value, pair.name.at, pair.name.length, pair.value.at, pair.value.length);
	}
}
/* }}} */

/* {{{ apache_response_headers(): array */
PHP_FUNCTION(apache_response_headers)
{
	zend_llist_position at;

	ZEND_PARSE_PARAMETERS_NONE();

	array_init(return_value);
	for (sapi_header_struct *line = zend_llist_get_first_ex(&SG(sapi_headers).headers, &at); line;
			line = zend_llist_get_next_ex(&SG(sapi_headers).headers, &at)) {
		char *colon = memchr(line->header, ':', line->header_len);
		if (colon) {
			char *value = colon + 1 + strspn(colon + 1, " \t");
			add_assoc_stringl_ex(return_value, line->header, colon - line->header, value,
				line->header + line->header_len - value);
		}
	}
}
/* }}} */

/* {{{ apache_setenv(string $variable, string $value, bool $walk_to_top = false): bool */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_apache_setenv, 0, 2, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

PHP_FUNCTION(apache_setenv)
{
	zend_string *variable, *value;
	bool walk_to_top; /* only Apache's subrequests use it */

	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_STR(variable)
		Z_PARAM_STR(value)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(walk_to_top)
	ZEND_PARSE_PARAMETERS_END();

	(void) walk_to_top;
	if (!script_environment) {
		ALLOC_HASHTABLE(script_environment);
		zend_hash_init(script_environment, 8, NULL, ZVAL_PTR_DTOR, 0);
	}
	zval copy;
	ZVAL_STR_COPY(&copy, value);
	zend_hash_update(script_environment, variable, &copy);
	RETURN_TRUE;
}
/* }}} */

/* {{{ apache_getenv(string $variable, bool $walk_to_top = false): string|false */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_apache_getenv, 0, 1, MAY_BE_STRING | MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, variable, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, walk_to_top, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

PHP_FUNCTION(apache_getenv)
{
	zend_string *variable;
	bool walk_to_top;

	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(variable)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(walk_to_top)
	ZEND_PARSE_PARAMETERS_END();

	(void) walk_to_top;
	char *value = current ? shim_getenv(ZSTR_VAL(variable), ZSTR_LEN(variable)) : NULL;
	if (!value) {
		RETURN_FALSE;
	}
	RETURN_STRING(value);
}
/* }}} */

/* {{{ headers_send(int $status = 200): int
 * With a status of 1xx the header lines so far go out as an interim response and stay for the final one; with any other
 * the response's own head goes out. The name and the meaning are FrankenPHP's. */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

PHP_FUNCTION(headers_send)
{
	zend_long status = 200;

	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();

	if (status < 100 || status > 599 || status == 101) {
		zend_argument_value_error(1, "must be between 100 and 599, and not 101");
		RETURN_THROWS();
	}
	if (!current || SG(headers_sent)) {
		RETURN_LONG(SAPI_HEADER_SEND_FAILED);
	}
	if (status < 200) {
		int final_status = SG(sapi_headers).http_response_code;
		SG(sapi_headers).http_response_code = (int) status;
		int gone = shim_send_head(&SG(sapi_headers), 1);
		SG(sapi_headers).http_response_code = final_status;
		RETURN_LONG(gone ? SAPI_HEADER_SEND_FAILED : SAPI_HEADER_SENT_SUCCESSFULLY);
	}
	if (ZEND_NUM_ARGS() > 0) {
		SG(sapi_headers).http_response_code = (int) status;
	}
	RETURN_LONG(sapi_send_headers() == SUCCESS ? SAPI_HEADER_SENT_SUCCESSFULLY : SAPI_HEADER_SEND_FAILED);
}
/* }}} */

const zend_function_entry shim_functions[] = {
	ZEND_FE(fastcgi_finish_request, arginfo_finish_request)
	ZEND_FE(apache_request_headers, arginfo_headers)
	ZEND_FALIAS(getallheaders, apache_request_headers, arginfo_headers)
	ZEND_FE(apache_response_headers, arginfo_headers)
	ZEND_FE(apache_setenv, arginfo_apache_setenv)
	ZEND_FE(apache_getenv, arginfo_apache_getenv)
	ZEND_FE(headers_send, arginfo_headers_send)
	ZEND_FE_END
};
