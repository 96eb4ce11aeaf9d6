#!/usr/bin/env bash
# Checks that the simulation's tests find bugs. Each patch of
# tests/simulation/planted/ plants a bug in a copy of the tree, and names tests
# that find it. These tests have to fail with the patch and to pass without it.
#
#   scripts/planted-bugs.sh [<patch>...]    the named patches, or all
#   scripts/planted-bugs.sh --check         only checks that all patches apply
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
copy=$root/build/planted/troupe
patches=("$@")
if [ ${#patches[@]} -eq 0 ]; then
  patches=(tests/simulation/planted/*.patch)
fi

# Applies a patch. With -C1, one line of context is enough, so that a patch still
# applies after other changes nearby.
plant() { GIT_CEILING_DIRECTORIES=$root/build git apply -C1 "$@"; }

if [ "${1-}" = --check ]; then
  for patch in tests/simulation/planted/*.patch; do
    plant --check "$patch" || {
      echo "planted-bugs.sh: $patch does not apply; make it anew" >&2
      exit 1
    }
  done
  exit 0
fi

mkdir -p "$copy/build"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
for at in "${!patches[@]}"; do
  patches[at]=$(realpath "${patches[at]}")
done
cd "$copy"
# An interrupted run may have built these files with a patch.
sed -n 's/^+++ b\///p' "${patches[@]}" | xargs touch
# shellcheck source=scripts/build.sh
. scripts/build.sh

# tests <what is built> <filter>: builds and runs the tests, with output to a log.
tests() {
  build dev simulation_tests >build/planted.log 2>&1 || {
    cat build/planted.log >&2
    echo "planted-bugs.sh: $1 does not build" >&2
    exit 1
  }
  build/dev/simulation_tests --gtest_filter="$2" >build/planted.log 2>&1
}

failed=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  filter=$(sed -n 's/^Found-by: //p' "$patch")
  if ! tests "the tree" "$filter"; then
    cat build/planted.log >&2
    echo "planted-bugs.sh: $filter fails without any patch" >&2
    exit 1
  fi
  plant "$patch"
  if tests "$name" "$filter"; then
    echo "NOT FOUND  $name, by $filter" >&2
    failed=1
  else
    echo "found      $name: $(grep -m 1 '^seed ' build/planted.log)"
  fi
  plant -R "$patch"
done
exit "$failed"
