/* Tests every function of the interface. Passes with LevelDB and with this library.
 *
 *     ./suite DIRECTORY        the directory is created, and deleted at the end
 */
#include "check.h"

#include <unistd.h>

static leveldb_options_t* options;
static leveldb_readoptions_t* read_options;
static leveldb_writeoptions_t* write_options;
static const char* name;
static char* error = NULL;

static void put(leveldb_t* db, const char* key, const char* value) {
    leveldb_put(db, write_options, key, strlen(key), value, strlen(value), &error);
    CHECK_OK(error);
}

static void del(leveldb_t* db, const char* key) {
    leveldb_delete(db, write_options, key, strlen(key), &error);
    CHECK_OK(error);
}

static leveldb_t* opened(void) {
    leveldb_t* db = leveldb_open(options, name, &error);
    CHECK_OK(error);
    CHECK(db != NULL);
    return db;
}

static void destroyed(void) {
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
    CHECK(access(name, F_OK) != 0);
}

static void opening(void) {
    /* There is no database yet. */
    leveldb_options_set_create_if_missing(options, 0);
    leveldb_t* db = leveldb_open(options, name, &error);
    CHECK(db == NULL);
    CHECK_SAYS(error, "Invalid argument: ");
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);

    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    db = opened();
    /* A second opening fails. An old error string is replaced. */
    error = strdup("old");
    CHECK(leveldb_open(options, name, &error) == NULL);
    CHECK(strcmp(error, "old") != 0);
    CHECK_SAYS(error, name);
    leveldb_close(db);
    CHECK(leveldb_open(options, name, &error) == NULL);
    CHECK_SAYS(error, "exists (error_if_exists is true)");
    leveldb_options_set_error_if_exists(options, 0);

    db = opened();
    CHECK(leveldb_open(options, name, &error) == NULL);
    CHECK_SAYS(error, "IO error: lock ");
    leveldb_destroy_db(options, name, &error);
    CHECK_SAYS(error, "IO error: ");
    leveldb_close(db);
    leveldb_options_set_create_if_missing(options, 0);
    db = opened();
    leveldb_close(db);
    leveldb_options_set_create_if_missing(options, 1);
    destroyed();
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
}

static void values(void) {
    leveldb_t* db = opened();
    EXPECT(db, read_options, "foo", NULL);
    put(db, "foo", "hello");
    EXPECT(db, read_options, "foo", "hello");
    put(db, "foo", "");
    EXPECT(db, read_options, "foo", "");
    /* An empty value and an empty key. */
    leveldb_put(db, write_options, "", 0, "empty key", 9, &error);
    CHECK_OK(error);
    expect_at(__LINE__, db, read_options, "", 0, "empty key", 9);
    del(db, "never there");
    /* Any bytes. */
    leveldb_put(db, write_options, "\0\xff\n", 3, "\0\0", 2, &error);
    CHECK_OK(error);
    expect_at(__LINE__, db, read_options, "\0\xff\n", 3, "\0\0", 2);
    expect_at(__LINE__, db, read_options, "\0", 1, NULL, 0);
    /* A large value. */
    size_t large = 5 << 20;
    char* bytes = malloc(large);
    for (size_t at = 0; at < large; at++) {
        bytes[at] = (char)(at * 2654435761u >> 24);
    }
    leveldb_put(db, write_options, "large", 5, bytes, large, &error);
    CHECK_OK(error);
    expect_at(__LINE__, db, read_options, "large", 5, bytes, large);
    /* A synced write. */
    leveldb_writeoptions_set_sync(write_options, 1);
    put(db, "synced", "yes");
    leveldb_writeoptions_set_sync(write_options, 0);
    del(db, "foo");
    EXPECT(db, read_options, "foo", NULL);
    leveldb_close(db);

    db = opened();
    expect_at(__LINE__, db, read_options, "large", 5, bytes, large);
    EXPECT(db, read_options, "synced", "yes");
    EXPECT(db, read_options, "foo", NULL);
    expect_at(__LINE__, db, read_options, "", 0, "empty key", 9);
    free(bytes);
    leveldb_close(db);
    destroyed();
}

static char log_text[256];

static void log_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    CHECK(state == &log_text);
    sprintf(log_text + strlen(log_text), "+%.*s=%.*s ", (int)klen, k, (int)vlen, v);
}

static void log_deleted(void* state, const char* k, size_t klen) {
    CHECK(state == &log_text);
    sprintf(log_text + strlen(log_text), "-%.*s ", (int)klen, k);
}

static void expect_batch(const leveldb_writebatch_t* batch, const char* text) {
    log_text[0] = 0;
    leveldb_writebatch_iterate(batch, &log_text, log_put, log_deleted);
    if (strcmp(log_text, text) != 0) {
        fprintf(stderr, "batch is \"%s\", expected \"%s\"\n", log_text, text);
        exit(1);
    }
}

static void batches(void) {
    leveldb_t* db = opened();
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_t* other = leveldb_writebatch_create();
    expect_batch(batch, "");
    leveldb_write(db, write_options, batch, &error); /* an empty batch */
    CHECK_OK(error);
    leveldb_writebatch_put(batch, "foo", 3, "a", 1);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "bar", 3, "b", 1);
    leveldb_writebatch_put(batch, "box", 3, "c", 1);
    leveldb_writebatch_delete(batch, "bar", 3);
    expect_batch(batch, "+bar=b +box=c -bar ");
    leveldb_writebatch_put(other, "box", 3, "d", 1);
    leveldb_writebatch_delete(other, "gone", 4);
    leveldb_writebatch_append(batch, other);
    expect_batch(batch, "+bar=b +box=c -bar +box=d -gone ");
    expect_batch(other, "+box=d -gone ");
    leveldb_writebatch_append(other, other);
    expect_batch(other, "+box=d -gone +box=d -gone ");
    put(db, "gone", "before");
    put(db, "bar", "before");
    leveldb_write(db, write_options, batch, &error);
    CHECK_OK(error);
    EXPECT(db, read_options, "foo", NULL);
    EXPECT(db, read_options, "bar", NULL);
    EXPECT(db, read_options, "box", "d");
    EXPECT(db, read_options, "gone", NULL);
    /* The batch is unchanged and may be written again. */
    put(db, "box", "else");
    expect_batch(batch, "+bar=b +box=c -bar +box=d -gone ");
    leveldb_write(db, write_options, batch, &error);
    CHECK_OK(error);
    EXPECT(db, read_options, "box", "d");
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(other);
    leveldb_close(db);
    destroyed();
}

static void iterators(void) {
    leveldb_t* db = opened();
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_seek_to_last(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_destroy(iterator);

    put(db, "b", "2");
    put(db, "d", "4");
    put(db, "c", "3");
    put(db, "a", "1");
    del(db, "c");
    iterator = leveldb_create_iterator(db, read_options);
    put(db, "c", "later"); /* not visible to the iterator */
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, "a", "1");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, "b", "2");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, "d", "4");
    leveldb_iter_prev(iterator); /* the other way */
    EXPECT_ENTRY(iterator, "b", "2");
    leveldb_iter_next(iterator); /* and back */
    EXPECT_ENTRY(iterator, "d", "4");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_seek_to_last(iterator);
    EXPECT_ENTRY(iterator, "d", "4");
    leveldb_iter_prev(iterator);
    leveldb_iter_prev(iterator);
    EXPECT_ENTRY(iterator, "a", "1");
    leveldb_iter_prev(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_seek(iterator, "bb", 2);
    EXPECT_ENTRY(iterator, "d", "4");
    leveldb_iter_seek(iterator, "b", 1);
    EXPECT_ENTRY(iterator, "b", "2");
    leveldb_iter_seek(iterator, "", 0);
    EXPECT_ENTRY(iterator, "a", "1");
    leveldb_iter_seek(iterator, "z", 1);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_get_error(iterator, &error);
    CHECK_OK(error);
    leveldb_iter_destroy(iterator);
    leveldb_close(db);
    destroyed();
}

static void snapshots(void) {
    leveldb_t* db = opened();
    put(db, "k", "old");
    put(db, "gone", "here");
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    put(db, "k", "new");
    put(db, "later", "1");
    del(db, "gone");
    const leveldb_snapshot_t* second = leveldb_create_snapshot(db);
    leveldb_readoptions_t* then = leveldb_readoptions_create();
    leveldb_readoptions_set_snapshot(then, snapshot);
    EXPECT(db, then, "k", "old");
    EXPECT(db, then, "gone", "here");
    EXPECT(db, then, "later", NULL);
    EXPECT(db, read_options, "k", "new");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    EXPECT(db, then, "k", "old");
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, then);
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, "gone", "here");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, "k", "old");
    /* An iterator stays valid after its snapshot was released. */
    leveldb_readoptions_set_snapshot(then, NULL);
    leveldb_release_snapshot(db, snapshot);
    leveldb_iter_prev(iterator);
    EXPECT_ENTRY(iterator, "gone", "here");
    leveldb_iter_destroy(iterator);
    EXPECT(db, then, "k", "new");
    leveldb_readoptions_set_snapshot(then, second);
    put(db, "k", "newest");
    EXPECT(db, then, "k", "new");
    leveldb_readoptions_set_snapshot(then, NULL);
    EXPECT(db, then, "k", "newest");
    leveldb_release_snapshot(db, second);
    leveldb_readoptions_destroy(then);
    leveldb_close(db);
    destroyed();
}

static int destructions = 0;

static void destruct(void* state) {
    CHECK(state == &destructions);
    destructions++;
}

static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    CHECK(state == &destructions);
    size_t common = alen < blen ? alen : blen;
    int order = memcmp(b, a, common);
    return order != 0 ? order : blen < alen ? -1 : blen > alen;
}

static const char* backwards_name(void* state) {
    (void)state;
    return "test.backwards";
}

static char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? (char)(letter + 32) : letter; }

static int without_case(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    (void)state;
    for (size_t at = 0; at < alen && at < blen; at++) {
        int order = (unsigned char)lower(a[at]) - (unsigned char)lower(b[at]);
        if (order != 0) {
            return order;
        }
    }
    return alen < blen ? -1 : alen > blen;
}

static const char* without_case_name(void* state) {
    (void)state;
    return "test.without_case";
}

static void comparators(void) {
    leveldb_comparator_t* comparator = leveldb_comparator_create(&destructions, destruct, backwards, backwards_name);
    leveldb_options_t* bytewise = options;
    options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_comparator(options, comparator);
    leveldb_t* db = opened();
    char key[16];
    for (int number = 0; number < 1000; number++) {
        int length = sprintf(key, "key%04d", number * 7919 % 1000);
        leveldb_put(db, write_options, key, (size_t)length, key, (size_t)length, &error);
        CHECK_OK(error);
    }
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    int number = 999;
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        sprintf(key, "key%04d", number--);
        EXPECT_ENTRY(iterator, key, key);
    }
    CHECK(number == -1);
    leveldb_iter_seek(iterator, "key0500x", 8);
    EXPECT_ENTRY(iterator, "key0500", "key0500");
    leveldb_iter_prev(iterator);
    EXPECT_ENTRY(iterator, "key0501", "key0501");
    leveldb_iter_destroy(iterator);
    EXPECT(db, read_options, "key0123", "key0123");
    EXPECT(db, read_options, "key", NULL);
    leveldb_compact_range(db, "key0900", 7, "key0100", 7);
    leveldb_close(db);

    /* The order of a database cannot change. */
    CHECK(destructions == 0);
    CHECK(leveldb_open(bytewise, name, &error) == NULL);
    CHECK_SAYS(error, "leveldb.BytewiseComparator");
    db = opened();
    EXPECT(db, read_options, "key0999", "key0999");
    leveldb_close(db);
    destroyed();
    leveldb_options_destroy(options);
    options = bytewise;
    leveldb_comparator_destroy(comparator);
    CHECK(destructions == 1);
}

static void do_nothing(void* state) { (void)state; }

/* The key of a seek may lie in the iterator itself. Each value here is the key of another entry, across the whole
 * database. */
static void seeks_of_values(void) {
    leveldb_comparator_t* comparator = leveldb_comparator_create(&destructions, destruct, backwards, backwards_name);
    leveldb_options_t* bytewise = options;
    for (int ordered = 0; ordered < 2; ordered++) {
        options = leveldb_options_create();
        leveldb_options_set_create_if_missing(options, 1);
        if (ordered) {
            leveldb_options_set_comparator(options, comparator);
        }
        leveldb_t* db = opened();
        char key[16], value[16];
        for (int number = 0; number < 1000; number++) {
            sprintf(key, "key%04d", number);
            sprintf(value, "key%04d", (number * 7919 + 13) % 1000);
            put(db, key, value);
        }
        leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
        leveldb_iter_seek(iterator, "key0000", 7);
        for (int round = 0, number = 0; round < 1000; round++) {
            size_t length;
            const char* next = leveldb_iter_value(iterator, &length);
            leveldb_iter_seek(iterator, next, length);
            number = (number * 7919 + 13) % 1000;
            sprintf(key, "key%04d", number);
            sprintf(value, "key%04d", (number * 7919 + 13) % 1000);
            EXPECT_ENTRY(iterator, key, value);
        }
        leveldb_iter_destroy(iterator);
        leveldb_close(db);
        destroyed();
        leveldb_options_destroy(options);
    }
    options = bytewise;
    leveldb_comparator_destroy(comparator);
}

/* Keys that compare as equal are one key, stored with the spelling of the last write. */
static void spellings(void) {
    leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, do_nothing, without_case, without_case_name);
    leveldb_options_t* bytewise = options;
    options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_comparator(options, comparator);
    leveldb_t* db = opened();
    put(db, "Danube", "1");
    put(db, "elbe", "2");
    EXPECT(db, read_options, "dANUBE", "1");
    put(db, "DANUBE", "3");
    EXPECT(db, read_options, "Danube", "3");
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, "DANUBE", "3");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, "elbe", "2");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_destroy(iterator);
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "ELBE", 4, "4", 1);
    leveldb_writebatch_delete(batch, "danube", 6);
    leveldb_writebatch_put(batch, "Rhine", 5, "5", 1);
    leveldb_writebatch_put(batch, "rhine", 5, "6", 1);
    leveldb_write(db, write_options, batch, &error);
    CHECK_OK(error);
    leveldb_writebatch_destroy(batch);
    EXPECT(db, read_options, "DANUBE", NULL);
    EXPECT(db, read_options, "elbe", "4");
    EXPECT(db, read_options, "RHINE", "6");
    leveldb_close(db);
    destroyed();
    leveldb_options_destroy(options);
    options = bytewise;
    leveldb_comparator_destroy(comparator);
}

static char* create_filter(void* state, const char* const* keys, const size_t* lengths, int count, size_t* length) {
    (void)state, (void)keys, (void)lengths, (void)count;
    *length = 4;
    char* filter = malloc(4);
    memcpy(filter, "fake", 4);
    return filter;
}

static uint8_t may_match(void* state, const char* key, size_t length, const char* filter, size_t filter_length) {
    (void)state, (void)key, (void)length, (void)filter, (void)filter_length;
    return 1;
}

static const char* filter_name(void* state) {
    (void)state;
    return "test.filter";
}

static void filters_and_caches(void) {
    int before = destructions;
    leveldb_options_t* without = options;
    options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
    leveldb_options_set_cache(options, cache);
    for (int round = 0; round < 2; round++) {
        leveldb_filterpolicy_t* policy =
            round == 0 ? leveldb_filterpolicy_create(&destructions, destruct, create_filter, may_match, filter_name)
                       : leveldb_filterpolicy_create_bloom(10);
        leveldb_options_set_filter_policy(options, policy);
        leveldb_t* db = opened();
        /* Two databases share one cache. */
        char second[512];
        snprintf(second, sizeof second, "%s-second", name);
        leveldb_t* other = leveldb_open(options, second, &error);
        CHECK_OK(error);
        put(db, "foo", "foovalue");
        put(other, "bar", "barvalue");
        leveldb_compact_range(db, NULL, 0, NULL, 0);
        EXPECT(db, read_options, "foo", "foovalue");
        EXPECT(db, read_options, "bar", NULL);
        EXPECT(other, read_options, "bar", "barvalue");
        leveldb_close(db);
        leveldb_close(other);
        destroyed();
        leveldb_destroy_db(options, second, &error);
        CHECK_OK(error);
        leveldb_options_set_filter_policy(options, NULL);
        leveldb_filterpolicy_destroy(policy);
    }
    CHECK(destructions == before + 1);
    leveldb_options_destroy(options);
    options = without;
    leveldb_cache_destroy(cache);
}

static void properties_and_sizes(int entries) {
    leveldb_t* db = opened();
    char key[32];
    for (int number = 0; number < entries; number++) {
        int length = sprintf(key, "k%020d", number);
        leveldb_put(db, write_options, key, (size_t)length, key, (size_t)length, &error);
        CHECK_OK(error);
    }
    char middle[32];
    snprintf(middle, sizeof middle, "k%020d", entries / 2);
    const char* starts[] = {"a", middle, "x"};
    const char* limits[] = {middle, "z", "y"};
    size_t start_lengths[] = {1, 21, 1}, limit_lengths[] = {21, 1, 1};
    uint64_t sizes[3] = {77, 77, 77};
    leveldb_compact_range(db, "k", 1, "l", 1);
    leveldb_approximate_sizes(db, 3, starts, start_lengths, limits, limit_lengths, sizes);
    CHECK(sizes[0] > 0 && sizes[0] < 1 << 30);
    CHECK(sizes[1] > 0 && sizes[1] < 1 << 30);
    CHECK(sizes[2] == 0);
    leveldb_approximate_sizes(db, 0, starts, start_lengths, limits, limit_lengths, sizes);
    const char* known[] = {"leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage",
                           "leveldb.num-files-at-level0", "leveldb.num-files-at-level6"};
    for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
        char* value = leveldb_property_value(db, known[at]);
        CHECK(value != NULL && strlen(value) > 0);
        if (strstr(known[at], "num-files") || strstr(known[at], "memory")) {
            CHECK(strspn(value, "0123456789") == strlen(value));
        }
        leveldb_free(value);
    }
    int files = 0;
    for (int level = 0; level < 7; level++) {
        snprintf(key, sizeof key, "leveldb.num-files-at-level%d", level);
        char* value = leveldb_property_value(db, key);
        files += atoi(value);
        free(value); /* works as well as leveldb_free */
    }
    CHECK(files > 0);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level7") == NULL);
    CHECK(leveldb_property_value(db, "leveldb.num-files-at-level") == NULL);
    CHECK(leveldb_property_value(db, "leveldb.nothing") == NULL);
    CHECK(leveldb_property_value(db, "stats") == NULL);
    leveldb_close(db);
    destroyed();
}

static void repair(void) {
    leveldb_t* db = opened();
    put(db, "foo", "hello");
    put(db, "bar", "gone");
    del(db, "bar");
    leveldb_close(db);
    leveldb_options_set_create_if_missing(options, 0);
    leveldb_options_set_error_if_exists(options, 0);
    leveldb_repair_db(options, name, &error);
    CHECK_OK(error);
    db = opened();
    EXPECT(db, read_options, "foo", "hello");
    EXPECT(db, read_options, "bar", NULL);
    leveldb_close(db);
    leveldb_options_set_create_if_missing(options, 1);
    /* LevelDB leaves a folder of files that it set aside, so the directory stays. */
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
}

static void settings(void) {
    leveldb_options_set_paranoid_checks(options, 1);
    leveldb_options_set_write_buffer_size(options, 100000);
    leveldb_options_set_max_open_files(options, 20);
    leveldb_options_set_block_size(options, 1024);
    leveldb_options_set_block_restart_interval(options, 8);
    leveldb_options_set_max_file_size(options, 3 << 20);
    leveldb_options_set_compression(options, leveldb_no_compression);
    leveldb_options_set_compression(options, leveldb_snappy_compression);
    leveldb_options_set_info_log(options, NULL);
    leveldb_readoptions_set_verify_checksums(read_options, 1);
    leveldb_readoptions_set_fill_cache(read_options, 0);
    CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
    leveldb_free(NULL);
}

int main(int count, char** arguments) {
    CHECK(count >= 2);
    name = arguments[1];
    /* Under valgrind a smaller number suffices. */
    int entries = count > 2 ? atoi(arguments[2]) : 20000;
    options = leveldb_options_create();
    read_options = leveldb_readoptions_create();
    write_options = leveldb_writeoptions_create();
    leveldb_env_t* env = leveldb_create_default_env();
    char* directory = leveldb_env_get_test_directory(env);
    CHECK(directory != NULL && access(directory, W_OK) == 0);
    leveldb_free(directory);
    leveldb_options_set_env(options, env);
    settings();
    opening();
    values();
    batches();
    iterators();
    snapshots();
    comparators();
    seeks_of_values();
    spellings();
    filters_and_caches();
    properties_and_sizes(entries);
    repair();
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(read_options);
    leveldb_writeoptions_destroy(write_options);
    leveldb_env_destroy(env);
    puts("suite: passed");
    return 0;
}
