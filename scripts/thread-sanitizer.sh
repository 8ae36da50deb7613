#!/usr/bin/env bash
# Runs the tests of the memory component, of the utilities that it shares, and of threads on whole stores under
# ThreadSanitizer. A report fails the run. Needs a nightly compiler; without one it prints a message and succeeds.
#
# ThreadSanitizer does not support fences: it may report false races on what they order, and cannot check code that
# depends on them (crates/loom-models does).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version > /dev/null 2>&1; then
    printf 'no nightly toolchain: ThreadSanitizer was not run\n'
    exit 0
fi
host="$(rustc -vV | sed -n 's/^host: //p')"
case "$host" in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu | *-apple-darwin) ;;
    *) printf 'ThreadSanitizer does not support %s: not run\n' "$host" && exit 0 ;;
esac

export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/scripts/thread-sanitizer.supp exitcode=66"
# A separate folder, so that the ordinary build stays as it is.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/thread-sanitizer"
run() { timeout "${ALLUVIUM_SANITIZER_SECONDS:-1800}" cargo +nightly test --target "$host" -p alluvium "$@"; }

run --lib -- memory:: util::sequencer util::arena engine::state
run --test suite -- concurrency::races::
