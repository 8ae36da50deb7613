#!/bin/sh
# Installs the library, its header and its pkg-config file in the layout of Debian's LevelDB package:
#
#     sh crates/leveldb/install.sh PREFIX              builds it first
#     sh crates/leveldb/install.sh PREFIX TARGET_DIR   uses the build in this folder, such as target/debug
#
# A program that was linked against LevelDB then uses it with LD_LIBRARY_PATH=PREFIX/lib.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: sh install.sh PREFIX [TARGET_DIR]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/lib/pkgconfig" "$1/include/leveldb"
prefix=$(cd "$1" && pwd)
built=${2:-}
if [ -z "$built" ]; then
    (cd "$here" && cargo build --release --locked --package alluvium-leveldb)
    built=${CARGO_TARGET_DIR:-$here/../../target}/release
fi

cp "$built/liballuvium_leveldb.so" "$prefix/lib/libleveldb.so.1.23.0"
ln -sf libleveldb.so.1.23.0 "$prefix/lib/libleveldb.so.1d"
ln -sf libleveldb.so.1d "$prefix/lib/libleveldb.so"
cp "$built/liballuvium_leveldb.a" "$prefix/lib/libleveldb.a"
cp "$here/include/leveldb/c.h" "$prefix/include/leveldb/c.h"
sed "s|@PREFIX@|$prefix|" "$here/leveldb.pc.in" > "$prefix/lib/pkgconfig/leveldb.pc"
echo "installed into $prefix"
