#!/usr/bin/env bash
# The long tests, for some hours at night: random tests with new seeds, the model checkers, all planted bugs,
# ThreadSanitizer and fuzzing. Each step has a share of the time and a log of its own; a step that fails does not stop the
# others. Ends with one table, and fails if a step failed.
#
#   scripts/nightly.sh            all steps
#   scripts/nightly.sh --smoke    every step as short as possible, to test this script
#   scripts/nightly.sh STEP...    these steps; `--list` prints their names
#
# NIGHTLY_MINUTES (240) is the time of all steps together. Builds, and the round that each step has begun when its time is
# over, come on top; planted bugs and ThreadSanitizer always run to their end. NIGHTLY_SEED is the first seed, by default
# new each time; a log has the seed of each round. NIGHTLY_LOGS (target/nightly) is the folder of the logs.
set -uo pipefail
cd "$(dirname "$0")/.."

steps=(crash metamorphic linearizability serializability kill power-cuts damage model-checker loom planted-bugs
    thread-sanitizer fuzzing)
smoke="${NIGHTLY_SMOKE-}"
round=
case "${1-}" in
    --list) printf '%s\n' "${steps[@]}" && exit ;;
    --smoke) smoke=yes && shift ;;
    # For this script itself: one round in a process of its own, which `.ci/within` can end.
    --round) round=yes && shift ;;
esac
for name in "$@"; do
    if [[ " ${steps[*]} " != *" $name "* ]]; then printf 'nightly: no step %s\n' "$name" >&2 && exit 1; fi
done
if [ $# -gt 0 ]; then steps=("$@"); fi

minutes="${NIGHTLY_MINUTES:-${smoke:+1}}"
minutes="${minutes:-240}"
first_seed="${NIGHTLY_SEED:-$(date +%s)}"
logs="${NIGHTLY_LOGS:-${CARGO_TARGET_DIR:-target}/nightly}"
mkdir -p "$logs"
# A round that takes longer than this hangs.
round_seconds="${NIGHTLY_ROUND_SECONDS:-7200}"
# Percent of the time.
declare -A share=(
    [crash]=20 [metamorphic]=10 [linearizability]=14 [serializability]=10 [kill]=6 [power-cuts]=6 [damage]=6
    [model-checker]=14 [fuzzing]=14
)

# A skipped test is a failure: the table must not say "ok" for what was not run.
export CI=true RUST_BACKTRACE=1 CARGO_TERM_COLOR=never

# long SHORT LONG: the size of a round.
long() { if [ -n "$smoke" ]; then printf '%s' "$1"; else printf '%s' "$2"; fi; }
suite() { cargo test --quiet -p alluvium --test suite "$@" -- --nocapture; }
library() { cargo test --quiet -p alluvium --lib --features model-checking "$@" -- --nocapture; }

# One round of a step; ALLUVIUM_SEED is new in each.
round_of() {
    case "$1" in
        crash)
            ALLUVIUM_CRASH_WORLDS="$(long 2 60)" ALLUVIUM_CRASH_CUTS=2 ALLUVIUM_CRASH_RECOVERIES="$(long 60 20)" \
                suite "$(long crash::simulated::long:: crash::simulated::)"
            ;;
        metamorphic) ALLUVIUM_METAMORPHIC="$(long 2 60)" suite concurrency::metamorphic:: ;;
        linearizability) ALLUVIUM_HISTORIES="$(long 200 20000)" suite concurrency::linearizability::random ;;
        serializability) ALLUVIUM_TRANSACTION_HISTORIES="$(long 10 1500)" suite concurrency::serializability::random ;;
        kill) ALLUVIUM_KILLS="$(long 20 1000)" suite crash::kill:: ;;
        power-cuts) ALLUVIUM_REAL_CUTS="$(long 10 600)" suite crash::power_cut:: ;;
        damage) ALLUVIUM_DAMAGES="$(long 16 1000)" suite tools::corruption:: ;;
        model-checker) ALLUVIUM_SCHEDULES="$(long 20 20000)" library engine::model_tests ;;
        loom) cargo test --quiet -p alluvium-loom-models ;;
        planted-bugs)
            # The part with one line is the shortest.
            if [ -n "$smoke" ]; then scripts/planted-bugs.sh files-never-closed; else scripts/planted-bugs.sh; fi
            ;;
        thread-sanitizer) ALLUVIUM_CONCURRENCY_MS="$(long 100 1500)" scripts/thread-sanitizer.sh ;;
    esac
}

if [ -n "$round" ]; then
    round_of "$1"
    exit
fi

# Every target for the same time.
fuzz() {
    local seconds="$1" targets target
    if ! cargo +nightly fuzz --version > /dev/null 2>&1; then
        printf 'nightly: no cargo-fuzz; see fuzz/README.md\n'
        return 1
    fi
    mapfile -t targets < <(cargo +nightly fuzz list)
    for target in "${targets[@]}"; do
        printf 'nightly: fuzzing %s\n' "$target"
        cargo +nightly fuzz run "$target" -- -max_total_time="$((seconds / ${#targets[@]} + 1))" || return
    done
}

# Builds before the time of a step begins.
build() {
    case "$1" in
        crash | metamorphic | linearizability | serializability | kill | power-cuts | damage) suite --no-run ;;
        model-checker) library --no-run ;;
        loom) cargo test --quiet -p alluvium-loom-models --no-run ;;
        fuzzing) cargo +nightly fuzz build ;;
    esac
}

# Rounds with rising seeds until the time is over; one round for a step without a share. Prints how many.
run_step() {
    local name="$1" log="$2" seconds before rounds=0
    build "$name" > "$log" 2>&1 || return
    seconds=$((${share[$name]:-0} * minutes * 60 / 100))
    before=$SECONDS
    while [ "$rounds" -eq 0 ] || [ $((SECONDS - before)) -lt "$seconds" ]; do
        ALLUVIUM_SEED=$((first_seed + rounds))
        export ALLUVIUM_SEED
        rounds=$((rounds + 1))
        printf 'nightly: %s, round %s, ALLUVIUM_SEED=%s\n' "$name" "$rounds" "$ALLUVIUM_SEED" >> "$log"
        if [ "$name" = fuzzing ]; then
            fuzz "$seconds" >> "$log" 2>&1
            return
        fi
        NIGHTLY_SMOKE="$smoke" .ci/within "$round_seconds" scripts/nightly.sh --round "$name" >> "$log" 2>&1 || return
    done
}

summary=()
failed=0
for name in "${steps[@]}"; do
    log="$logs/$name.log"
    printf 'nightly: %s ...\n' "$name"
    before=$SECONDS
    if run_step "$name" "$log"; then result=ok; else result=FAILED failed=1; fi
    rounds="$(grep -c '^nightly: .* round ' "$log")"
    summary+=("$(printf '%-17s %-7s %7s %8s  %s' "$name" "$result" "$rounds" "$((SECONDS - before))" "$log")")
done
printf '\n%-17s %-7s %7s %8s  %s\n' step result rounds seconds log
printf '%s\n' "${summary[@]}"
exit "$failed"
