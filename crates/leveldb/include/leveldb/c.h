/* The C interface of LevelDB 1.23 over Alluvium: the same functions, with the same arguments and the same meaning.
 *
 * C11 and C++17. The library is `libleveldb.so.1d`; README.md lists the differences from LevelDB's own.
 *
 * Errors: a function that can fail takes `char** errptr`. Before the call, `*errptr` is NULL or a string from malloc.
 * A successful call leaves it unchanged. A failing call frees it and stores a new string, which the caller releases
 * with `leveldb_free`. The string begins with the kind of error: "Invalid argument: ", "Corruption: ", "IO error: ",
 * "Not implemented: ".
 *
 * Bytes: keys and values are a pointer and a length, and may contain any bytes. The pointer may be NULL if the length
 * is 0.
 *
 * Booleans: a `uint8_t`; 0 is false.
 *
 * Threads: a database, a snapshot, a cache, a comparator and options objects may be used by several threads at once.
 * An iterator and a batch may be used by one thread at a time.
 *
 * Misuse: iterators and snapshots must be destroyed before their database is closed. A call that breaks a rule (a
 * NULL pointer, an object that is closed twice or used after its end, an iterator that is still alive at
 * `leveldb_close`, one object changed by two threads at once) is reported on standard error and, if there is one,
 * through errptr; it does nothing else. With ALLUVIUM_MISUSE=abort in the environment, the program aborts.
 */

#ifndef ALLUVIUM_LEVELDB_C_H
#define ALLUVIUM_LEVELDB_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_MSC_VER) || !defined(__GNUC__)
#define ALLUVIUM_EXPORT
#else
#define ALLUVIUM_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;
/* No function here creates these; programs may use their names. */
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;

/* ---- Databases ---- */

/* Opens the database in a directory. Returns NULL on an error. Only one process at a time can have it open. */
ALLUVIUM_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);
/* Closes a database. Everything that was written is then on the disk. */
ALLUVIUM_EXPORT void leveldb_close(leveldb_t* db);
ALLUVIUM_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                 const char* val, size_t vallen, char** errptr);
/* It is not an error if the key is absent. */
ALLUVIUM_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                    char** errptr);
/* Applies a batch atomically, for every reader and after every crash. The batch is unchanged. */
ALLUVIUM_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                                   char** errptr);
/* Returns the value, to be released with `leveldb_free`, and its length in `*vallen`; NULL if the key is absent. */
ALLUVIUM_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                                  size_t* vallen, char** errptr);
/* Creates an iterator at the snapshot of the options, or at the current state. It is unpositioned until it is moved. */
ALLUVIUM_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);
ALLUVIUM_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);
ALLUVIUM_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);
/* "leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage", "leveldb.num-files-at-level<N>" with N
 * from 0 to 6. Returns a string, to be released with `leveldb_free`; NULL for other names. */
ALLUVIUM_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);
/* Estimates how many bytes ranges occupy on disk and in memory. Each range excludes its limit key. */
ALLUVIUM_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                                               const size_t* range_start_key_len, const char* const* range_limit_key,
                                               const size_t* range_limit_key_len, uint64_t* sizes);
/* Removes deleted and overwritten data from a range. NULL means the first or the last key. */
ALLUVIUM_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                                           const char* limit_key, size_t limit_key_len);
/* Deletes a closed database. It is not an error if there is none. */
ALLUVIUM_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);
/* Saves what can be saved of a damaged database. Losses are reported on standard error. */
ALLUVIUM_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

ALLUVIUM_EXPORT void leveldb_iter_destroy(leveldb_iterator_t* iterator);
/* Whether the iterator is positioned on an entry. It is not before the first move, past either end, and after an
 * error. */
ALLUVIUM_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t* iterator);
ALLUVIUM_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t* iterator);
ALLUVIUM_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t* iterator);
/* Moves to the first entry whose key is at or after the key. */
ALLUVIUM_EXPORT void leveldb_iter_seek(leveldb_iterator_t* iterator, const char* k, size_t klen);
ALLUVIUM_EXPORT void leveldb_iter_next(leveldb_iterator_t* iterator);
ALLUVIUM_EXPORT void leveldb_iter_prev(leveldb_iterator_t* iterator);
/* The entry of the iterator. The bytes are valid until the iterator moves or is destroyed. */
ALLUVIUM_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t* iterator, size_t* klen);
ALLUVIUM_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t* iterator, size_t* vlen);
/* Returns the error of the last move, if any. */
ALLUVIUM_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t* iterator, char** errptr);

/* ---- Batches ---- */

ALLUVIUM_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
ALLUVIUM_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
ALLUVIUM_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t* batch);
ALLUVIUM_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen, const char* val,
                                            size_t vlen);
ALLUVIUM_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
/* Calls one of the functions for each write, in order. */
ALLUVIUM_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                                void (*put)(void* state, const char* k, size_t klen, const char* v,
                                                            size_t vlen),
                                                void (*deleted)(void* state, const char* k, size_t klen));
/* Appends the writes of `source` to `destination`. */
ALLUVIUM_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ---- Options ---- */

ALLUVIUM_EXPORT leveldb_options_t* leveldb_options_create(void);
ALLUVIUM_EXPORT void leveldb_options_destroy(leveldb_options_t* options);
/* Sets the order of keys. The comparator must outlive the database. */
ALLUVIUM_EXPORT void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator);
ALLUVIUM_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t value);
ALLUVIUM_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t value);
/* The memory budget of a store is two write buffers plus its cache, but at least 128 MiB. ALLUVIUM_MEMORY in the
 * environment overrides it. */
ALLUVIUM_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);
ALLUVIUM_EXPORT void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache);
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
/* `leveldb_snappy_compression` selects LZ4 here. */
ALLUVIUM_EXPORT void leveldb_options_set_compression(leveldb_options_t* options, int kind);
/* Accepted, without effect: the store chooses these values itself. */
ALLUVIUM_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t* options, leveldb_filterpolicy_t* policy);
ALLUVIUM_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t* options, uint8_t value);
ALLUVIUM_EXPORT void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env);
ALLUVIUM_EXPORT void leveldb_options_set_info_log(leveldb_options_t* options, leveldb_logger_t* logger);
ALLUVIUM_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t* options, int files);
ALLUVIUM_EXPORT void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);
ALLUVIUM_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int entries);
ALLUVIUM_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);

/* ---- Comparators ---- */

/* The functions may be called by several threads at once. The name is stored with the database, which can only be
 * opened with a comparator of the same name. */
ALLUVIUM_EXPORT leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void* state),
                                                                int (*compare)(void* state, const char* a, size_t alen,
                                                                               const char* b, size_t blen),
                                                                const char* (*name)(void* state));
ALLUVIUM_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* ---- Filter policies: accepted, never called ---- */

ALLUVIUM_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void* state),
    char* (*create_filter)(void* state, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void* state, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void* state));
ALLUVIUM_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);
ALLUVIUM_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options for reads and for writes ---- */

ALLUVIUM_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
ALLUVIUM_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t* options);
/* Without effect: everything that is read is verified. */
ALLUVIUM_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, uint8_t value);
/* Without effect. */
ALLUVIUM_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, uint8_t value);
/* NULL means the newest state. */
ALLUVIUM_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options, const leveldb_snapshot_t* snapshot);

ALLUVIUM_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
ALLUVIUM_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);
/* Whether a write is on the disk when it returns. Without it, a write survives the death of the process, and a power
 * loss loses at most the last 100 ms. */
ALLUVIUM_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t value);

/* ---- Caches, environment, the rest ---- */

/* Each database that is opened with it has its own cache of this capacity. */
ALLUVIUM_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
ALLUVIUM_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

ALLUVIUM_EXPORT leveldb_env_t* leveldb_create_default_env(void);
ALLUVIUM_EXPORT void leveldb_env_destroy(leveldb_env_t* env);
/* Returns an existing directory for tests, to be released with `leveldb_free`; NULL if it cannot be created. */
ALLUVIUM_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t* env);

/* Releases memory that a function of this library returned. `free` does the same. */
ALLUVIUM_EXPORT void leveldb_free(void* ptr);

/* 1 and 23: the version of LevelDB whose interface this is. */
ALLUVIUM_EXPORT int leveldb_major_version(void);
ALLUVIUM_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
