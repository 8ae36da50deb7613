/* Calls late in the life of a thread and of the process: from the destructor of a thread-specific variable, and from
 * `atexit`. A library's own thread-local variables may be gone by then. Passes with LevelDB and with this library.
 *
 *     ./endings DIRECTORY
 */
#include "check.h"

#include <pthread.h>

static leveldb_t* db;
static leveldb_options_t* options;
static leveldb_readoptions_t* read_options;
static leveldb_writeoptions_t* write_options;
static const char* name;
static pthread_key_t at_the_end;

static void put(const char* key, const char* value) {
    char* error = NULL;
    leveldb_put(db, write_options, key, strlen(key), value, strlen(value), &error);
    CHECK_OK(error);
}

/* Calls a bit of everything. */
static void use(void* unused) {
    (void)unused;
    EXPECT(db, read_options, "key", "value");
    EXPECT(db, read_options, "nothing", NULL);
    put("late", "written");
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_t* then = leveldb_readoptions_create();
    leveldb_readoptions_set_snapshot(then, snapshot);
    put("late", "again");
    EXPECT(db, then, "late", "written");
    EXPECT(db, read_options, "late", "again");
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, then);
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, "key", "value");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, "late", "written");
    leveldb_iter_destroy(iterator);
    leveldb_readoptions_destroy(then);
    leveldb_release_snapshot(db, snapshot);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_free(leveldb_property_value(db, "leveldb.stats"));
}

static void* thread(void* unused) {
    CHECK(pthread_setspecific(at_the_end, db) == 0);
    use(unused);
    return NULL;
}

static void close_at_exit(void) {
    use(NULL);
    leveldb_close(db);
    char* error = NULL;
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(read_options);
    leveldb_writeoptions_destroy(write_options);
    puts("endings: passed");
}

int main(int count, char** arguments) {
    CHECK(count == 2);
    name = arguments[1];
    options = leveldb_options_create();
    read_options = leveldb_readoptions_create();
    write_options = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    char* error = NULL;
    db = leveldb_open(options, name, &error);
    CHECK_OK(error);
    put("key", "value");
    CHECK(pthread_key_create(&at_the_end, use) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    use(NULL);
    CHECK(atexit(close_at_exit) == 0);
    return 0;
}
