#!/usr/bin/env bash
# Fails if .ci/run leaves out a part for too long. Any three runs with numbers that
# follow one another must choose each pair of a sanitizer and a folder. Each planted
# bug must be the first or second of one of any N runs, for 2 N planted bugs.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
unset TROUPE_CI_NUMBER # a run of CI may have it
export TROUPE_CI_STATE=$scratch/state
fail() {
  echo "ci_rotation.sh: $*" >&2
  exit 1
}
list() { TROUPE_CI_NUMBER=$1 .ci/run --list; }
# Prints "<sanitizer> <folder>" for each pair that the output of --list chooses.
pairs() {
  sed -n 's|^chosen: \./test\.sh \([a-z ]*\),.*|\1|p' |
    awk '{ for (i = 2; i <= NF; ++i) print $1, $i }'
}

# AddressSanitizer runs on all folders with tests, but not on tests/allocation: the
# sanitizers replace malloc, too; nor on tests/cuda, which need a device. ThreadSanitizer runs on those of `./test.sh tsan`.
find tests -name '*_test.cpp' -o -name '*_fuzz.cpp' | cut -d / -f 2 | sort -u |
  sed -e '/^allocation$/d' -e '/^cuda$/d' -e 's/^/asan /' >"$scratch/wanted"
sed -n 's/^ *run_folders tsan \([a-z ]*\)$/\1/p' test.sh | tr ' ' '\n' |
  sed 's/^/tsan /' >>"$scratch/wanted"
[ "$(grep -c tsan "$scratch/wanted")" -ge 4 ] || fail "test.sh names no folders for tsan"
sort -o "$scratch/wanted" "$scratch/wanted"

basename -s .patch -a tests/simulation/planted/*.patch | sort >"$scratch/bugs"
runs=$((($(wc -l <"$scratch/bugs") + 1) / 2))
last=$((runs + 2 > 8 ? runs + 2 : 8))

for ((number = 0; number <= last; ++number)); do
  list "$number" >"$scratch/list"
  pairs <"$scratch/list" | sort >"$scratch/pairs.$number"
  grep -qx "== run number $number: TROUPE_CI_NUMBER" "$scratch/list" ||
    fail "run $number prints no reason"
  sed '1,/^planted bugs/d' "$scratch/list" | head -n 2 >"$scratch/planted.$number"
done
for first in {0..6}; do
  sort "$scratch/pairs.$first" "$scratch/pairs.$((first + 1))" \
    "$scratch/pairs.$((first + 2))" >"$scratch/seen"
  diff "$scratch/wanted" "$scratch/seen" ||
    fail "runs $first to $((first + 2)) choose other pairs than those wanted"
done
for ((first = 0; first + runs - 1 <= last; ++first)); do
  for ((number = first; number < first + runs; ++number)); do
    cat "$scratch/planted.$number"
  done | sort -u >"$scratch/seen"
  diff "$scratch/bugs" "$scratch/seen" ||
    fail "runs $first to $((first + runs - 1)) leave out a planted bug"
done

# Without a forced number, a state gives the number, and its skipped part is first.
printf '%s\n' 'number 3' 'skipped tsan net actors' >"$TROUPE_CI_STATE"
TROUPE_CI_NUMBER='' .ci/run --list >"$scratch/list"
grep -q '^== run number 4: ' "$scratch/list" || fail "the number does not follow that of the state"
[ "$(grep -m 1 '^chosen: ' "$scratch/list")" = \
  'chosen: ./test.sh tsan net actors, which the run before skipped' ] ||
  fail "the skipped part is not the first one"
[ "$(grep -c 'tsan net actors' "$scratch/list")" -eq 1 ] || fail "a part is chosen twice"
[ "$(cat "$TROUPE_CI_STATE")" = $'number 3\nskipped tsan net actors' ] ||
  fail "--list changed the state"
if TROUPE_CI_NUMBER=three .ci/run --list >"$scratch/list" 2>&1; then
  fail "a number that is no number is accepted"
fi
# Without a history, the day gives the number.
GIT_DIR=$scratch/none TROUPE_CI_STATE=$scratch/none .ci/run --list >"$scratch/list" 2>&1
grep -q '^== run number [0-9]*: .* day' "$scratch/list" || fail "no number without git"
echo "each pair is chosen in any three runs"
