/* Runs commands from standard input with LevelDB itself, one per line, keys and values in hexadecimal:
 *
 *     o WRITE_BUFFER COMPRESSION   opens the database in the directory given as the first argument
 *     p KEY VALUE                  puts; - stands for no bytes
 *     d KEY                        deletes
 *     c                            compacts everything
 *     s                            prints all pairs
 *     x                            closes
 *     k                            ends the process without closing
 */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int digit(char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; }

static size_t parse(char* hex) {
    size_t count = 0;
    if (strcmp(hex, "-") == 0) {
        return 0;
    }
    for (char* at = hex; at[0] && at[1]; at += 2) {
        hex[count++] = (char)(digit(at[0]) * 16 + digit(at[1]));
    }
    return count;
}

static void print(const char* bytes, size_t count) {
    if (count == 0) {
        putchar('-');
    }
    for (size_t at = 0; at < count; at++) {
        printf("%02x", (unsigned char)bytes[at]);
    }
}

static void check(const char* error) {
    if (error) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

int main(int count, char** arguments) {
    char* line = NULL;
    size_t room = 0;
    char* error = NULL;
    leveldb_t* db = NULL;
    leveldb_writeoptions_t* write = leveldb_writeoptions_create();
    leveldb_readoptions_t* read = leveldb_readoptions_create();
    if (count != 2) {
        return 2;
    }
    while (getline(&line, &room, stdin) > 0) {
        char* rest = NULL;
        char* command = strtok_r(line, " \n", &rest);
        char* first = strtok_r(NULL, " \n", &rest);
        char* second = strtok_r(NULL, " \n", &rest);
        if (!command) {
            continue;
        }
        switch (*command) {
            case 'o': {
                leveldb_options_t* options = leveldb_options_create();
                leveldb_options_set_create_if_missing(options, 1);
                leveldb_options_set_write_buffer_size(options, (size_t)atol(first));
                leveldb_options_set_compression(options, atoi(second));
                db = leveldb_open(options, arguments[1], &error);
                leveldb_options_destroy(options);
                break;
            }
            case 'p': {
                size_t key = parse(first), value = parse(second);
                leveldb_put(db, write, first, key, second, value, &error);
                break;
            }
            case 'd': {
                size_t key = parse(first);
                leveldb_delete(db, write, first, key, &error);
                break;
            }
            case 'c':
                leveldb_compact_range(db, NULL, 0, NULL, 0);
                break;
            case 's': {
                leveldb_iterator_t* iterator = leveldb_create_iterator(db, read);
                for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator)) {
                    size_t length = 0;
                    const char* bytes = leveldb_iter_key(iterator, &length);
                    print(bytes, length);
                    putchar(' ');
                    bytes = leveldb_iter_value(iterator, &length);
                    print(bytes, length);
                    putchar('\n');
                }
                leveldb_iter_get_error(iterator, &error);
                leveldb_iter_destroy(iterator);
                break;
            }
            case 'x':
                leveldb_close(db);
                break;
            case 'k':
                fflush(stdout);
                _exit(0);
        }
        check(error);
    }
    free(line);
    return 0;
}
