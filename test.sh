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

concurrent=(actors strategies net simulation)

run() {
  local targets=() only=()
  if [ "$1" = tsan ]; then
    scripts/build-caf-tsan.sh
    targets=("${concurrent[@]/%/_tests}")
    only=(-L "^($(IFS='|'; echo "${concurrent[*]}"))\$")
  fi
  build "$1" "${targets[@]}"
  ctest --preset "$1" -j 2 "${only[@]}"
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
  run "$preset"
done
