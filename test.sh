#!/usr/bin/env bash
# ./test.sh        builds everything and passes all tests
# ./test.sh asan   the same with AddressSanitizer and UndefinedBehaviorSanitizer
# ./test.sh tsan   the concurrent folders with ThreadSanitizer
# ./test.sh all    one after the other
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

run_tsan() {
  local folder targets=() labels='' fixed=()
  for folder in actors strategies net simulation; do
    if compgen -G "tests/$folder/*_test.cpp" >/dev/null; then
      targets+=("${folder}_tests")
      labels+=${labels:+|}$folder
    fi
  done
  scripts/build-caf-tsan.sh
  build tsan "${targets[@]}"
  # Where addresses are too random, ThreadSanitizer finds no place for itself.
  if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
  "${fixed[@]}" ctest --preset tsan -j 2 -L "^($labels)\$"
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
for preset in "${presets[@]}"; do
  if [ "$preset" = tsan ]; then run_tsan; else run "$preset"; fi
done
