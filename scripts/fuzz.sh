#!/usr/bin/env bash
# scripts/fuzz.sh [--keep] [SECONDS] [TARGET...]
#
# Fuzzes all targets of tests/fuzz, or the named ones, for SECONDS each (default:
# 60), and prints a table. The column "cpu s" shows how much processor time a
# target got; on a busy machine, that is less than SECONDS. Failing inputs go to
# build/fuzz/found/<target>, and the exit code is then 1. Inputs that reach new
# code go to build/fuzz/inputs/<target>, and the next call starts from them.
# --keep replaces the corpus in tests/fuzz/corpus by few inputs with the same
# coverage, at most 30 and 100,000 bytes per target. Needs Debian's clang and
# libclang-rt-14-dev.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.sh
limits=(-rss_limit_mb=1024 -timeout=30 -max_len=8192)
export ASAN_OPTIONS=${ASAN_OPTIONS-quarantine_size_mb=16:detect_leaks=1}
most_kept=30 most_kept_bytes=100000

keep=no
if [ "${1-}" = --keep ]; then keep=yes && shift; fi
seconds=60
if [[ "${1-}" =~ ^[0-9]+$ ]]; then seconds=$1 && shift; fi
targets=("$@")
if [ $# -eq 0 ]; then
  mapfile -t targets < <(basename -a -s _fuzz.cpp tests/fuzz/*_fuzz.cpp)
fi
for target in "${targets[@]}"; do
  if [ ! -f "tests/fuzz/${target}_fuzz.cpp" ]; then
    echo "fuzz.sh: no target '$target'; the targets are:" \
      $(basename -a -s _fuzz.cpp tests/fuzz/*_fuzz.cpp) >&2
    exit 2
  fi
done
if ! command -v clang++ >/dev/null; then
  echo "fuzz.sh: there is no clang++; install Debian's packages clang and" \
    "libclang-rt-14-dev" >&2
  exit 1
fi

stat_of() { sed -n "s/^stat::$2: *//p" "$1"; }

# Runs one target; prints its line of the table.
fuzz() {
  local target=$1 dir=build/fuzz program=build/fuzz/fuzz_$1
  local inputs=$dir/inputs/$1 found=$dir/found/$1 log=$dir/$1.log
  rm -rf "$found"
  mkdir -p "$inputs" "$found" "tests/fuzz/corpus/$target"
  "$program" --seeds "$dir/seeds/$target"
  local runs cpu reached corpus TIMEFORMAT='%U %S'
  cpu=$({ time nice -n 19 "$program" "${limits[@]}" \
    -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$found/" "$inputs" "tests/fuzz/corpus/$target" \
    "$dir/seeds/$target" >"$log" 2>&1 || true; } 2>&1)
  cpu=$(awk '{ print int($1 + $2) }' <<<"$cpu")
  runs=$(stat_of "$log" number_of_executed_units)
  reached=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | tr -dc 0-9 || true)
  corpus=$(grep -o 'corp: [0-9]*' "$log" | tail -1 | tr -dc 0-9 || true)
  printf '%-12s %12s %8s %8s %8s %9s\n' "$target" "${runs:-?}" "$cpu" \
    "${corpus:-?}" "${reached:-?}" "$(find "$found" -type f | wc -l)"
}

keep_smallest() {
  local dir=build/fuzz kept=tests/fuzz/corpus/$1 fewest=build/fuzz/kept/$1
  rm -rf "$fewest" && mkdir -p "$fewest"
  # -use_counters=0: covered edges count, not how often they are reached.
  nice -n 19 "$dir/fuzz_$1" "${limits[@]}" -set_cover_merge=1 -use_counters=0 \
    "$fewest" "$kept" "$dir/seeds/$1" "$dir/inputs/$1" >"$dir/$1.merge.log" 2>&1
  rm -rf "$kept" && mkdir -p "$kept"
  local name bytes=0 count=0
  while read -r size name; do
    if [ $count -ge $most_kept ] || [ $((bytes + size)) -gt $most_kept_bytes ]; then
      continue
    fi
    bytes=$((bytes + size)) count=$((count + 1))
    cp "$name" "$kept/"
  done < <(find "$fewest" -type f -printf '%s %p\n' | sort -nr)
  echo "$kept: $(find "$kept" -type f | wc -l) of" \
    "$(find "$fewest" -type f | wc -l) inputs kept," \
    "$(cat "$kept"/* | wc -c) bytes"
}

build fuzz fuzzers >build/fuzz.log || { cat build/fuzz.log >&2; exit 1; }
printf '%-12s %12s %8s %8s %8s %9s\n' target executions "cpu s" corpus edges findings
for target in "${targets[@]}"; do fuzz "$target"; done
if [ $keep = yes ]; then
  for target in "${targets[@]}"; do keep_smallest "$target"; done
fi
for target in "${targets[@]}"; do
  find "build/fuzz/found/$target" -type f
done | { ! grep .; }
