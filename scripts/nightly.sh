#!/usr/bin/env bash
# Runs what takes too long for .ci/run, one after the other:
#
#   1. all tests, without sanitizers and with each, with all seeds of the tests under
#      random faults (TROUPE_ALL_SEEDS)
#   2. all planted bugs
#   3. 500 trainings and 200 runs of closures over processes with random faults
#
# It takes several hours. An argument is the first seed of the third step; without,
# the number of days since 1970-01-01 chooses it. It continues after a failure, and
# its exit status is 1 if one occurred.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export TROUPE_ALL_SEEDS=1 TROUPE_PRESET=unity
seed=${1-$(($(date +%s) / 86400 * 1000))}
status=0
step() {
  echo "== $*"
  "$@" || { status=1 && echo "== failed: $*"; }
}

step ./test.sh all
step scripts/planted-bugs.sh
step scripts/fault-runs.py --runs 500 --seed "$seed" --tool build/unity/troupe
step scripts/closure-runs.py --runs 200 --seed "$seed" --build build/unity
step scripts/closure-runs.py --runs 20 --copies 2 --seed "$seed" --build build/unity
exit $status
