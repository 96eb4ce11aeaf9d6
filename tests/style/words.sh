#!/usr/bin/env bash
# Fails on words that this project does not use. Each rule says what to do
# instead, or why.
set -euo pipefail
if ! git ls-files --error-unmatch CMakeLists.txt >/dev/null 2>&1; then
  echo "skipped: git lists no files here"
  exit 77
fi

status=0
# never <what to do instead, or why> <extended regex> <path>...
never() {
  local instead=$1 word=$2
  shift 2
  if git grep -n -I -E -e "$word" -- "$@" ':!tests/style'; then
    echo "^ $instead"
    status=1
  fi
}

code=('*.cpp' '*.hpp' '*.cu' '*.cuh')
never "give every wait a deadline" 'caf::infinite|[(,] *infinite *[,)]' "${code[@]}"
never "send one-way messages, or use request().then() with a deadline" '\.await\(' "${code[@]}"
never "include what is used" 'caf/all\.hpp|caf/test/' "${code[@]}"
never "CAF's network layer is not used" 'caf/(io|openssl)/' "${code[@]}"
never "wait for the event itself, or with becomes_true(), which has a deadline" \
  '\b(sleep_for|sleep_until|usleep|nanosleep|sleep) *\(' \
  'tests/*.cpp' 'tests/*.hpp' ':!tests/support/becomes_true.hpp'
never "sums must not depend on a thread count" '#pragma +omp' "${code[@]}"
never "the same sum has the same bits everywhere" \
  'ffast-math|fp-contract=(on|fast)|funsafe-math' "${code[@]}" '*.cmake' \
  '*CMakeLists.txt' CMakePresets.json
never "finish it or leave it out" '\b(TODO|FIXME|XXX|HACK)\b' .
never "a test runs or skips with a reason" '\bDISABLED_' 'tests/*.cpp'
exit $status
