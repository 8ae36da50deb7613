/* Stores notes by name: opens a database, writes, reads, writes a batch, scans, and reads at a snapshot. Checks every
 * error.
 *
 *     cc notes.c -o notes $(pkg-config --cflags --libs leveldb) -Wl,-rpath,$(pkg-config --variable=libdir leveldb)
 *     ./notes DIRECTORY
 */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program on an error. */
static void check(char* error) {
    if (error != NULL) {
        fprintf(stderr, "notes: %s\n", error);
        leveldb_free(error);
        exit(1);
    }
}

static void show(leveldb_t* db, const leveldb_readoptions_t* options, const char* name) {
    char* error = NULL;
    size_t length = 0;
    char* text = leveldb_get(db, options, name, strlen(name), &length, &error);
    check(error);
    if (text == NULL) {
        printf("%s: not found\n", name);
    } else {
        printf("%s: %.*s\n", name, (int)length, text);
    }
    leveldb_free(text);
}

static void list(leveldb_t* db, const leveldb_readoptions_t* options, const char* prefix) {
    char* error = NULL;
    size_t length = strlen(prefix);
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, options);
    for (leveldb_iter_seek(iterator, prefix, length); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        size_t key_length, text_length;
        const char* key = leveldb_iter_key(iterator, &key_length);
        const char* text = leveldb_iter_value(iterator, &text_length);
        if (key_length < length || memcmp(key, prefix, length) != 0) {
            break;
        }
        printf("  %.*s = %.*s\n", (int)key_length, key, (int)text_length, text);
    }
    leveldb_iter_get_error(iterator, &error);
    leveldb_iter_destroy(iterator);
    check(error);
}

int main(int count, char** arguments) {
    char* error = NULL;
    if (count != 2) {
        fprintf(stderr, "usage: notes DIRECTORY\n");
        return 2;
    }

    leveldb_options_t* options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_t* db = leveldb_open(options, arguments[1], &error);
    check(error);
    leveldb_writeoptions_t* write = leveldb_writeoptions_create();
    leveldb_writeoptions_t* on_disk = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(on_disk, 1); /* a write with these options survives a power loss */
    leveldb_readoptions_t* now = leveldb_readoptions_create();

    leveldb_put(db, write, "river/danube", 12, "Black Sea", 9, &error);
    check(error);

    leveldb_writebatch_t* batch = leveldb_writebatch_create(); /* applied atomically */
    leveldb_writebatch_put(batch, "river/elbe", 10, "North Sea", 9);
    leveldb_writebatch_put(batch, "river/rhine", 11, "North Sea", 9);
    leveldb_writebatch_delete(batch, "river/volga", 11);
    leveldb_write(db, on_disk, batch, &error);
    check(error);
    leveldb_writebatch_destroy(batch);

    /* Reads with these options see the database as it is now. */
    leveldb_readoptions_t* before = leveldb_readoptions_create();
    const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
    leveldb_readoptions_set_snapshot(before, snapshot);
    leveldb_delete(db, write, "river/danube", 12, &error);
    check(error);

    show(db, now, "river/danube");
    show(db, before, "river/danube");
    list(db, now, "river/");

    leveldb_release_snapshot(db, snapshot);
    leveldb_readoptions_destroy(before);
    leveldb_readoptions_destroy(now);
    leveldb_writeoptions_destroy(on_disk);
    leveldb_writeoptions_destroy(write);
    leveldb_close(db);
    leveldb_options_destroy(options);
    return 0;
}
