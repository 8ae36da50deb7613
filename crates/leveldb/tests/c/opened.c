/* Opens a database, counts its pairs, and puts one more. Prints the count or the error. Also for databases of the
 * other library.
 *
 *     ./opened DIRECTORY
 */
#include "check.h"

int main(int count, char** arguments) {
    CHECK(count == 2);
    leveldb_options_t* options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    char* error = NULL;
    leveldb_t* db = leveldb_open(options, arguments[1], &error);
    leveldb_options_destroy(options);
    if (error != NULL) {
        printf("%s\n", error);
        leveldb_free(error);
        return 0;
    }
    int pairs = 0;
    leveldb_readoptions_t* read_options = leveldb_readoptions_create();
    leveldb_iterator_t* iterator = leveldb_create_iterator(db, read_options);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
        pairs++;
    }
    leveldb_iter_destroy(iterator);
    leveldb_readoptions_destroy(read_options);
    char key[32];
    size_t length = (size_t)sprintf(key, "key%d", pairs);
    leveldb_writeoptions_t* write_options = leveldb_writeoptions_create();
    leveldb_put(db, write_options, key, length, "value", 5, &error);
    CHECK_OK(error);
    leveldb_writeoptions_destroy(write_options);
    leveldb_close(db);
    printf("%d pairs\n", pairs);
    return 0;
}
