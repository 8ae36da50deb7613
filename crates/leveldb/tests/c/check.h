/* Helpers of the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if the condition is false. */
#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* Ends the program if there is an error. */
#define CHECK_OK(error)                                                                \
    do {                                                                               \
        if ((error) != NULL) {                                                         \
            fprintf(stderr, "%s:%d: error: %s\n", __FILE__, __LINE__, error);          \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* Expects an error that contains the text, and releases it. */
#define CHECK_SAYS(error, text)                                                        \
    do {                                                                               \
        if ((error) == NULL || strstr(error, text) == NULL) {                          \
            fprintf(stderr, "%s:%d: expected \"%s\" in \"%s\"\n", __FILE__, __LINE__, text, (error) ? (error) : "no error"); \
            exit(1);                                                                   \
        }                                                                              \
        leveldb_free(error);                                                           \
        (error) = NULL;                                                                \
    } while (0)

/* Expects the value of a key; NULL: the key is absent. */
static inline void expect_at(int line, leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                             const char* value, size_t vallen) {
    char* error = NULL;
    size_t length = 12345;
    char* found = leveldb_get(db, options, key, keylen, &length, &error);
    if (error != NULL || (found == NULL) != (value == NULL) ||
        (value != NULL && (length != vallen || memcmp(found, value, length) != 0)) || (value == NULL && length != 0)) {
        fprintf(stderr, "line %d: key \"%.*s\": found \"%.*s\" (%zu), expected \"%s\", error %s\n", line, (int)keylen, key,
                found ? (int)length : 0, found ? found : "", length, value ? value : "nothing", error ? error : "none");
        exit(1);
    }
    leveldb_free(found);
}

static inline void expect_text(int line, leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                               const char* value) {
    expect_at(line, db, options, key, strlen(key), value, value ? strlen(value) : 0);
}

#define EXPECT(db, options, key, value) expect_text(__LINE__, db, options, key, value)

/* Expects the entry of an iterator; NULL: the iterator is unpositioned. */
static inline void expect_entry_at(int line, const leveldb_iterator_t* iterator, const char* key, const char* value) {
    size_t klen = 0, vlen = 0;
    const char *k = NULL, *v = NULL;
    int valid = leveldb_iter_valid(iterator);
    if (valid) {
        k = leveldb_iter_key(iterator, &klen);
        v = leveldb_iter_value(iterator, &vlen);
    }
    if (valid != (key != NULL) || (valid && (klen != strlen(key) || memcmp(k, key, klen) != 0 || vlen != strlen(value) ||
                                             memcmp(v, value, vlen) != 0))) {
        fprintf(stderr, "line %d: positioned on \"%.*s\" = \"%.*s\", expected \"%s\" = \"%s\"\n", line, (int)klen, k ? k : "",
                (int)vlen, v ? v : "", key ? key : "nothing", value ? value : "");
        exit(1);
    }
}

#define EXPECT_ENTRY(iterator, key, value) expect_entry_at(__LINE__, iterator, key, value)

#endif
