#!/bin/sh
# Builds the command line tool and demonstrates it on one store: loads a generated YCSB set and a text file, queries,
# checks, copies and removes them. Every result is compared with the expected one; the first difference ends the tour
# with an error.
#
#   sh examples/tour.sh [RECORDS]                         RECORDS of 1,000 bytes are generated (default 100000)
#   ALLUVIUM=target/debug/alluvium sh examples/tour.sh    uses a tool that is already built
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

# Prints a command and runs it on the store.
run() {
    printf '\n$ alluvium %s\n' "$*"
    "$alluvium" --db "$store" "$@"
}
# same WHAT EXPECTED FOUND: fails if the result differs from the expected one.
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
printf '\ntour: done, all results as expected\n'
