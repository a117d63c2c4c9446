/* Functions for scripts. Rust knows the answers. */
#include "shim_internal.h"
#include "php_main.h"
#include "php_output.h"
#include "ext/json/php_json.h"
#include "ext/standard/head.h"

#include "functions_arginfo.h"

#define PARSE(...) do { \
		if (zend_parse_parameters(ZEND_NUM_ARGS(), __VA_ARGS__) == FAILURE) RETURN_THROWS(); \
	} while (0)

char *shim_getenv(const char *name, size_t length)
{
	return current ? (char *) rust->variable(current->context, name, length) : getenv(name);
}

static struct howdah_text text_of(const zend_string *text)
{
	return text ? (struct howdah_text) { ZSTR_VAL(text), ZSTR_LEN(text) } : (struct howdah_text) { 0 };
}

/* Returns a list from Rust, as an array. */
static void return_list(zval *return_value, int list, const zend_string *about)
{
	struct howdah_pair pair;
	zval value;

	array_init(return_value);
	for (int first = 1; current
			&& rust->next_listed(current->context, list, text_of(about), first, &pair); first = 0) {
		if (pair.value.at) {
			ZVAL_STRINGL(&value, pair.value.at, pair.value.length);
		} else {
			ZVAL_LONG(&value, (zend_long) pair.value.length);
		}
		if (pair.name.at) {
			add_assoc_zval_ex(return_value, pair.name.at, pair.name.length, &value);
		} else {
			add_next_index_zval(return_value, &value);
		}
	}
}

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

#define LIST_FUNCTION(name, list) \
	PHP_FUNCTION(name) { ZEND_PARSE_PARAMETERS_NONE(); return_list(return_value, list, NULL); }
LIST_FUNCTION(apache_request_headers, HOWDAH_FIELDS)
LIST_FUNCTION(apache_get_modules, HOWDAH_MODULES)

PHP_FUNCTION(fpm_get_status)
{
	struct howdah_text json;

	ZEND_PARSE_PARAMETERS_NONE();
	if (!current || !rust->fpm_status(current->context, &json)
			|| php_json_decode_ex(return_value, json.at, json.length, PHP_JSON_OBJECT_AS_ARRAY, 8)
				== FAILURE) {
		RETURN_FALSE;
	}
}

PHP_FUNCTION(apache_lookup_uri)
{
	zend_string *uri;

	PARSE("P", &uri);
	return_list(return_value, HOWDAH_URI, uri);
	if (zend_hash_num_elements(Z_ARRVAL_P(return_value)) > 0) {
		convert_to_object(return_value);
		return;
	}
	zval_ptr_dtor(return_value);
	php_error_docref(NULL, E_WARNING, "Unable to include '%s' - error finding URI", ZSTR_VAL(uri));
	RETURN_FALSE;
}

PHP_FUNCTION(virtual)
{
	zend_string *uri;
	struct howdah_text about = { .at = "there is no request" };
	zend_file_handle file;

	PARSE("P", &uri);
	int found = current ? rust->sub_request(current->context, text_of(uri), &about) : HOWDAH_NOTHING;
	if (found == HOWDAH_NOTHING) {
		php_error_docref(NULL, E_WARNING, "Unable to include '%s' - %s", ZSTR_VAL(uri), about.at);
		RETURN_FALSE;
	}
	/* Callbacks of the script may run here, and call this function: the text does not last. */
	zend_stream_init_filename(&file, about.at);
	php_output_end_all();
	php_header();
	zend_execute_scripts(ZEND_INCLUDE, NULL, found == HOWDAH_SCRIPT ? 1 : 0, &file);
	zend_destroy_file_handle(&file);
	if (rust->end_sub_request(current->context, found) != 0) {
		shim_refuse_output();
	}
	RETURN_TRUE;
}

PHP_FUNCTION(apache_response_headers)
{
	zend_llist_position at;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	FOR_EACH_LINE(line, at, &SG(sapi_headers)) {
		char *colon = memchr(line->header, ':', line->header_len);
		if (colon) {
			char *value = colon + 1 + strspn(colon + 1, " \t");
			add_assoc_stringl_ex(return_value, line->header, colon - line->header, value,
				line->header + line->header_len - value);
		}
	}
}

PHP_FUNCTION(apache_setenv)
{
	zend_string *variable, *value;
	bool walk_to_top; /* only Apache's subrequests use it */

	PARSE("SS|b", &variable, &value, &walk_to_top);
	if (current) {
		rust->set_variable(current->context, text_of(variable), text_of(value));
	}
	RETURN_TRUE;
}

static void return_variable(zval *return_value, const char *name, size_t length)
{
	char *value = current ? shim_getenv(name, length) : NULL;

	if (!value) {
		RETURN_FALSE;
	}
	RETURN_STRING(value);
}

PHP_FUNCTION(apache_getenv)
{
	zend_string *variable;
	bool walk_to_top;

	PARSE("S|b", &variable, &walk_to_top);
	return_variable(return_value, ZSTR_VAL(variable), ZSTR_LEN(variable));
}

PHP_FUNCTION(apache_get_version)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_variable(return_value, ZEND_STRL("SERVER_SOFTWARE"));
}

PHP_FUNCTION(apache_note)
{
	zend_string *name, *value = NULL;
	struct howdah_text former;

	PARSE("S|S!", &name, &value);
	if (!current || !rust->note(current->context, text_of(name), text_of(value), &former)) {
		RETURN_FALSE;
	}
	RETURN_STRINGL(former.at, former.length);
}

/* headers_send(int $status = 200): int, as FrankenPHP has it. With a status of 1xx the header lines
 * so far go out as an interim response and stay for the final one. With any other status the
 * response's own head goes out. */
PHP_FUNCTION(headers_send)
{
	zend_long status = 200;

	PARSE("|l", &status);
	if (status < 100 || status > 599 || status == 101) {
		zend_argument_value_error(1, "must be between 100 and 599, and not 101");
		RETURN_THROWS();
	}
	if (!current || SG(headers_sent)) {
		RETURN_LONG(SAPI_HEADER_SEND_FAILED);
	}
	if (status < 200) {
		int gone = shim_send_head(&SG(sapi_headers), (int) status);
		RETURN_LONG(gone ? SAPI_HEADER_SEND_FAILED : SAPI_HEADER_SENT_SUCCESSFULLY);
	}
	if (ZEND_NUM_ARGS() > 0) {
		SG(sapi_headers).http_response_code = (int) status;
	}
	bool is_sent = sapi_send_headers() == SUCCESS;
	RETURN_LONG(is_sent ? SAPI_HEADER_SENT_SUCCESSFULLY : SAPI_HEADER_SEND_FAILED);
}
