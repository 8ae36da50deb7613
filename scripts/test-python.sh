#!/usr/bin/env bash
# The Python package: makes its wheel, installs that into a virtual environment in which there is nothing else of it, and tests it there;
# checks the type stubs against it.
#
#   scripts/test-python.sh [--release] [--plyvel]
#
# --release makes the wheel that would be published (in target/wheels); else it is made by the profile dev, which shares what other builds
# of the workspace have compiled. --plyvel also runs plyvel's own tests, which it downloads, against this package; those of them that must
# fail are listed below.
#
# Needs python3 (3.11 or newer) with venv, and a package index for pip; says so and does nothing where there is no python3.
set -euo pipefail
cd "$(dirname "$0")/.."

maturin='maturin==1.16.0'
test_tools=('pytest==9.2.0' 'mypy==2.4.1')
plyvel='plyvel==1.5.1'
# Tests of plyvel that must fail here, and why.
plyvel_differs=(
    'test_open_read_only_dir: a directory without a store, of which plyvel says that it may not be written, is said to have no store'
    'test_approximate_sizes: has keys of up to 100 KB, and 64 KiB are the most'
    'test_comparator: keys are in the order of their bytes'
)

profile=dev
with_plyvel=''
for argument in "$@"; do
    case "$argument" in
        --release) profile=release ;;
        --plyvel) with_plyvel=yes ;;
        *)
            printf 'test-python: what is %s? see the head of this file\n' "$argument" >&2
            exit 2
            ;;
    esac
done

if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    printf 'test-python: skipped: no python3 of version 3.11 or newer with venv\n'
    exit 0
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

# The environment in which the wheel is made; kept, and made anew where it is of another maturin or Python.
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

# The environment of a user. What tests it comes afterwards, so that the wheel is seen to need nothing.
user="$scratch/user"
python3 -m venv "$user"
"$user/bin/pip" install --quiet --no-index "$wheels"/alluvium-*-abi3-*.whl
(cd / && "$user/bin/python" -c 'import alluvium')
"$user/bin/pip" install --quiet "${test_tools[@]}"

# Not from the folder of the sources, which have no native half.
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
        printf 'test-python: of the tests of plyvel these were to fail:\n%s\nand these did:\n%s\n' "$expected" "$failed" >&2
        exit 1
    fi
    printf 'test-python: fails as expected: %s\n' "${plyvel_differs[@]}"
fi
printf 'test-python: all good\n'
