#!/bin/sh
# Runs programs of others that use LevelDB's C interface. Each is one binary, run first with LevelDB's own library and
# then with this one:
#
# - the tests of levigo, a Go client (the Go module github.com/jmhodges/levigo), which call LevelDB through cgo;
# - LevelDB's own test of its C interface (`db/c_test.c`, from the crate `leveldb-sys`).
#
#     sh crates/leveldb/test-foreign.sh               builds the library first
#     sh crates/leveldb/test-foreign.sh TARGET_DIR    uses the build in this folder, such as target/debug/deps of the tests
#
# Both are downloaded into a temporary folder. A program that cannot be downloaded or built is skipped with a message.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'chmod -R u+w "$place"; rm -rf "$place"' EXIT
unset LD_LIBRARY_PATH
passed=0

if [ ! -e /usr/include/leveldb/c.h ] || ! command -v cc > /dev/null; then
    echo "skipped: no C compiler, or no LevelDB to link against (Debian: libleveldb-dev)"
    # In CI a skipped test is a failure.
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
built=${1:-}
if [ -z "$built" ]; then
    (cd "$here" && cargo build --locked --package alluvium-leveldb)
    built=${CARGO_TARGET_DIR:-$here/../../target}/debug
fi
sh "$here/install.sh" "$place/prefix" "$built"

# both NAME COMMAND...: runs a program with each library, each time with a separate folder for its databases.
both() {
    name=$1
    shift
    for library in LevelDB Alluvium; do
        mkdir -p "$place/$name-$library"
        case $library in LevelDB) path= ;; *) path=$place/prefix/lib ;; esac
        if ! env TEST_TMPDIR="$place/$name-$library" TMPDIR="$place/$name-$library" LD_LIBRARY_PATH="$path" "$@" \
            > "$place/output" 2>&1; then
            cat "$place/output"
            echo "$name failed with $library"
            exit 1
        fi
        loaded=$(env LD_LIBRARY_PATH="$path" ldd "$1" | grep libleveldb.so.1d)
        echo "$name passes with $library: $(tail -n 1 "$place/output"), $loaded"
    done
    passed=$((passed + 1))
}

mkdir -p "$place/go" "$place/rust/src"
if command -v go > /dev/null; then
    cd "$place/go"
    printf 'module foreign\n\ngo 1.19\n' > go.mod
    if GOFLAGS=-mod=mod GOMODCACHE="$place/modules" go get github.com/jmhodges/levigo@v1.0.0 > "$place/output" 2>&1; then
        GOFLAGS=-mod=mod GOMODCACHE="$place/modules" go test -c -o levigo.test github.com/jmhodges/levigo
        both levigo "$place/go/levigo.test"
    else
        echo "skipped: levigo cannot be fetched: $(tail -n 1 "$place/output")"
    fi
else
    echo "skipped: go is not installed"
    [ -z "${CI:-}" ] || exit 1
fi

cd "$place/rust"
touch src/lib.rs
printf '[package]\nname = "foreign"\nedition = "2021"\n[dependencies]\nleveldb-sys = "=2.0.9"\n[workspace]\n' > Cargo.toml
if cargo vendor -q vendored > "$place/output" 2>&1; then
    source=$(find vendored/leveldb-sys -name c_test.c | head -n 1)
    cc -O1 "$source" -o c_test -lleveldb
    both c_test "$place/rust/c_test"
else
    echo "skipped: leveldb-sys cannot be fetched: $(tail -n 1 "$place/output")"
fi
echo "foreign programs: $passed of 2 were run, all passed"
