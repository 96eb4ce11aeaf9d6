#!/usr/bin/env bash
# Interrupts runs of `troupe train` at random times, one in four by SIGTERM and
# the others by SIGINT. Each run has to end with exit code 130 (interrupted and
# saved) and leave the file interrupted.troupe. A run that resumes from this file
# has to end with the same weights_sha256 as an uninterrupted run. A run does not
# count if it ends before its interrupt, or is interrupted before training begins;
# the script then draws another time.
#
#   scripts/interrupts.sh [-n RUNS] [-w WORKERS] [-s SEED] [-l] [-- OPTION...]
#
#   -n RUNS      number of interrupted runs [20]
#   -w WORKERS   processes of each run; 0: one process without --workers [0]
#   -s SEED      seed of the times [random, and printed]
#   -l           long steps: about 2 s with two workers (lenet, batches of 2,400);
#                without -l, a whole run takes 1 to 5 s
#   -- OPTION... options of `troupe train` that replace the script's own options
#
# $TROUPE is the path of the tool [build/release/troupe].
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(realpath "${TROUPE-build/release/troupe}")
runs=20 workers=0 seed=$RANDOM
job=(--model mlp --data digits:2800 --batch 64 --epochs 20)
most_seconds=120 # limit of one run
while getopts n:w:s:l option; do
  case $option in
    n) runs=$OPTARG ;;
    w) workers=$OPTARG ;;
    s) seed=$OPTARG ;;
    l)
      job=(--model lenet --data digits:6000 --batch 2400 --epochs 2)
      most_seconds=1200
      ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -gt 0 ]; then job=("$@"); fi
if [ "$workers" -gt 0 ]; then job+=(--workers "$workers"); fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM=$seed

now() { echo $(($(date +%s%N) / 1000000)); } # in ms
hash_in() { sed -n 's/^weights_sha256 //p' "$1"; }

# Succeeds if the process runs the tool, no longer the shell that starts it, and
# has installed its signal handlers. The tool installs the handler of SIGTERM (bit
# 14) last.
has_handlers() {
  [ "$(readlink "/proc/$1/exe")" = "$tool" ] &&
    awk '/^SigCgt:/ { exit substr($2, length($2) - 3, 1) !~ /[4-7c-f]/ }' \
      "/proc/$1/status" 2>/dev/null
}

# Waits until a run has ended, and kills it after most_seconds.
# @returns the exit code of the run.
end_of() {
  local pid=$1 deadline=$(($(now) + most_seconds * 1000)) code=0
  while kill -0 "$pid" 2>/dev/null; do
    if [ "$(now)" -gt $deadline ]; then
      kill -KILL "$pid"
      echo "killed after $most_seconds s" >>err
    fi
    sleep 0.02
  done
  wait "$pid" || code=$?
  return $code
}

echo "troupe train ${job[*]}"
echo "seed $seed"
begin=$(now)
"$tool" train "${job[@]}" >out 2>err || {
  cat err >&2
  echo "the undisturbed run failed" >&2
  exit 1
}
span=$(($(now) - begin))
undisturbed=$(hash_in out)
echo "undisturbed: $span ms, weights_sha256 $undisturbed"

# Starts a run, interrupts it at a random time, and resumes it.
# @returns 0: passed, 1: failed, 2: does not count.
one_run() {
  local signal=INT after=$(((RANDOM * 32768 + RANDOM) % span)) code=0 pid
  if [ $((RANDOM % 4)) = 0 ]; then signal=TERM; fi
  rm -f interrupted.troupe
  "$tool" train "${job[@]}" >out 2>err &
  pid=$!
  until has_handlers $pid || ! kill -0 $pid 2>/dev/null; do sleep 0.005; done
  sleep "$(printf '%d.%03d' $((after / 1000)) $((after % 1000)))"
  kill -$signal $pid 2>/dev/null || true
  end_of $pid || code=$?
  printf 'SIG%s after %d ms: ' $signal $after
  case $code in
    0)
      echo "it had ended before; trying again"
      return 2
      ;;
    3)
      if [ -e interrupted.troupe ]; then
        echo "FAILED: exit code 3, but there is a file"
        return 1
      fi
      echo "training had not begun; trying again"
      return 2
      ;;
    130) ;;
    *)
      echo "FAILED: exit code $code: $(tail -n 1 err)"
      return 1
      ;;
  esac
  if [ ! -e interrupted.troupe ]; then
    echo "FAILED: exit code 130, but no file: $(tail -n 1 err)"
    return 1
  fi
  printf '%s: ' "$(sed -n 's/^\(interrupted after step [0-9]*\).*/\1/p' err)"
  code=0
  "$tool" train --resume interrupted.troupe >out 2>err &
  end_of $! || code=$?
  if [ $code != 0 ]; then
    echo "FAILED: resumed, exit code $code: $(tail -n 1 err)"
    return 1
  fi
  if [ "$(hash_in out)" != "$undisturbed" ]; then
    echo "FAILED: resumed, weights_sha256 $(hash_in out)"
    return 1
  fi
  echo "same weights"
}

passed=0 failed=0 draws=0
while [ $((passed + failed)) -lt "$runs" ]; do
  draws=$((draws + 1))
  if [ $draws -gt $((20 * runs)) ]; then
    echo "$draws interrupts, and too few of them arrived during training" >&2
    break
  fi
  result=0
  one_run || result=$?
  case $result in
    0) passed=$((passed + 1)) ;;
    1) failed=$((failed + 1)) ;;
  esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
