/* Runs random operations, determined by the seed, and prints every result. Two libraries that behave alike print the
 * same.
 *
 *     ./replay DIRECTORY SEED OPERATIONS COMPARATOR        1: descending and ignoring case
 */
#include "check.h"

#define SNAPSHOTS 4
#define ITERATORS 3

static uint64_t state;
static char* error = NULL;

static unsigned below(unsigned bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % bound;
}

static char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? (char)(letter + 32) : letter; }

static int compare(void* unused, const char* a, size_t alen, const char* b, size_t blen) {
    (void)unused;
    for (size_t at = 0; at < alen && at < blen; at++) {
        int order = (unsigned char)lower(b[at]) - (unsigned char)lower(a[at]);
        if (order != 0) {
            return order;
        }
    }
    return alen < blen ? 1 : alen > blen ? -1 : 0;
}

static const char* compare_name(void* unused) {
    (void)unused;
    return "replay";
}

static void nothing(void* unused) { (void)unused; }

/* A few short keys of odd bytes, which often repeat, and more longer keys, which rarely do. */
static size_t key(char* out) {
    if (below(3) == 0) {
        static const char letters[] = "aAbB\xff\0";
        size_t length = below(4);
        for (size_t at = 0; at < length; at++) {
            out[at] = letters[below(6)];
        }
        return length;
    }
    return (size_t)sprintf(out, "%s%u/%03u", below(4) ? "key" : "KEY", below(8), below(300));
}

static size_t value(char* out) {
    size_t length = below(20) == 0 ? 3000 + below(5000) : below(60);
    memset(out, 'a' + (int)below(26), length);
    return length;
}

static void print(const char* bytes, size_t length) {
    for (size_t at = 0; at < length && at < 24; at++) {
        printf("%02x", (unsigned char)bytes[at]);
    }
    printf(":%zu", length);
}

static void show(const char* what, leveldb_iterator_t* iterator) {
    printf("%s ", what);
    if (leveldb_iter_valid(iterator)) {
        size_t length;
        const char* bytes = leveldb_iter_key(iterator, &length);
        print(bytes, length);
        putchar('=');
        bytes = leveldb_iter_value(iterator, &length);
        print(bytes, length);
    }
    putchar('\n');
    leveldb_iter_get_error(iterator, &error);
    CHECK_OK(error);
}

int main(int count, char** arguments) {
    CHECK(count == 5);
    const char* name = arguments[1];
    state = (uint64_t)atoll(arguments[2]) * 0x9e3779b97f4a7c15u + 1;
    int operations = atoi(arguments[3]);
    static char k[64], v[8192];
    leveldb_options_t* options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 100000);
    leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, nothing, compare, compare_name);
    if (atoi(arguments[4])) {
        leveldb_options_set_comparator(options, comparator);
    }
    leveldb_writeoptions_t* write = leveldb_writeoptions_create();
    leveldb_readoptions_t* read = leveldb_readoptions_create();
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    const leveldb_snapshot_t* snapshots[SNAPSHOTS] = {0};
    leveldb_iterator_t* iterators[ITERATORS] = {0};
    leveldb_t* db = leveldb_open(options, name, &error);
    CHECK_OK(error);

    for (int at = 0; at <= operations; at++) {
        unsigned what = below(100);
        int ends = at == operations;
        const leveldb_snapshot_t** snapshot = &snapshots[below(SNAPSHOTS)];
        leveldb_iterator_t** iterator = &iterators[below(ITERATORS)];
        size_t klen = key(k), vlen = value(v);
        leveldb_readoptions_set_snapshot(read, below(2) ? *snapshot : NULL);
        if (ends || what == 0) { /* close and reopen */
            for (int which = 0; which < SNAPSHOTS; which++) {
                if (snapshots[which]) {
                    leveldb_release_snapshot(db, snapshots[which]);
                }
                snapshots[which] = NULL;
            }
            for (int which = 0; which < ITERATORS; which++) {
                if (iterators[which]) {
                    leveldb_iter_destroy(iterators[which]);
                }
                iterators[which] = NULL;
            }
            leveldb_close(db);
            if (ends) {
                break;
            }
            db = leveldb_open(options, name, &error);
        } else if (what == 1) {
            leveldb_compact_range(db, below(2) ? k : NULL, klen, NULL, 0);
        } else if (what < 40) {
            leveldb_put(db, write, k, klen, v, vlen, &error);
        } else if (what < 50) {
            leveldb_delete(db, write, k, klen, &error);
        } else if (what < 58) {
            leveldb_writebatch_clear(batch);
            for (unsigned left = below(12); left > 0; left--) {
                klen = key(k), vlen = value(v);
                if (below(3)) {
                    leveldb_writebatch_put(batch, k, klen, v, vlen);
                } else {
                    leveldb_writebatch_delete(batch, k, klen);
                }
            }
            leveldb_write(db, write, batch, &error);
        } else if (what < 70) {
            size_t length;
            char* found = leveldb_get(db, read, k, klen, &length, &error);
            printf("get ");
            if (found) {
                print(found, length);
            }
            putchar('\n');
            leveldb_free(found);
        } else if (what < 74) {
            if (*snapshot) {
                leveldb_release_snapshot(db, *snapshot);
                *snapshot = NULL;
            } else {
                *snapshot = leveldb_create_snapshot(db);
            }
        } else if (what < 76 || !*iterator) {
            if (*iterator) {
                leveldb_iter_destroy(*iterator);
            }
            *iterator = leveldb_create_iterator(db, read);
        } else if (what < 79) {
            leveldb_iter_seek_to_first(*iterator);
            show("first", *iterator);
        } else if (what < 82) {
            leveldb_iter_seek_to_last(*iterator);
            show("last", *iterator);
        } else if (what < 87) {
            leveldb_iter_seek(*iterator, k, klen);
            show("seek", *iterator);
        } else {
            for (unsigned steps = below(8); steps > 0 && leveldb_iter_valid(*iterator); steps--) {
                if (what < 94) {
                    leveldb_iter_next(*iterator);
                } else {
                    leveldb_iter_prev(*iterator);
                }
                show("step", *iterator);
            }
        }
        CHECK_OK(error);
    }
    db = leveldb_open(options, name, &error);
    CHECK_OK(error);
    leveldb_readoptions_set_snapshot(read, NULL);
    leveldb_iterator_t* all = leveldb_create_iterator(db, read);
    for (leveldb_iter_seek_to_first(all); leveldb_iter_valid(all); leveldb_iter_next(all)) {
        show("all", all);
    }
    leveldb_iter_destroy(all);
    leveldb_close(db);
    leveldb_destroy_db(options, name, &error);
    CHECK_OK(error);
    leveldb_writebatch_destroy(batch);
    leveldb_readoptions_destroy(read);
    leveldb_writeoptions_destroy(write);
    leveldb_comparator_destroy(comparator);
    leveldb_options_destroy(options);
    return 0;
}
