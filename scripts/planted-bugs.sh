#!/usr/bin/env bash
# Builds the store with a bug on purpose and demands that the tests catch it. A test that cannot fail proves nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# expect_failure FEATURE TEST TEXT: with FEATURE built in, TEST must fail and say TEXT.
expect_failure() {
    local feature=$1 test=$2 text=$3 output
    cargo test --features "$feature" --test suite --no-run
    if output=$(RUST_BACKTRACE=0 cargo test --features "$feature" --test suite -- --exact "$test" --nocapture 2>&1); then
        printf '%s was NOT caught by %s\n' "$feature" "$test" >&2
        exit 1
    fi
    if ! grep -q "$text" <<<"$output"; then
        printf '%s made %s fail, but not with "%s":\n%s\n' "$feature" "$test" "$text" "$output" >&2
        exit 1
    fi
    printf '%s is caught by %s:\n  %s\n' "$feature" "$test" "$(grep -m1 "$text" <<<"$output")"
}

expect_failure planted-acknowledge-before-log kill::killed_at_any_instant_nothing_acknowledged_is_lost 'acknowledged:'
