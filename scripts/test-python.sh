#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a new virtual environment without the sources, tests it
# there, and checks its type stubs.
#
#   scripts/test-python.sh [--release] [--plyvel]
#
# --release builds the wheel for publication (in target/wheels). Without it the wheel is built with the profile dev,
# which shares compiled crates with other builds of the workspace. --plyvel also downloads plyvel's own tests and runs
# them against this package; the ones that must fail are listed below.
#
# Needs python3 (3.11 or newer) with venv, and a package index for pip. Without python3 it prints a message and does
# nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

maturin='maturin==1.16.0'
test_tools=('pytest==9.2.0' 'mypy==2.4.1')
plyvel='plyvel==1.5.1'
# Tests of plyvel that must fail here, and why.
plyvel_differs=(
    'test_open_read_only_dir: for a directory without a store, plyvel reports that it is not writable; this reports that it has no store'
    'test_approximate_sizes: has keys of up to 100 KB; the limit is 64 KiB'
    'test_comparator: keys are sorted by their bytes'
)

profile=dev
with_plyvel=''
for argument in "$@"; do
    case "$argument" in
        --release) profile=release ;;
        --plyvel) with_plyvel=yes ;;
        *)
            printf 'test-python: unknown argument %s; see the comment at the top of this file\n' "$argument" >&2
            exit 2
            ;;
    esac
done

if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    printf 'test-python: skipped: no python3 of version 3.11 or newer with venv\n'
    # In CI a skipped test is a failure.
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

# The environment that builds the wheel. It is kept, and created again if the version of maturin or Python differs.
build="${CARGO_TARGET_DIR:-target}/python-build"
wanted="$maturin $(python3 --version)"
if [ "$(cat "$build/made-of" 2> /dev/null)" != "$wanted" ]; then
    rm -rf "$build"
    mkdir -p "${build%/*}"
    python3 -m venv "$build"
    "$build/bin/pip" install --quiet "$maturin"
    printf '%s\n' "$wanted" > "$build/made-of"
fi
wheels="$scratch/wheels"
if [ "$profile" = release ]; then wheels="${CARGO_TARGET_DIR:-target}/wheels"; fi
rm -rf "$wheels"
"$build/bin/maturin" build --quiet --profile "$profile" --locked --manifest-path crates/python/Cargo.toml --out "$wheels"

# A user's environment. The test tools are installed after the first import, which shows that the wheel needs nothing
# else.
user="$scratch/user"
python3 -m venv "$user"
"$user/bin/pip" install --quiet --no-index "$wheels"/alluvium-*-abi3-*.whl
(cd / && "$user/bin/python" -c 'import alluvium')
"$user/bin/pip" install --quiet "${test_tools[@]}"

# Not from the source folder, which lacks the native module.
tests="$PWD/crates/python"
"$user/bin/pytest" --quiet -p no:cacheprovider --rootdir "$tests" -c "$tests/pyproject.toml" "$tests/tests"
(cd "$scratch" && "$user/bin/stubtest" alluvium)
(cd "$scratch" && "$user/bin/mypy" --config-file "$tests/pyproject.toml" "$tests/tests")

if [ -n "$with_plyvel" ]; then
    "$user/bin/pip" download --quiet --no-deps --no-binary plyvel --dest "$scratch" "$plyvel"
    tar -C "$scratch" -xzf "$scratch"/plyvel-*.tar.gz
    mkdir "$scratch/plyvel-tests"
    cp "$scratch"/plyvel-*/test/test_plyvel.py "$scratch/plyvel-tests"
    printf 'import sys, alluvium\nsys.modules["plyvel"] = alluvium\n' > "$scratch/plyvel-tests/conftest.py"
    report="$scratch/plyvel-report"
    (cd "$scratch/plyvel-tests" && "$user/bin/pytest" -q -p no:cacheprovider --tb=line -rf . > "$report") || true
    tail -n 1 "$report"
    failed="$(sed -n 's/^FAILED .*::\([a-z0-9_]*\).*/\1/p' "$report" | sort)"
    expected="$(printf '%s\n' "${plyvel_differs[@]%%:*}" | sort)"
    if [ "$failed" != "$expected" ]; then
        cat "$report"
        printf 'test-python: these tests of plyvel should fail:\n%s\nand these failed:\n%s\n' "$expected" "$failed" >&2
        exit 1
    fi
    printf 'test-python: fails as expected: %s\n' "${plyvel_differs[@]}"
fi
printf 'test-python: all good\n'
