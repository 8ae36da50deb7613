/* Random calls with random pointers: live objects, destroyed objects, objects of another kind, and NULL; by several
 * threads at once, and from a batch's callbacks. Every call must return, and reads must return what was written. Only
 * for this library.
 *
 *     ./chaos DIRECTORY SEED CALLS THREADS
 */
#include "check.h"

#include <pthread.h>

enum { DB, ITERATOR, SNAPSHOT, BATCH, OPTIONS, READ, WRITE, COMPARATOR, FILTER, CACHE, ENV, KINDS };

#define POINTERS 6
#define DIRECTORIES 2

/* The newest objects of each kind, destroyed or not, shared by all threads. Of databases, one per directory: a
 * directory cannot be opened twice. */
static void* pointers[KINDS][POINTERS];
static char names[DIRECTORIES][512];
static int calls, threads, gets_found, entries_seen;

struct dice {
    uint64_t state;
    int depth;
};

static unsigned below(struct dice* dice, unsigned bound) {
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice->state >> 33) % bound;
}

static unsigned place(struct dice* dice, unsigned kind) { return below(dice, kind == DB ? DIRECTORIES : POINTERS); }

static void* any(struct dice* dice, int kind) {
    unsigned odd = below(dice, 40);
    if (odd == 0) {
        return NULL;
    }
    unsigned given = odd == 1 ? below(dice, KINDS) : (unsigned)kind;
    return __atomic_load_n(&pointers[given][place(dice, given)], __ATOMIC_RELAXED);
}

static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
    (void)state;
    int order = memcmp(b, a, alen < blen ? alen : blen);
    return order != 0 ? order : (alen < blen) - (blen < alen);
}

static const char* compare_name(void* state) {
    (void)state;
    return "chaos";
}

static void nothing(void* state) { (void)state; }

static void end(int kind, void* it) {
    switch (kind) {
    case DB: leveldb_close(it); break;
    case ITERATOR: leveldb_iter_destroy(it); break;
    case SNAPSHOT: leveldb_release_snapshot(NULL, it); break;
    case BATCH: leveldb_writebatch_destroy(it); break;
    case OPTIONS: leveldb_options_destroy(it); break;
    case READ: leveldb_readoptions_destroy(it); break;
    case WRITE: leveldb_writeoptions_destroy(it); break;
    case COMPARATOR: leveldb_comparator_destroy(it); break;
    case FILTER: leveldb_filterpolicy_destroy(it); break;
    case CACHE: leveldb_cache_destroy(it); break;
    case ENV: leveldb_env_destroy(it); break;
    }
}

/* Replaces an object, and destroys the old one if that has not happened yet. */
static void put_in(int kind, unsigned at, void* made) {
    if (made == NULL) {
        return;
    }
    void* old = __atomic_exchange_n(&pointers[kind][at], made, __ATOMIC_RELAXED);
    if (old != NULL) {
        end(kind, old);
    }
}

static void keep(struct dice* dice, int kind, void* made) { put_in(kind, place(dice, kind), made); }

static void call(struct dice* dice);

static void in_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
    (void)k, (void)klen, (void)v, (void)vlen;
    call(state);
}

static void in_delete(void* state, const char* k, size_t klen) {
    (void)k, (void)klen;
    call(state);
}

/* If no other thread moves the iterator, the entry that it reports must be there. */
static void look(void* iterator) {
    size_t klen, vlen;
    const char* k = leveldb_iter_key(iterator, &klen);
    const char* v = leveldb_iter_value(iterator, &vlen);
    __atomic_fetch_add(&entries_seen, k != NULL, __ATOMIC_RELAXED);
    if (k != NULL && threads == 1) {
        CHECK(v != NULL && klen == 8 && memcmp(k, "key", 3) == 0 && vlen < 300);
        for (size_t at = 0; at < vlen; at++) {
            CHECK(v[at] == 'v');
        }
    }
}

static void make(struct dice* dice, char** error) {
    switch (below(dice, KINDS)) {
    case DB: {
        unsigned at = place(dice, DB);
        put_in(DB, at, leveldb_open(any(dice, OPTIONS), names[at], error));
        break;
    }
    case ITERATOR: keep(dice, ITERATOR, leveldb_create_iterator(any(dice, DB), any(dice, READ))); break;
    case SNAPSHOT: keep(dice, SNAPSHOT, (void*)leveldb_create_snapshot(any(dice, DB))); break;
    case BATCH: keep(dice, BATCH, leveldb_writebatch_create()); break;
    case OPTIONS: {
        leveldb_options_t* options = leveldb_options_create();
        leveldb_options_set_create_if_missing(options, 1);
        keep(dice, OPTIONS, options);
        break;
    }
    case READ: keep(dice, READ, leveldb_readoptions_create()); break;
    case WRITE: keep(dice, WRITE, leveldb_writeoptions_create()); break;
    case COMPARATOR: keep(dice, COMPARATOR, leveldb_comparator_create(NULL, nothing, compare, compare_name)); break;
    case FILTER: keep(dice, FILTER, leveldb_filterpolicy_create_bloom(10)); break;
    case CACHE: keep(dice, CACHE, leveldb_cache_create_lru(1 << 20)); break;
    case ENV: keep(dice, ENV, leveldb_create_default_env()); break;
    }
}

static void set(struct dice* dice) {
    void* options = any(dice, OPTIONS);
    switch (below(dice, 8)) {
    case 0: leveldb_options_set_comparator(options, any(dice, COMPARATOR)); break;
    case 1: leveldb_options_set_filter_policy(options, any(dice, FILTER)); break;
    case 2: leveldb_options_set_env(options, any(dice, ENV)); break;
    case 3: leveldb_options_set_cache(options, any(dice, CACHE)); break;
    case 4: leveldb_options_set_write_buffer_size(options, below(dice, 1 << 20)); break;
    case 5: leveldb_options_set_compression(options, (int)below(dice, 3) - 1); break;
    default: leveldb_readoptions_set_snapshot(any(dice, READ), any(dice, SNAPSHOT));
    }
}

static void move(struct dice* dice, const char* key, size_t klen, char** error) {
    void* iterator = any(dice, ITERATOR);
    switch (below(dice, 6)) {
    case 0: leveldb_iter_seek_to_first(iterator); break;
    case 1: leveldb_iter_seek_to_last(iterator); break;
    case 2: leveldb_iter_seek(iterator, key, klen); break;
    case 3: leveldb_iter_get_error(iterator, error); break;
    default:
        for (unsigned steps = below(dice, 100); steps > 0 && leveldb_iter_valid(iterator); steps--) {
            if (klen % 2) {
                leveldb_iter_next(iterator);
            } else {
                leveldb_iter_prev(iterator);
            }
        }
    }
    look(iterator);
}

/* One call, or a few that belong together. */
static void call(struct dice* dice) {
    char key[16], value[300];
    size_t klen = (size_t)sprintf(key, "key%05u", below(dice, 500)), vlen = below(dice, sizeof value), length;
    memset(value, 'v', sizeof value);
    char *error = NULL, **errptr = below(dice, 50) ? &error : NULL;
    void* batch = any(dice, BATCH);
    switch (below(dice, 24)) {
    case 0: make(dice, errptr); break;
    case 1: {
        int kind = (int)below(dice, KINDS);
        if (below(dice, kind == DB ? 30 : 3) == 0) {
            end(kind, any(dice, kind));
        }
        break;
    }
    case 2: set(dice); break;
    case 3: leveldb_writebatch_put(batch, key, klen, value, vlen); break;
    case 4: leveldb_writebatch_delete(batch, key, klen); break;
    case 5: leveldb_writebatch_append(batch, any(dice, BATCH)); break;
    case 6: leveldb_writebatch_clear(batch); break;
    case 7:
        if (dice->depth < 3) {
            dice->depth++;
            leveldb_writebatch_iterate(batch, dice, in_put, in_delete);
            dice->depth--;
        }
        break;
    case 8:
        leveldb_write(any(dice, DB), any(dice, WRITE), batch, errptr);
        leveldb_writebatch_clear(batch);
        break;
    case 9: leveldb_writeoptions_set_sync(any(dice, WRITE), below(dice, 20) == 0); break;
    case 10: {
        const char *start = below(dice, 4) ? key : NULL, *limit = below(dice, 4) ? "key0100" : NULL;
        if (below(dice, 20) == 0) {
            leveldb_compact_range(any(dice, DB), start, klen, limit, 7);
        }
        leveldb_approximate_sizes(any(dice, DB), start != NULL, &start, &klen, &limit, &(size_t){7}, &(uint64_t){0});
        break;
    }
    case 11: leveldb_free(leveldb_property_value(any(dice, DB), below(dice, 2) ? "leveldb.stats" : "leveldb.sstables")); break;
    case 12: leveldb_release_snapshot(any(dice, DB), any(dice, SNAPSHOT)); break;
    case 13: leveldb_delete(any(dice, DB), any(dice, WRITE), key, klen, errptr); break;
    case 14:
    case 15:
    case 16: {
        char* found = leveldb_get(any(dice, DB), any(dice, READ), key, klen, &length, errptr);
        __atomic_fetch_add(&gets_found, found != NULL, __ATOMIC_RELAXED);
        leveldb_free(found);
        break;
    }
    case 17:
    case 18:
    case 19: leveldb_put(any(dice, DB), any(dice, WRITE), key, klen, value, vlen, errptr); break;
    default: move(dice, key, klen, errptr);
    }
    leveldb_free(error);
}

static void* run(void* seed) {
    struct dice dice = {(uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1, 0};
    for (int at = 0; at < calls; at++) {
        call(&dice);
    }
    return NULL;
}

int main(int count, char** arguments) {
    CHECK(count == 5);
    for (int at = 0; at < DIRECTORIES; at++) {
        snprintf(names[at], sizeof names[at], "%s-%d", arguments[1], at);
    }
    uint64_t seed = strtoull(arguments[2], NULL, 10) * 16;
    calls = atoi(arguments[3]);
    threads = atoi(arguments[4]);
    CHECK(threads > 0 && threads <= 16);
    /* Most objects are alive at the beginning. */
    struct dice dice = {seed, 0};
    for (int at = 0; at < 3000; at++) {
        make(&dice, NULL);
    }
    pthread_t running[16];
    for (int at = 0; at < threads; at++) {
        CHECK(pthread_create(&running[at], NULL, run, (void*)(uintptr_t)(seed + (uint64_t)at)) == 0);
    }
    for (int at = 0; at < threads; at++) {
        pthread_join(running[at], NULL);
    }
    for (int kind = KINDS - 1; kind >= 0; kind--) {
        for (int at = 0; at < POINTERS; at++) {
            if (pointers[kind][at] != NULL) {
                end(kind, pointers[kind][at]);
            }
        }
    }
    leveldb_options_t* options = leveldb_options_create();
    for (int at = 0; at < DIRECTORIES; at++) {
        char* error = NULL;
        leveldb_destroy_db(options, names[at], &error);
        CHECK_OK(error);
    }
    leveldb_options_destroy(options);
    CHECK(gets_found > calls / 100 && entries_seen > calls / 100);
    printf("chaos: %d values and %d entries found\n", gets_found, entries_seen);
    return 0;
}
