/* Does what the interface forbids. Every call must return, with an error if it can return one, and must report the
 * misuse on standard error. Only for this library: with LevelDB all of this is undefined behaviour.
 *
 *     ./misuse DIRECTORY
 */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static const char* name;
static char* error = NULL;
static leveldb_options_t* options;
static leveldb_readoptions_t* read_options;
static leveldb_writeoptions_t* write_options;

static leveldb_t* opened(void) {
    leveldb_t* db = leveldb_open(options, name, &error);
    CHECK_OK(error);
    return db;
}

static void used_after_destruction(void) {
    leveldb_t* db = opened();
    leveldb_put(db, write_options, "key", 3, "value", 5, &error);
    CHECK_OK(error);
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    leveldb_iterator_t* unmoved = leveldb_create_iterator(db, read_options);
    leveldb_iter_seek_to_first(iterator);
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    leveldb_close(db); /* with two iterators and a snapshot alive */

    /* The closed database. */
    size_t length = 77;
    leveldb_put(db, write_options, "key", 3, "value", 5, &error);
    CHECK_SAYS(error, "leveldb_put: the leveldb_t was already closed");
    leveldb_delete(db, write_options, "key", 3, &error);
    CHECK_SAYS(error, "already closed");
    CHECK(leveldb_get(db, read_options, "key", 3, &length, &error) == NULL && length == 0);
    CHECK_SAYS(error, "already closed");
    CHECK(leveldb_create_iterator(db, read_options) == NULL);
    CHECK(leveldb_create_snapshot(db) == NULL);
    CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_close(db);
    leveldb_close(db);

    /* Its iterators and snapshot: the entry stays readable, moving is an error. */
    EXPECT_ENTRY(iterator, "key", "value");
    leveldb_iter_next(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_get_error(iterator, &error);
    CHECK_SAYS(error, "the store is closed");
    leveldb_iter_seek_to_last(unmoved);
    EXPECT_ENTRY(unmoved, NULL, NULL);
    leveldb_iter_get_error(unmoved, &error);
    CHECK_SAYS(error, "the store is closed");
    leveldb_release_snapshot(db, snapshot);
    leveldb_release_snapshot(db, snapshot);
    leveldb_iter_destroy(iterator);
    leveldb_iter_destroy(unmoved);

    /* The destroyed iterator. */
    leveldb_iter_destroy(iterator);
    CHECK(leveldb_iter_valid(iterator) == 0);
    leveldb_iter_seek(iterator, "k", 1);
    leveldb_iter_next(iterator);
    CHECK(leveldb_iter_key(iterator, &length) == NULL && length == 0);
    leveldb_iter_get_error(iterator, &error);
    CHECK_SAYS(error, "the leveldb_iterator_t was already destroyed");

    /* Batches, options, caches and the rest. */
    db = opened();
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_put(batch, "a", 1, "b", 1);
    leveldb_write(db, write_options, batch, &error);
    CHECK_SAYS(error, "the leveldb_writebatch_t was already destroyed");
    leveldb_writeoptions_t* gone = leveldb_writeoptions_create();
    leveldb_writeoptions_destroy(gone);
    leveldb_writeoptions_set_sync(gone, 1);
    leveldb_put(db, gone, "a", 1, "b", 1, &error);
    CHECK_SAYS(error, "the leveldb_writeoptions_t was already destroyed");
    leveldb_readoptions_t* then = leveldb_readoptions_create();
    snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(then, snapshot);
    leveldb_release_snapshot(db, snapshot);
    CHECK(leveldb_get(db, then, "key", 3, &length, &error) == NULL);
    CHECK_SAYS(error, "the leveldb_snapshot_t was already destroyed");
    iterator = leveldb_create_iterator(db, then);
    leveldb_iter_get_error(iterator, &error);
    CHECK_SAYS(error, "the leveldb_snapshot_t was already destroyed");
    leveldb_iter_seek_to_first(iterator);
    EXPECT_ENTRY(iterator, NULL, NULL);
    leveldb_iter_destroy(iterator);
    leveldb_readoptions_destroy(then);
    EXPECT(db, read_options, "key", "value");
    leveldb_close(db);
}

/* Objects of another database, and pointers to objects of another kind. */
static void wrong_objects(void) {
    char second[512];
    snprintf(second, sizeof second, "%s-second", name);
    leveldb_t* db = opened();
    leveldb_t* other = leveldb_open(options, second, &error);
    CHECK_OK(error);
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(other);
    leveldb_readoptions_t* then = leveldb_readoptions_create();
    leveldb_readoptions_set_snapshot(then, snapshot);
    size_t length;
    CHECK(leveldb_get(db, then, "key", 3, &length, &error) == NULL);
    CHECK_SAYS(error, "belongs to another database");
    leveldb_release_snapshot(db, snapshot); /* belongs to another database: it stays alive */
    CHECK(leveldb_get(other, then, "key", 3, &length, &error) == NULL);
    CHECK_OK(error);
    leveldb_release_snapshot(other, snapshot);
    leveldb_readoptions_destroy(then);
    leveldb_close(other);
    leveldb_destroy_db(options, second, &error);
    CHECK_OK(error);
    /* Pointers to something else. */
    leveldb_put((leveldb_t*)options, write_options, "a", 1, "b", 1, &error);
    CHECK_SAYS(error, "the pointer is not a leveldb_t of this library");
    leveldb_put(db, (leveldb_writeoptions_t*)read_options, "a", 1, "b", 1, &error);
    CHECK_SAYS(error, "the pointer is not a leveldb_writeoptions_t");
    char own[64] = {0};
    leveldb_close((leveldb_t*)(void*)(own + 1));
    leveldb_iter_destroy((leveldb_iterator_t*)(void*)write_options);
    leveldb_close(db);
}

static void nulls(void) {
    size_t length;
    leveldb_t* db = opened();
    CHECK(leveldb_open(NULL, name, &error) == NULL);
    CHECK_SAYS(error, "leveldb_options_t is NULL");
    CHECK(leveldb_open(options, NULL, &error) == NULL);
    CHECK_SAYS(error, "name of the database is NULL");
    leveldb_put(NULL, write_options, "a", 1, "b", 1, &error);
    CHECK_SAYS(error, "leveldb_t is NULL");
    leveldb_put(db, NULL, "a", 1, "b", 1, &error);
    CHECK_SAYS(error, "leveldb_writeoptions_t is NULL");
    leveldb_put(db, write_options, NULL, 1, "b", 1, &error);
    CHECK_SAYS(error, "the key is NULL");
    leveldb_put(db, write_options, "a", 1, NULL, 1, &error);
    CHECK_SAYS(error, "the value is NULL");
    leveldb_put(db, write_options, "a", (size_t)-1, "b", 1, &error);
    CHECK_SAYS(error, "which is too large");
    leveldb_put(db, write_options, "a", 1, "b", 1, NULL); /* no errptr is needed if there is no error: the write succeeds */
    EXPECT(db, read_options, "a", "b");
    leveldb_put(NULL, write_options, "a", 1, "b", 1, NULL);
    leveldb_get(db, read_options, "a", 1, NULL, &error);
    CHECK_SAYS(error, "NULL");
    CHECK(leveldb_get(db, NULL, "a", 1, &length, &error) == NULL);
    CHECK_SAYS(error, "leveldb_readoptions_t is NULL");
    leveldb_write(db, write_options, NULL, &error);
    CHECK_SAYS(error, "leveldb_writebatch_t is NULL");
    leveldb_approximate_sizes(db, 2, NULL, NULL, NULL, NULL, NULL);
    leveldb_approximate_sizes(db, -1, NULL, NULL, NULL, NULL, NULL);
    CHECK(leveldb_property_value(db, NULL) == NULL);
    leveldb_close(NULL);
    leveldb_iter_destroy(NULL);
    CHECK(leveldb_iter_valid(NULL) == 0);
    leveldb_iter_next(NULL);
    CHECK(leveldb_iter_key(NULL, &length) == NULL);
    leveldb_iter_get_error(NULL, &error);
    CHECK_SAYS(error, "leveldb_iterator_t is NULL");
    leveldb_release_snapshot(db, NULL);
    leveldb_writebatch_append(NULL, NULL);
    leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "a", 1, "b", 1);
    leveldb_writebatch_iterate(batch, NULL, NULL, NULL); /* no callbacks */
    leveldb_writebatch_destroy(batch);
    leveldb_options_destroy(NULL);
    leveldb_comparator_destroy(NULL);
    leveldb_filterpolicy_destroy(NULL);
    leveldb_cache_destroy(NULL);
    leveldb_env_destroy(NULL);
    leveldb_readoptions_destroy(NULL);
    leveldb_writeoptions_destroy(NULL);
    leveldb_close(db);
}

static void unpositioned_iterators(void) {
    size_t length = 5;
    leveldb_t* db = opened();
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    leveldb_iter_next(iterator);
    leveldb_iter_prev(iterator);
    CHECK(leveldb_iter_key(iterator, &length) == NULL && length == 0);
    CHECK(leveldb_iter_value(iterator, &length) == NULL && length == 0);
    leveldb_iter_seek_to_first(iterator);
    CHECK(leveldb_iter_key(iterator, NULL) == NULL); /* no pointer for the length */
    leveldb_iter_get_error(iterator, &error);
    CHECK_OK(error);
    leveldb_iter_destroy(iterator);
    leveldb_close(db);
}

static void change_the_batch(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    (void)k, (void)klen, (void)v, (void)vlen;
    leveldb_writebatch_delete(state, "more", 4);
    leveldb_writebatch_destroy(state);
}

static void deleted(void* state, const char* k, size_t klen) {
    (void)state, (void)k, (void)klen;
    CHECK(0);
}

static void a_batch_from_within(void) {
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "a", 1, "1", 1);
    leveldb_writebatch_put(batch, "b", 1, "2", 1);
    leveldb_writebatch_iterate(batch, batch, change_the_batch, deleted);
    leveldb_writebatch_iterate(batch, batch, change_the_batch, deleted); /* the batch still has two puts */
    leveldb_writebatch_destroy(batch);
}

static int destroyed = 0;

static void destructor(void* state) {
    CHECK(state == &destroyed);
    destroyed = 1;
}

static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    CHECK(state == &destroyed && !destroyed);
    int order = memcmp(b, a, alen < blen ? alen : blen);
    return order != 0 ? order : (alen < blen) - (blen < alen);
}

static const char* compare_name(void* state) {
    (void)state;
    return "misuse";
}

/* A comparator that is destroyed while its database is open stays usable until the database is closed. */
static void a_comparator_in_use(void) {
    char second[512];
    snprintf(second, sizeof second, "%s-second", name);
    leveldb_options_t* ordered = leveldb_options_create();
    leveldb_options_set_create_if_missing(ordered, 1);
    leveldb_comparator_t* comparator = leveldb_comparator_create(&destroyed, destructor, compare, compare_name);
    leveldb_options_set_comparator(ordered, comparator);
    leveldb_t* db = leveldb_open(ordered, second, &error);
    CHECK_OK(error);
    leveldb_comparator_destroy(comparator);
    leveldb_comparator_destroy(comparator);
    leveldb_put(db, write_options, "a", 1, "b", 1, &error);
    leveldb_put(db, write_options, "c", 1, "d", 1, &error);
    CHECK_OK(error);
    EXPECT(db, read_options, "c", "d");
    CHECK(!destroyed);
    leveldb_close(db);
    CHECK(destroyed);
    CHECK(leveldb_open(ordered, second, &error) == NULL);
    CHECK_SAYS(error, "the leveldb_comparator_t was already destroyed");
    leveldb_destroy_db(ordered, second, &error);
    CHECK_OK(error);
    leveldb_options_destroy(ordered);
}

static int any_order(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    static unsigned turn = 1;
    (void)state, (void)a, (void)alen, (void)b, (void)blen;
    turn = turn * 1103515245 + 12345;
    return (int)(turn >> 16) % 3 - 1;
}

static void nothing(void* state) { (void)state; }

/* A comparator that defines no order: errors and wrong answers are allowed, but an entry that an iterator reports
 * must exist. */
static void no_order(void) {
    char second[512];
    snprintf(second, sizeof second, "%s-second", name);
    leveldb_options_t* ordered = leveldb_options_create();
    leveldb_options_set_create_if_missing(ordered, 1);
    leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, nothing, any_order, compare_name);
    leveldb_options_set_comparator(ordered, comparator);
    leveldb_t* db = leveldb_open(ordered, second, &error);
    CHECK_OK(error);
    int failed = 0;
    for (int number = 0; number < 600; number++) {
        char key[16];
        size_t length = (size_t)sprintf(key, "key%04d", number);
        leveldb_put(db, write_options, key, length, "value", 5, &error);
        if (number % 20 == 0) {
            leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
            leveldb_iter_seek_to_first(iterator);
            for (int steps = 0; steps < 200 && leveldb_iter_valid(iterator); steps++) {
                const char* here = leveldb_iter_key(iterator, &length);
                CHECK(length == 7 && memcmp(here, "key", 3) == 0);
                if (steps % 50 == 49) {
                    leveldb_iter_seek(iterator, key, 7);
                } else {
                    leveldb_iter_next(iterator);
                }
            }
            if (!leveldb_iter_valid(iterator)) {
                CHECK(leveldb_iter_key(iterator, &length) == NULL);
            }
            leveldb_iter_get_error(iterator, &error);
            failed += error != NULL;
            leveldb_iter_destroy(iterator);
        }
        leveldb_free(error);
        error = NULL;
    }
    CHECK(failed > 0);
    leveldb_close(db);
    leveldb_destroy_db(ordered, second, &error);
    CHECK_OK(error);
    leveldb_options_destroy(ordered);
    leveldb_comparator_destroy(comparator);
}

struct shared {
    leveldb_t* db;
    leveldb_iterator_t* iterator;
    int ended;
};

static void* move(void* state) {
    struct shared* shared = state;
    for (int round = 0; round < 2000; round++) {
        leveldb_iter_seek_to_first(shared->iterator);
        if (leveldb_iter_valid(shared->iterator)) {
            leveldb_iter_next(shared->iterator);
        }
    }
    return NULL;
}

static void* use(void* state) {
    struct shared* shared = state;
    char* own = NULL;
    while (!__atomic_load_n(&shared->ended, __ATOMIC_RELAXED)) {
        size_t length;
        leveldb_put(shared->db, write_options, "key", 3, "value", 5, &own);
        leveldb_free(leveldb_get(shared->db, read_options, "key", 3, &length, &own));
        if (own != NULL) {
            break;
        }
    }
    CHECK_SAYS(own, "already closed");
    return NULL;
}

static void threads(void) {
    struct shared shared = {opened(), NULL, 0};
    pthread_t first, second;
    shared.iterator = leveldb_create_iterator(shared.db, read_options);
    pthread_create(&first, NULL, move, &shared);
    pthread_create(&second, NULL, move, &shared);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    leveldb_iter_destroy(shared.iterator);
    /* Closes the database while other threads are in the middle of calls. */
    pthread_create(&first, NULL, use, &shared);
    pthread_create(&second, NULL, use, &shared);
    usleep(20000);
    leveldb_close(shared.db);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}

int main(int count, char** arguments) {
    CHECK(count == 2);
    name = arguments[1];
    options = leveldb_options_create();
    read_options = leveldb_readoptions_create();
    write_options = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    used_after_destruction();
    wrong_objects();
    nulls();
    unpositioned_iterators();
    a_batch_from_within();
    a_comparator_in_use();
    no_order();
    threads();
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(read_options);
    leveldb_writeoptions_destroy(write_options);
    leveldb_options_destroy(options);
    puts("misuse: passed");
    return 0;
}
