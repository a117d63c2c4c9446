/* Ini values: the pool's, those of php.ini and .user.ini for a folder, and those of directives. */
#include "shim_internal.h"
#include "php_ini.h"
#include "zend_ini.h"

static zend_ini_entry *shim_ini_entry(const char *name, size_t length)
{
	return zend_hash_str_find_ptr(EG(ini_directives), name, length);
}

static bool tell(zend_ini_entry *entry, zend_string *value, int stage)
{
	return !entry->on_modify || entry->on_modify(entry, value, entry->mh_arg1, entry->mh_arg2,
		entry->mh_arg3, stage) == SUCCESS;
}

const char *howdah_ini_value(const char *name)
{
	zend_ini_entry *entry = shim_ini_entry(name, strlen(name));

	return !entry ? NULL : entry->value ? ZSTR_VAL(entry->value) : "";
}

int howdah_ini_protect(const char *name)
{
	zend_ini_entry *entry = shim_ini_entry(name, strlen(name));

	if (!entry) {
		return -1;
	}
	entry->modifiable = ZEND_INI_SYSTEM;
	return 0;
}

/* ---- Of php.ini and .user.ini ---- */

/* Sets the values of a table like php_ini_activate_config(), which takes the array that
 * `[HOST=...]` or `name[]=` leaves in the table for a text. */
static void shim_activate_table(HashTable *table)
{
	zend_string *name;
	zval *value;

	ZEND_HASH_FOREACH_STR_KEY_VAL(table, name, value) {
		if (name && Z_TYPE_P(value) == IS_STRING) {
			zend_alter_ini_entry_chars(name, Z_STRVAL_P(value), Z_STRLEN_P(value), PHP_INI_PERDIR,
				PHP_INI_STAGE_HTACCESS);
		}
	} ZEND_HASH_FOREACH_END();
}

static void shim_apply_user_ini(void *context)
{
	struct howdah_user_ini plan;

	if (!PG(user_ini_filename) || !*PG(user_ini_filename)
			|| !rust->user_ini(context, PG(user_ini_cache_ttl), &plan)) {
		return;
	}
	if (plan.directory_count > 0) {
		if (*plan.table) {
			zend_hash_clean(*plan.table);
		} else {
			*plan.table = pemalloc(sizeof(HashTable), 1);
			zend_hash_init((HashTable *) *plan.table, 0, NULL, config_zval_dtor, 1);
		}
		for (size_t i = 0; i < plan.directory_count; i++) {
			php_parse_user_ini_file(plan.directories[i], PG(user_ini_filename), *plan.table);
		}
	}
	if (*plan.table) {
		shim_activate_table(*plan.table);
	}
}

void howdah_user_ini_free(void *table)
{
	zend_hash_destroy(table);
	pefree(table, 1);
}

/* [HOST=...] and [PATH=...] sections of php.ini, and .user.ini files. */
static void shim_apply_files(const struct howdah_request *request)
{
	if (php_ini_has_per_host_config()) {
		const char *host = rust->variable(request->context, "SERVER_NAME", sizeof("SERVER_NAME") - 1);
		if (host) {
			char *lower = zend_str_tolower_dup(host, strlen(host));
			php_ini_activate_per_host_config(lower, strlen(lower));
			efree(lower);
		}
	}
	if (php_ini_has_per_dir_config()) {
		char *path = estrdup(request->script);
		char *slash = strrchr(path, '/');
		if (slash) {
			slash[1] = '\0';
			php_ini_activate_per_dir_config(path, strlen(path));
		}
		efree(path);
	}
	shim_apply_user_ini(request->context);
}

/* ---- Settings that are watched ---- */

static ZEND_INI_MH((*update_time_limit));
static ZEND_INI_MH((*update_basedir));
static const char *own_folders; /* of the pool, in open_basedir's form */
static zend_string *basedir; /* PHP keeps a pointer to its text */

static ZEND_INI_MH(shim_update_time_limit)
{
	int result = update_time_limit(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);

	if (current && result == SUCCESS && stage != PHP_INI_STAGE_DEACTIVATE) {
		rust->time_limit(current->context, EG(timeout_seconds));
	}
	return result;
}

/* The setting itself keeps the value that was set, for scripts to read. */
static ZEND_INI_MH(shim_update_basedir)
{
	zend_string *all = NULL;

	if (new_value && ZSTR_LEN(new_value) > 0) {
		all = zend_string_alloc(ZSTR_LEN(new_value) + 1 + strlen(own_folders), 1);
		snprintf(ZSTR_VAL(all), ZSTR_LEN(all) + 1, "%s:%s", ZSTR_VAL(new_value), own_folders);
	}
	int result = update_basedir(entry, all ? all : new_value, mh_arg1, mh_arg2, mh_arg3, stage);
	zend_string *unused = result == SUCCESS ? basedir : all;
	basedir = result == SUCCESS ? all : basedir;
	if (unused) {
		zend_string_release(unused);
	}
	return result;
}

void shim_watch_ini(const char *folders)
{
	zend_ini_entry *entry = shim_ini_entry(ZEND_STRL("max_execution_time"));

	update_time_limit = entry->on_modify;
	entry->on_modify = shim_update_time_limit;
	if (folders) {
		own_folders = folders;
		entry = shim_ini_entry(ZEND_STRL("open_basedir"));
		update_basedir = entry->on_modify;
		entry->on_modify = shim_update_basedir;
		tell(entry, entry->value, PHP_INI_STAGE_STARTUP);
	}
}

/* ---- Of directives: php_value and php_flag ---- */

/*
 * PHP undoes every value that was set during a request at the request's end. Most requests for a
 * site have the same values. Therefore values that PHP only copies to a variable are kept until a
 * request has other values or none. Scripts cannot tell them from values that were set for their
 * request. Settings with an effect (memory_limit, error_reporting) are set again for each request.
 */
#define MOST_KEPT 16

static struct kept {
	zend_ini_entry *entry;
	zend_string *value; /* not allocated in the request's memory */
} kept[MOST_KEPT];
static size_t kept_count;
static bool has_others; /* whether some of those values are not kept */

static bool is_copied(const zend_ini_entry *entry)
{
	return !entry->on_modify || entry->on_modify == OnUpdateBool || entry->on_modify == OnUpdateLong
		|| entry->on_modify == OnUpdateLongGEZero || entry->on_modify == OnUpdateReal
		|| entry->on_modify == OnUpdateString || entry->on_modify == OnUpdateStringUnempty;
}

static struct kept *find_kept(const zend_ini_entry *entry)
{
	for (size_t i = 0; i < kept_count; i++) {
		if (zend_string_equals(kept[i].entry->name, entry->name)) {
			return &kept[i];
		}
	}
	return NULL;
}

/* For a process that runs no request. The former value is not freed. */
int howdah_ini_set(const char *name, const char *text)
{
	zend_ini_entry *entry = shim_ini_entry(name, strlen(name));
	zend_string *value = zend_string_init(text, strlen(text), 1);

	if (!entry || !tell(entry, value, PHP_INI_STAGE_STARTUP)) {
		return -1;
	}
	entry->value = value;
	return 0;
}

static void drop_value(zend_ini_entry *entry)
{
	if (entry->modified && entry->value && entry->value != entry->orig_value) {
		zend_string_release(entry->value);
	}
}

/* Sets a value like zend_alter_ini_entry(), but PHP does not undo the change. */
static bool set_for_long(zend_ini_entry *entry, zend_string *value)
{
	if (!tell(entry, value, PHP_INI_STAGE_HTACCESS)) {
		return false;
	}
	drop_value(entry);
	if (!entry->modified) {
		entry->orig_value = entry->value;
		entry->orig_modifiable = entry->modifiable;
		entry->modified = 1;
	}
	entry->value = zend_string_copy(value);
	return true;
}

static void undo(zend_ini_entry *entry)
{
	if (!entry->modified) {
		return;
	}
	tell(entry, entry->orig_value, PHP_INI_STAGE_DEACTIVATE);
	drop_value(entry);
	entry->value = entry->orig_value;
	entry->modifiable = entry->orig_modifiable;
	entry->orig_value = NULL;
	entry->orig_modifiable = 0;
	entry->modified = 0;
}

void shim_forget_ini(void)
{
	while (kept_count > 0) {
		kept_count--;
		undo(kept[kept_count].entry);
		zend_string_release(kept[kept_count].value);
	}
	has_others = false;
}

/* Restores kept values that a script has changed: PHP does not undo such a change, and frees the
 * script's value. */
void shim_settle_ini(void)
{
	for (size_t i = 0; i < kept_count; i++) {
		if (kept[i].entry->value != kept[i].value) {
			set_for_long(kept[i].entry, kept[i].value);
		}
	}
}

static bool keep(zend_ini_entry *entry, const struct howdah_text *text)
{
	struct kept *place = find_kept(entry);

	if (!is_copied(entry) || (!place && kept_count == MOST_KEPT)) {
		return false;
	}
	zend_string *value = zend_string_init(text->at, text->length, 1);
	if (!set_for_long(entry, value)) {
		zend_string_release(value);
		return true; /* The value is not valid for this setting, and never will be. */
	}
	if (place) {
		zend_string_release(place->value);
	} else {
		place = &kept[kept_count++];
	}
	place->entry = entry;
	place->value = value;
	return true;
}

static void set_for_request(zend_ini_entry *entry, const struct howdah_text *text)
{
	/* PHP has a permanent string for each single character. */
	zend_string *value = zend_string_init_fast(text->at, text->length);

	zend_alter_ini_entry(entry->name, value, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
	zend_string_release(value);
}

static void apply_list(const struct howdah_request *request, bool is_new)
{
	struct howdah_pair pair;

	for (int first = 1; rust->next_ini(request->context, first, &pair); first = 0) {
		zend_ini_entry *entry = shim_ini_entry(pair.name.at, pair.name.length);
		/* The rules of mod_php for .htaccess: PHP_INI_SYSTEM settings are refused, and open_basedir
		 * can only become stricter. */
		bool is_allowed = entry && (entry->modifiable & PHP_INI_PERDIR);
		if (is_allowed && (is_new ? !keep(entry, &pair.value) : !find_kept(entry))) {
			set_for_request(entry, &pair.value);
			has_others = true;
		}
	}
}

/* Changes the effect of settings that nobody has set for this request. Scripts do not see it: they
 * read the setting's own value. */
void shim_let_sessions_collect(const struct howdah_request *request, bool now)
{
	static const char *const names[] = { "session.gc_probability", "session.gc_divisor" };

	for (size_t i = 0; request->collects_sessions && i < sizeof(names) / sizeof(*names); i++) {
		zend_ini_entry *entry = shim_ini_entry(names[i], strlen(names[i]));
		if (entry && !entry->modified) {
			tell(entry, now ? ZSTR_CHAR('1') : entry->value,
				now ? PHP_INI_STAGE_HTACCESS : PHP_INI_STAGE_DEACTIVATE);
		}
	}
}

void shim_apply_ini(const struct howdah_request *request)
{
	if (request->ini != HOWDAH_INI_AS_BEFORE) {
		shim_forget_ini();
	}
	shim_apply_files(request);
	shim_settle_ini(); /* A file may have set a setting with a kept value. */
	if (has_others || request->ini != HOWDAH_INI_AS_BEFORE) {
		apply_list(request, request->ini == HOWDAH_INI_TO_KEEP);
	}
	if (kept_count > 0 && !EG(modified_ini_directives)) {
		/* Without this table, ini_restore() treats no setting as modified. */
		ALLOC_HASHTABLE(EG(modified_ini_directives));
		zend_hash_init(EG(modified_ini_directives), 8, NULL, NULL, 0);
	}
}
