#!/usr/bin/env bash
# The tests of the memory component, of the shared parts below it and of threads on whole stores, under ThreadSanitizer. Needs a nightly
# compiler; says so and ends well where there is none. Reports fail the run.
#
# It knows no fences: what they order it may report wrongly, and what depends on them it cannot judge (crates/loom-models does).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version > /dev/null 2>&1; then
    printf 'no nightly toolchain: ThreadSanitizer was not run\n'
    exit 0
fi
host="$(rustc -vV | sed -n 's/^host: //p')"
case "$host" in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu | *-apple-darwin) ;;
    *) printf 'ThreadSanitizer does not know %s: not run\n' "$host" && exit 0 ;;
esac

export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/scripts/thread-sanitizer.supp exitcode=66"
# Built apart, so that the ordinary build stays as it is.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/thread-sanitizer"
run() { timeout "${ALLUVIUM_SANITIZER_SECONDS:-1800}" cargo +nightly test --target "$host" -p alluvium "$@"; }

run --lib -- memory:: util::sequencer util::arena engine::state
run --test suite -- concurrency::
