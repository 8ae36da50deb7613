#!/usr/bin/env bash
# Proves that the tests can fail: for each promise of the store there is at least one deliberate bug
# (src/util/planted.rs) and the tests that must catch it. One build has all bugs; ALLUVIUM_PLANTED selects one. Each
# test must pass without a bug and fail with its bug, with a message that says what broke.
#
# A test that hangs does not say what broke, so it counts as a failure with the wrong message.
#
#   planted-bugs.sh                 all bugs
#   planted-bugs.sh NAME...         these bugs
#   planted-bugs.sh --part [K]      one part of the table, chosen by the hour if K is missing: at most eight lines, all of one
#                                   target, so that one build is enough. `.ci/run` uses it.
#   planted-bugs.sh --list          the parts
set -euo pipefail
cd "$(dirname "$0")/.."

# bug | target | test | message
table='
number-before-latch          | suite | concurrency::linearizability::random_histories_are_linearizable             | versions came out of order\|not linearizable
item-not-invalidated         | suite | concurrency::linearizability::random_histories_are_linearizable             | not linearizable
item-not-invalidated         | suite | api::item_cache::cached_items_are_the_newest_versions | the item is old
item-added-late              | model | engine::model_tests::stores::a_get_from_the_disk_beside_a_new_version | the item is old
maplet-lacks-a-key           | lib   | disk::trunk::tests::model::overwrites_and_deletes              | maplet against its branches
maplet-lacks-a-key           | suite | api::model::random_operations_on_a_simulated_disk                   | a get shows another value
tombstone-dropped-early      | lib   | disk::trunk::tests::model::overwrites_and_deletes              | keys, not
tombstone-dropped-early      | suite | api::model::random_operations_on_a_simulated_disk                   | shows another
tombstone-dropped-early      | lib   | disk::levels::tests::model::many_keys                                  | keys, not\|left:\|order of versions
newest-runs-first            | lib   | disk::levels::tests::model::many_keys                                  | keys, not\|left:\|order of versions
version-constraint           | lib   | disk::levels::tests::model::many_keys                                  | keys, not\|left:\|order of versions
version-constraint           | suite | api::model::random_operations_on_levels                             | shows another\|order of versions
tombstone-over-buffer        | lib   | disk::levels::tests::hazards::a_tombstone_stays_while_a_branch_in_memory_has_what_it_hides | a deleted key shows again
lost-parent                  | lib   | disk::levels::tests::model::many_keys                                  | which is no file\|branch .* is in no node
lost-parent                  | suite | crash::simulated::small::every_short_run_on_levels_that_skip_survives_deaths | which is no file\|is in no node\|is no file
replay-by-range              | lib   | disk::levels::tests::model::many_keys                                  | does not exist
replay-by-range              | lib   | disk::levels::tests::buffers::a_replay_removes_branches_and_not_key_ranges | does not exist
replay-by-range              | suite | crash::simulated::small::every_short_run_on_levels_that_skip_survives_deaths | does not exist
flushed-for-neighbour        | lib   | disk::trunk::tests::model::overwrites_and_deletes              | keys, not
flushed-for-neighbour        | suite | api::model::random_operations_on_a_simulated_disk                   | shows another\|ends early
flushed-for-neighbour        | suite | crash::simulated::small::every_short_run_on_a_tree_survives_deaths        | it holds no prefix
join-revives-deletes         | lib   | disk::trunk::tests::join::what_is_dead_in_a_shared_file_stays_dead | deleted keys show again
oldest-generation-first      | suite | concurrency::linearizability::random_histories_are_linearizable             | not linearizable
oldest-generation-first      | suite | concurrency::races::reads_never_go_back                               | key [0-9]*: [0-9]* after [0-9]*
update-unchecked             | suite | api::updates::an_update_reads_the_newest_value_whatever_happens_meanwhile | the old value in the last call
update-unchecked             | suite | concurrency::linearizability::random_histories_are_linearizable             | not linearizable
update-unchecked             | model | engine::model_tests::updates::two_updates_of_one_key               | an update was lost
update-unchecked             | model | engine::model_tests::updates::a_put_stalled_beside_put_if_absent   | the put vanished\|was put by
incorporation-unchecked      | suite | api::updates::an_update_reads_the_newest_value_whatever_happens_meanwhile | the old value in the last call
incorporation-unchecked      | model | engine::model_tests::updates::updates_beside_a_switch_and_an_incorporation | an update was lost
incorporation-unchecked      | suite | concurrency::serializability::random_histories_are_serializable             | of world [0-9]*:
ranges-unchecked             | suite | concurrency::serializability::random_histories_are_serializable             | of world [0-9]*:
reads-unchecked              | suite | api::transactions::anomalies::lost_update                           | no conflict at
reads-unchecked              | suite | api::transactions::anomalies::write_skew                            | no conflict at
reads-unchecked              | suite | api::transactions::anomalies::phantom                               | no conflict at
reads-unchecked              | suite | concurrency::serializability::random_histories_are_serializable             | of world [0-9]*:
update-unchecked             | suite | concurrency::serializability::random_histories_are_serializable             | lost update\|of world [0-9]*:
reads-unchecked              | model | engine::model_tests::transactions::two_transactions_with_write_skew | write skew
ranges-unchecked             | model | engine::model_tests::transactions::two_transactions_that_scan_and_insert | a phantom
range-delete-without-grace   | model | engine::model_tests::stores::a_range_delete_beside_puts            | a [0-9]*, b [0-9]*\|(2, 1)\|(0, 1)
range-delete-unseen          | model | engine::model_tests::stores::a_range_delete_beside_puts            | a [0-9]*, b [0-9]*\|(2, 1)\|(0, 1)
range-deletes-uncounted      | model | engine::model_tests::stores::a_range_delete_beside_an_update       | updated to
drop-unchecked               | suite | api::keyspaces::a_dropped_keyspace_is_gone_for_its_handles_and_there_for_older_snapshots | put: Ok
drop-unchecked               | suite | api::keyspaces::races::writes_beside_a_drop_are_applied_wholly_or_not_at_all | a write after the drop was applied
drop-unchecked               | model | engine::model_tests::keyspaces::puts_beside_a_drop                  | a key was written after the drop
drop-unchecked               | model | engine::model_tests::keyspaces::a_batch_beside_a_drop               | half a drop\|a key was written after the drop
moment-for-all               | suite | api::keyspaces::expiry::random::random_operations_with_expiry      | s old
moment-for-all               | model | engine::model_tests::expiry::a_snapshot_beside_a_tick               | sees less than before
filtered-under-snapshots     | suite | api::compaction_filters::whoever_reads_a_moment_keeps_its_pairs     | the filter was asked
filtered-under-snapshots     | suite | api::compaction_filters::readers_agree_with_a_model                 | a snapshot can read the pair\|a snapshot has changed
filtered-without-tombstone   | suite | api::compaction_filters::readers_agree_with_a_model                 | round [0-9]*
snapshots-during-filter      | suite | api::compaction_filters::a_snapshot_taken_during_a_merge_keeps_its_pairs | a snapshot sees less than before
filter-unchecked             | suite | api::compaction_filters::an_update_does_not_write_what_it_made_of_a_filtered_pair | updated to what a filtered pair becomes
gate-unseen                  | suite | api::ingest::races::snapshots_see_whole_ingests_in_their_order         | a snapshot has changed\|then\|a part of an ingest
ingest-unannounced           | suite | api::ingest::races::writers_of_the_range_are_before_or_after_it        | an older ingest shows\|an older write shows
staged-oldest                | suite | api::staged_batches::model::random_batches_agree_with_a_model          | left
staged-ranges-lost           | suite | api::staged_batches::model::random_batches_agree_with_a_model          | left
changes-not-copied           | suite | api::changes::crash::no_crash_leaves_a_gap                             | not kept any more\|ChangesTooOld
changes-unsynced             | suite | api::changes::crash::no_crash_leaves_a_gap                             | not kept any more
chunk-done-early             | suite | api::changes::a_copy_that_follows_ends_equal                           | not kept any more\|ChangesTooOld
copy-reuses-numbers          | suite | api::changes::copies::positions_of_other_histories_are_too_old            | no gap
ingest-counted-early         | suite | api::changes::ingests::a_crash_leaves_an_ingest_in_both_or_in_none     | a crash at
ingest-over-memory           | suite | api::ingest::memory_is_older_than_an_ingest                             | memory hides an ingest
item-not-invalidated         | suite | api::compaction_filters::no_cached_item_outlives_a_filtered_pair    | the item is old
expired-under-snapshots      | suite | api::keyspaces::expiry::every_read_misses_what_has_expired_and_nothing_else | left
expired-under-snapshots      | suite | api::keyspaces::expiry::random::random_operations_with_expiry      | a snapshot
fold-unchecked               | lib   | memory::tests::folding::an_operand_whose_fold_is_outdated_is_placed_by_itself | left
fold-unchecked               | model | engine::model_tests::merges::two_merges_of_an_operand               | an operand was lost\|an operand is gone\|never was
operand-alone                | lib   | memory::tests::folding::snapshots_see_the_operands_up_to_them | left
operand-alone                | model | engine::model_tests::merges::two_merges_that_cannot_be_joined | an operand was lost\|an operand is gone\|never was
ranges-without-grace         | model | engine::model_tests::transactions::two_transactions_that_scan_and_insert | a phantom
number-before-latch          | model | engine::model_tests::stores::batches_beside_puts_of_their_keys     | versions came out of order
block-number-not-cleared     | model | engine::model_tests::stores::overwrites_in_place_beside_gets       | the value is torn\|went back from
value-not-checked-again      | model | engine::model_tests::stores::overwrites_in_place_beside_gets       | the value is torn
newest-not-read-again        | model | engine::model_tests::stores::blocks_that_are_reused_for_other_keys        | the value is another key
batch-entry-by-entry         | suite | concurrency::races::plain_gets_see_whole_batches                      | [0-9]* after [0-9]*
batch-entry-by-entry         | suite | concurrency::linearizability::random_histories_are_linearizable             | not linearizable
batch-entry-by-entry         | model | engine::model_tests::stores::a_batch_beside_gets_and_a_snapshot    | half a batch
batch-cleared-first          | model | engine::model_tests::stores::a_batch_beside_gets_and_a_snapshot    | half a batch
batch-in-parts               | suite | crash::kill::killed_at_any_instant_nothing_acknowledged_is_lost       | with the one in flight: writer
snapshot-does-not-wait       | suite | concurrency::races::every_snapshot_holds_whole_batches                | at number
snapshot-does-not-wait       | suite | concurrency::linearizability::random_histories_are_linearizable             | not linearizable
snapshot-does-not-wait       | model | engine::model_tests::stores::an_overwrite_beside_a_snapshot        | the snapshot changed
get-does-not-wait            | model | engine::model_tests::stores::snapshots_and_gets_agree_on_the_order | a get saw y before x
snapshots-before-number      | model | engine::model_tests::stores::an_overwrite_beside_a_snapshot        | the snapshot changed\|then the snapshot
cleanup-snapshots-first      | model | engine::model_tests::stores::version_cleanup_beside_overwrites_and_snapshots | the snapshot has\|the snapshot changed
drain-does-not-wait          | model | engine::model_tests::memtables::two_drains_of_one_partition        | the scan misses a key
queue-count-first            | model | engine::model_tests::memtables::two_drains_of_one_partition        | place.is_null
snapshots-ignored            | suite | api::snapshots::thousands_of_snapshots_stay_exact_over_overwrites                      | at [0-9]
snapshots-ignored            | suite | concurrency::races::every_snapshot_holds_whole_batches                | at number
snapshots-ignored            | model | engine::model_tests::stores::a_snapshot_is_dropped_while_another_reads   | the snapshot changed
snapshots-began-unseen       | loom  | a_snapshot_finds_its_version                                   | the bound is not the only pin\|version is gone
announce-without-fence       | loom  | a_retired_segment_does_not_change                              | a retired segment changed
newest-generation-taken      | model | engine::model_tests::stores::a_generation_is_incorporated_beside_a_put        | a write was lost by a kill
closing-does-not-wait        | suite | concurrency::closing::closing_waits_for_a_write_that_has_begun | closed during a write
acknowledged-before-sealed   | suite | crash::kill::killed_at_any_instant_nothing_acknowledged_is_lost       | acknowledged:\|which was durable
shadow-ignored               | suite | crash::shadow::a_kill_loses_nothing_that_is_only_in_shadows        | the reader sees
shadow-not-copied            | suite | crash::shadow::repeated_kills_during_recovery_lose_nothing         | then a power cut\|that was read here before
returned-before-written      | suite | crash::shadow::where_mappings_are_not_trusted_a_write_waits_for_the_kernel | acknowledged
shadow-marks-trusted         | suite | crash::shadow::marks_of_a_shadow_count_only_in_the_same_life        | manifest edits
writeback-error-ignored      | suite | crash::shadow::a_failed_writeback_of_a_shadow_stops_the_store      | writeback failed
sync-without-log             | suite | crash::recovery::power_cut_keeps_what_was_synced_and_a_prefix_of_the_rest | were promised\|Corruption
incorporated-ahead-of-log    | suite | crash::recovery::crashes_at_random_operations                         | equals no prefix\|Corruption
gap-skipped-after-power-loss | suite | crash::recovery::power_cut_keeps_what_was_synced_and_a_prefix_of_the_rest | equals no prefix\|Corruption
checkpoint-links-log         | suite | tools::checkpoint::a_checkpoint_has_the_contents_of_its_number_and_both_stores_live_on | manifest edits\|shadow of a log
checkpoint-published-first   | suite | tools::checkpoint::crash::a_crash_leaves_a_whole_checkpoint_or_none | corruption in /copy
checkpoint-without-switch    | suite | tools::checkpoint::a_checkpoint_has_the_contents_of_its_number_and_both_stores_live_on | left
checkpoint-without-switch    | suite | tools::checkpoint::running::a_checkpoint_beside_writers_is_a_prefix_with_all_that_was_acknowledged | the checkpoint has
backup-names-unsynced        | suite | tools::backup::crash::a_description_is_never_there_without_its_files | no file
backup-shares-by-number      | suite | tools::backup::stores_that_diverge_are_not_confused | /copy: BackupReport
backup-removes-shared        | suite | tools::backup::removal_keeps_what_other_backups_need | no file
backup-removal-unsynced      | suite | tools::backup::crash::a_description_is_never_there_without_its_files_after_a_removal | no file
restore-published-first      | suite | tools::backup::crash::a_crash_during_a_restore_leaves_a_whole_store_or_none | corruption in /restored
restore-unchecked            | suite | tools::backup::damage::every_damaged_file_is_found_and_named | first: \[\]
page-checksum-ignored        | suite | tools::bad_input::truncated_and_flipped_files_are_named               | a get finds another value than the scan\|a wrong answer without an error
record-checksum-ignored      | lib   | log::recovery::tests::garbage_anywhere_is_an_error_or_harmless | outcome.values
failure-ignored              | suite | crash::recovery::a_failed_sync_is_permanent                       | goes on as if nothing had happened
generations-without-bound    | suite | disk_full::bounds::writers_wait_for_memory_within_its_budget | memory generations pile up\|of memory in a budget of
cache-without-bound          | suite | disk_full::bounds::counted_memory_stays_in_its_budget              | bytes are held in a budget of
files-never-closed           | lib   | cache::tests::open_files_are_bounded_and_those_in_use_stay     | files are open
writer-lock-shared           | suite | tools::bad_input::an_open_store_cannot_be_opened_again                | AlreadyOpen
newer-manifest-read          | suite | tools::bad_input::a_newer_format_is_refused                           | MANIFEST
'

# The table without blanks, one line a row, grouped by target; "\|" separates the alternatives of a message.
rows() {
    local kind
    for kind in suite lib model loom; do
        sed 's/\\|/\x01/g' <<< "$table" | sed 's/ *| */|/g; s/ *$//; s/\x01/\\|/g' | awk -F'|' -v kind="$kind" '$2 == kind'
    done
}

# Each row with the number of its part in front. A part has rows of one target only.
parts() {
    # The model checker takes longest.
    rows | awk -F'|' '
        { size = $2 == "model" ? 4 : 8 }
        NR == 1 || $2 != kind || filled == size { part++; filled = 0; kind = $2 }
        { filled++; print part "|" $0 }
    '
}

case "${1-}" in
    --list)
        parts | awk -F'|' '{ printf "%2d  %-5s  %-28s  %s\n", $1, $3, $2, $4 }'
        exit
        ;;
    --part)
        count="$(parts | tail -n 1 | cut -d'|' -f1)"
        part="${2:-$(($(date +%s) / 3600 % count + 1))}"
        chosen="$(parts | awk -F'|' -v part="$part" '$1 == part' | cut -d'|' -f2-)"
        if [ -z "$chosen" ]; then printf 'no part %s, there are %s\n' "$part" "$count" >&2; exit 1; fi
        printf 'planted bugs: part %s of %s; to repeat it: scripts/planted-bugs.sh --part %s\n' "$part" "$count" "$part"
        ;;
    *)
        chosen="$(rows | awk -F'|' -v names=" $* " 'names == "  " || index(names, " " $1 " ")')"
        if [ -z "$chosen" ]; then printf 'no such bug: %s\n' "$*" >&2; exit 1; fi
        ;;
esac

declare -A target=(
    [suite]='-p alluvium --test suite' [lib]='-p alluvium --lib' [model]='-p alluvium --lib --features model-checking'
    [loom]='-p alluvium-loom-models --test models'
)
# Some bugs show in only one of thousands of schedules.
export ALLUVIUM_SCHEDULES="${ALLUVIUM_SCHEDULES:-8000}"
# A bug that loses writes shows after the first few kills.
export ALLUVIUM_KILLS="${ALLUVIUM_KILLS:-40}"
run() { # BUG TARGET TEST
    # shellcheck disable=SC2086
    ALLUVIUM_PLANTED=$1 ALLUVIUM_SEED=${try:-1} RUST_BACKTRACE=0 timeout 300 cargo test --quiet --features planted-bugs ${target[$2]} -- --exact "$3" --nocapture 2>&1 |
        sed -n '/^running 1 test/,$p'
}

for kind in $(cut -d'|' -f2 <<< "$chosen" | sort -u); do
    # shellcheck disable=SC2086
    cargo test --features planted-bugs ${target[$kind]} --no-run
done
printf 'planted bugs: built after %s s\n' "$SECONDS"
failed=0
declare -A passes=()
while IFS='|' read -r bug kind test text; do
    before=$SECONDS
    if [ -z "${passes[$test]-}" ]; then
        if ! output=$(run '' "$kind" "$test") || ! grep -q '1 passed' <<< "$output"; then
            printf 'FAILS WITHOUT A BUG: %s must pass:\n%s\n' "$test" "$output" >&2
            failed=1
            continue
        fi
        passes[$test]=yes
    fi
    # Some bugs are races, which may not show at the first try.
    caught=
    for try in 1 2 3 4 5 6; do
        if ! output=$(run "$bug" "$kind" "$test"); then caught=$try && break; fi
    done
    if [ -z "$caught" ]; then
        printf 'NOT CAUGHT: %s by %s\n' "$bug" "$test" >&2
        failed=1
    # `grep -m1` would end before a long output is written to it, and that counts as a failure of the pipe.
    elif ! lines=$(grep -v '^thread ' <<< "$output" | grep -- "$text"); then
        printf 'WRONG MESSAGE: %s made %s fail, but not with "%s":\n%s\n' "$bug" "$test" "$text" "$output" >&2
        failed=1
    else
        printf '%s is caught by %s, try %s, %s s:\n    %.300s\n' "$bug" "$test" "$caught" "$((SECONDS - before))" "${lines%%$'\n'*}"
    fi
done <<< "$chosen"
exit "$failed"
