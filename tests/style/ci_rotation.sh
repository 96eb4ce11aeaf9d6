#!/usr/bin/env bash
# Fails if .ci/run leaves out a part for too long. Any three runs with numbers that
# follow one another must run each pair of a sanitizer and a folder. Each planted bug
# must be the first of one of any N runs, for N planted bugs.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
fail() {
  echo "ci_rotation.sh: $*" >&2
  exit 1
}
# Prints "<sanitizer> <folder>" for each pair of a run.
pairs() {
  TROUPE_CI_NUMBER=$1 .ci/run --list | sed -n 's|^\./test\.sh ||p' |
    awk '{ for (i = 2; i <= NF; ++i) print $1, $i }'
}

# AddressSanitizer runs on all folders with tests, but not on tests/allocation: the
# sanitizers replace malloc, too; nor on tests/cuda, which need a device.
# ThreadSanitizer runs on those of `./test.sh tsan`.
find tests -name '*_test.cpp' -o -name '*_fuzz.cpp' | cut -d / -f 2 | sort -u |
  sed -e '/^allocation$/d' -e '/^cuda$/d' -e 's/^/asan /' >"$scratch/wanted"
sed -n 's/^ *run_folders tsan \([a-z ]*\)$/\1/p' test.sh | tr ' ' '\n' |
  sed 's/^/tsan /' >>"$scratch/wanted"
[ "$(grep -c tsan "$scratch/wanted")" -ge 4 ] || fail "test.sh names no folders for tsan"
sort -o "$scratch/wanted" "$scratch/wanted"
for first in {0..3}; do
  for number in "$first" $((first + 1)) $((first + 2)); do pairs "$number"; done |
    sort >"$scratch/seen"
  diff "$scratch/wanted" "$scratch/seen" ||
    fail "runs $first to $((first + 2)) choose other pairs than those wanted"
done

basename -s .patch -a tests/simulation/planted/*.patch | sort >"$scratch/bugs"
runs=$(wc -l <"$scratch/bugs")
for ((number = 7; number < 7 + runs; ++number)); do
  list=$(TROUPE_CI_NUMBER=$number .ci/run --list)
  [[ $list == *"scripts/planted-bugs.sh --rotate $number "* ]] ||
    fail "run $number plants no bug"
  list=$(scripts/planted-bugs.sh --list "$number")
  echo "${list%%$'\n'*}"
done | sort -u >"$scratch/seen"
diff "$scratch/bugs" "$scratch/seen" || fail "$runs runs leave out a planted bug"

if TROUPE_CI_NUMBER=three .ci/run --list >"$scratch/list" 2>&1; then
  fail "a number that is no number is accepted"
fi
# Without a history, the day gives the number.
GIT_DIR=$scratch/none .ci/run --list >"$scratch/list" 2>&1 || fail "it needs git"
grep -q "^== run number [0-9]*$" "$scratch/list" || fail "there is no number without git"
echo "each pair is chosen in any three runs"
