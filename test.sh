#!/usr/bin/env bash
# ./test.sh                  builds everything and runs all tests. One translation unit
#                            includes several sources (cmake/Unity.cmake)
# ./test.sh dev              all tests, built with a translation unit per source
# ./test.sh asan             all tests with AddressSanitizer and
#                            UndefinedBehaviorSanitizer
# ./test.sh asan net actors  only the tests of net and actors, as with asan; the
#                            folder `fuzz` stands for the decoders, which run on
#                            their corpus
# ./test.sh cuda             all tests, built for CUDA devices; the tests that need a
#                            device are skipped where there is none
# ./test.sh tsan             the tests of actors, strategies, net and simulation
#                            with ThreadSanitizer
# ./test.sh all              the three runs: without sanitizers, asan and tsan
#
# Installs missing packages first. Tests on real data read it from the folder
# TROUPE_DATA_DIR, and tests that compare with TensorFlow from the file
# TROUPE_TF_VALUES. If these variables are not set, they are skipped.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh
. scripts/build.sh

# Tests of several processes wait for each other much of the time, so one more test
# runs than there are processors.
at_once=$(($(nproc) + 1))

run() {
  build "$1"
  ctest --preset "$1" -j "$at_once"
}

# run_folders <preset> <folder>...
run_folders() {
  local preset=$1 folder targets=() labels='' fixed=()
  shift
  for folder in "$@"; do
    if [ -n "$(find "tests/$folder" -name "*_test.cpp" -print -quit 2>/dev/null)" ] ||
      [ "$folder" = fuzz ]; then
      targets+=("${folder}_tests")
      labels+=${labels:+|}$folder
    else
      echo "test.sh: tests/$folder does not exist or contains no tests." >&2
      return 2
    fi
  done
  if [ "$preset" = tsan ]; then
    scripts/build-caf-tsan.sh
    # ThreadSanitizer cannot map its shadow memory if addresses are too random.
    if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
  fi
  build "$preset" "${targets[@]}"
  "${fixed[@]}" ctest --preset "$preset" -j "$at_once" -L "^($labels)\$"
}

case ${1-unity} in
  unity | dev | asan | cuda | tsan) presets=("${1-unity}") ;;
  all) presets=(unity asan tsan) ;;
  *)
    echo "test.sh: '$1' is none of dev, asan, cuda, tsan and all; without an argument, the" \
      "tests run without sanitizers." >&2
    exit 2
    ;;
esac

case ${presets[*]} in
  *san*) install_missing sanitizers ;;
  *) install_missing ;;
esac
folders=("${@:2}")
for preset in "${presets[@]}"; do
  if [ ${#folders[@]} -gt 0 ]; then
    run_folders "$preset" "${folders[@]}"
  elif [ "$preset" = tsan ]; then
    run_folders tsan actors strategies net simulation
  else
    run "$preset"
  fi
done
