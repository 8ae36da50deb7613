#!/bin/sh
# Builds the command line and takes a store through its whole life: a generated YCSB set and a text file go in, are queried,
# checked, copied and removed. Every step is compared with what must come out; the first surprise ends the tour with an error.
#
#   sh examples/tour.sh [RECORDS]      RECORDS of 1,000 bytes are generated, 100000 unless said otherwise
#   ALLUVIUM=target/debug/alluvium sh examples/tour.sh    takes a command line that is built already
set -eu
cd "$(dirname "$0")/.."
records="${1:-100000}"

alluvium="${ALLUVIUM:-}"
if [ -z "$alluvium" ]; then
    cargo build --release --locked --package alluvium-cli
    alluvium="${CARGO_TARGET_DIR:-target}/release/alluvium"
fi
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
store="$place/store"

# Shows a command and runs it on the store.
run() {
    printf '\n$ alluvium %s\n' "$*"
    "$alluvium" --db "$store" "$@"
}
# Compares what a step gave with what it must give.
same() {
    if [ "$2" != "$3" ]; then
        printf 'tour: %s: expected %s, found %s\n' "$1" "$2" "$3" >&2
        exit 1
    fi
}

run load --ycsb "$records"
run load examples/rivers.tsv
run get river/danube
same 'the value of a key' 'from the Black Forest to the Black Sea' "$("$alluvium" --db "$store" get river/danube)"
run scan --prefix river/ --limit 3
run scan --from river/n --to river/o --reverse --json
same 'rivers with n' 2 "$("$alluvium" --db "$store" scan --from river/n --to river/o | wc -l | tr -d ' ')"
same 'all pairs' "$((records + $(wc -l < examples/rivers.tsv)))" "$("$alluvium" --db "$store" scan | wc -l | tr -d ' ')"
run put river/spree 'from the Lusatian Highlands to the Havel'
run delete river/po
code=0
"$alluvium" --db "$store" get river/po || code=$?
same 'the exit code for a deleted key' 1 "$code"
run verify
run stat
run dump --files

printf '\n$ alluvium dump | alluvium load     # into a second store\n'
"$alluvium" --db "$store" dump | "$alluvium" --db "$place/copy" load
"$alluvium" --db "$store" scan > "$place/pairs"
"$alluvium" --db "$place/copy" scan | cmp - "$place/pairs"
"$alluvium" --db "$place/copy" verify --json

run destroy --yes
if [ -e "$store" ]; then same 'a destroyed store' absent present; fi
printf '\ntour: done, everything came out as it must\n'
