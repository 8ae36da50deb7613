#!/usr/bin/env bash
# Test suites and programs that were not written for SkipFS, on a mount of it: pjdfstest and fsx (crates), stress-ng's file
# system stressors and dbench (Debian), git, cargo, SQLite, tar and rsync. After each the file system is unmounted and
# checked. Needs root, /dev/fuse, and the network for the first run.
#
#   scripts/file-system-suites.sh            all
#   scripts/file-system-suites.sh NAME...    these; `--list` prints their names
#
# SUITES_WORK (target/file-system-suites) is the folder of the logs, the tools and the mount.
set -uo pipefail
cd "$(dirname "$0")/.."
repository=$PWD

suites=(pjdfstest fsx stress-ng dbench git cargo sqlite tar rsync)
if [ "${1-}" = --list ]; then printf '%s\n' "${suites[@]}" && exit; fi
for name in "$@"; do
    if [[ " ${suites[*]} " != *" $name "* ]]; then printf 'suites: no suite %s\n' "$name" >&2 && exit 1; fi
done
if [ $# -gt 0 ]; then suites=("$@"); fi

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
work="$(realpath -m "${SUITES_WORK:-$target/file-system-suites}")"
mount="$work/mount"
store="$work/store"
mkdir -p "$mount" "$work/logs"
server=

fail() { printf 'suites: %s\n' "$1" >&2 && exit 1; }
[ "$(id -u)" -eq 0 ] || fail 'needs root: it mounts, and changes users'
[ -e /dev/fuse ] || fail 'needs /dev/fuse'

cargo build --quiet --release -p alluvium-cli || fail 'the command line does not build'
alluvium="$target/release/alluvium"
for tool in pjdfstest fsx; do
    [ -x "$work/bin/$tool" ] || cargo install --quiet --root "$work" "$tool" || fail "no $tool"
done
for tool in stress-ng dbench sqlite3 rsync git; do
    command -v "$tool" > /dev/null \
        || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$tool"; } \
            > "$work/logs/install.log" 2>&1 || fail "no $tool: see $work/logs/install.log"
done

# begin OPTION...: mounts a new file system.
begin() {
    rm -rf "$store"
    "$alluvium" mkfs "$store" > /dev/null || return 1
    "$alluvium" mount "$mount" "$store" --allow-other "$@" > "$work/logs/mount.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        mountpoint -q "$mount" && return
        kill -0 "$server" 2> /dev/null || break
        sleep 0.1
    done
    cat "$work/logs/mount.log" >&2
    return 1
}

# Unmounts and checks.
end() {
    "$alluvium" unmount "$mount" || return 1
    wait "$server" || return 1
    server=
    "$alluvium" check "$store" >> "$work/logs/check.log" 2>&1
}
trap '[ -z "$server" ] || umount -l "$mount"' EXIT

write_settings() {
    cat > "$work/pjdfstest.toml" << 'SETTINGS'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
SETTINGS
    # Files over several chunks, all operations.
    cat > "$work/fsx.toml" << 'SETTINGS'
flen = 1500000
[opsize]
min = 0
max = 300000
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
truncate = 10
invalidate = 1
fsync = 1
fdatasync = 1
posix_fallocate = 5
punch_hole = 5
sendfile = 2
posix_fadvise = 1
copy_file_range = 3
SETTINGS
}

# Prints the counts of a suite, and fails with it.
run() {
    case "$1" in
        pjdfstest)
            (cd "$mount" && "$work/bin/pjdfstest" -c "$work/pjdfstest.toml" -p .) > "$work/logs/pjdfstest.log" 2>&1
            local code=$?
            tail -1 "$work/logs/pjdfstest.log"
            return "$code"
            ;;
        fsx)
            local seed
            for seed in 1 2 3 4 5; do
                (cd "$mount" && "$work/bin/fsx" -f "$work/fsx.toml" -N 10000 -S "$seed" "file$seed") \
                    > "$work/logs/fsx-$seed.log" 2>&1 || return 1
            done
            printf '5 files, 10000 operations each\n'
            ;;
        stress-ng)
            mkdir "$mount/stress"
            # `binderfs` mounts a file system of its own, whatever the path is, and fails where the kernel has none.
            stress-ng --class filesystem --exclude binderfs --sequential 2 -t 3 --verify --temp-path "$mount/stress" \
                > "$work/logs/stress-ng.log" 2>&1
            local code=$?
            grep -c 'dispatching hogs' "$work/logs/stress-ng.log" | sed 's/$/ stressors/'
            return "$code"
            ;;
        dbench)
            dbench -D "$mount" -c /usr/share/dbench/client.txt -t 20 4 > "$work/logs/dbench.log" 2>&1 || return 1
            grep Throughput "$work/logs/dbench.log"
            ;;
        git)
            git clone -q "$repository" "$mount/clone" && git -C "$mount/clone" fsck > "$work/logs/git.log" 2>&1 \
                && [ -z "$(git -C "$mount/clone" status --porcelain)" ] \
                && git -C "$mount/clone" ls-files | wc -l | sed 's/$/ files/'
            ;;
        cargo)
            cargo new --quiet --vcs none --lib "$mount/library" && cargo add --quiet --manifest-path "$mount/library/Cargo.toml" \
                serde_json > "$work/logs/cargo.log" 2>&1 \
                && CARGO_TARGET_DIR="$mount/library/target" cargo test --quiet --manifest-path "$mount/library/Cargo.toml" \
                    >> "$work/logs/cargo.log" 2>&1 && find "$mount/library/target" -type f | wc -l | sed 's/$/ files built/'
            ;;
        sqlite)
            local mode
            for mode in delete wal; do
                sqlite3 "$mount/$mode.db" > "$work/logs/sqlite-$mode.log" 2>&1 << SQL || return 1
pragma journal_mode = $mode;
create table t (a integer primary key, b text, c blob);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000)
insert into t select x, hex(randomblob(16)), randomblob(100) from n;
create index i on t (b);
update t set c = randomblob(50) where a % 7 = 0;
delete from t where a % 3 = 0;
vacuum;
pragma integrity_check;
select count(*) from t;
SQL
                [ "$(tail -2 "$work/logs/sqlite-$mode.log" | tr '\n' ' ')" = 'ok 133334 ' ] || return 1
            done
            printf 'two databases, 133334 rows each\n'
            ;;
        tar)
            tar -cf - src tests docs crates | tar -C "$mount" -xf - || return 1
            local name
            for name in src tests docs crates; do diff -r "$name" "$mount/$name" > /dev/null || return 1; done
            find "$mount" -type f | wc -l | sed 's/$/ files, equal/'
            ;;
        rsync)
            rsync -a src tests docs crates "$mount/" \
                && [ -z "$(rsync -an --checksum --itemize-changes src tests docs crates "$mount/")" ] \
                && find "$mount" -type f | wc -l | sed 's/$/ files, equal checksums/'
            ;;
    esac
}

write_settings
failed=0
for name in "${suites[@]}"; do
    for cache in off on; do
        : > "$work/logs/check.log"
        if ! begin --write-back "$cache"; then counts='cannot be mounted' && result=FAILED
        elif counts="$(run "$name")" && end; then result=ok
        else result=FAILED; fi
        [ "$result" = ok ] || failed=1
        [ -z "$server" ] || { umount -l "$mount" && wait "$server"; server=; }
        printf '%-10s write-back %-3s  %-6s  %s\n' "$name" "$cache" "$result" "$counts"
    done
done
[ "$failed" -eq 0 ] || fail "a suite failed; the logs are in $work/logs"
