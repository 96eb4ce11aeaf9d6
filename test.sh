#!/usr/bin/env bash
# ./test.sh                  builds everything and passes all tests
# ./test.sh asan             the same with AddressSanitizer and
#                            UndefinedBehaviorSanitizer
# ./test.sh asan net actors  likewise, of these folders alone
# ./test.sh tsan             the concurrent folders with ThreadSanitizer
# ./test.sh all              one after the other
#
# Installs what is missing first. Tests on real data look in TROUPE_DATA_DIR and
# skip without it.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh
. scripts/build.sh

run() {
  build "$1"
  ctest --preset "$1" -j 2
}

# run_folders <preset> <folder>...
run_folders() {
  local preset=$1 folder targets=() labels='' fixed=()
  shift
  for folder in "$@"; do
    if compgen -G "tests/$folder/*_test.cpp" >/dev/null; then
      targets+=("${folder}_tests")
      labels+=${labels:+|}$folder
    else
      echo "test.sh: there is no tests/$folder with tests in it." >&2
      return 2
    fi
  done
  if [ "$preset" = tsan ]; then
    scripts/build-caf-tsan.sh
    # Where addresses are too random, ThreadSanitizer finds no place for itself.
    if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
  fi
  build "$preset" "${targets[@]}"
  "${fixed[@]}" ctest --preset "$preset" -j 2 -L "^($labels)\$"
}

case ${1-dev} in
  dev | asan | tsan) presets=("${1-dev}") ;;
  all) presets=(dev asan tsan) ;;
  *)
    echo "test.sh: '$1' is neither asan, tsan nor all; no argument runs the tests" \
      "as they are." >&2
    exit 2
    ;;
esac

install_missing
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
