#!/usr/bin/env bash
# Checks that tests under random faults find bugs. Each patch of
# tests/simulation/planted/ plants a bug, and names tests that find it:
#
#   Found-by: [<program>:]<tests>    simulation_tests unless another is named
#
# These tests have to fail with the patch and to pass without it.
#
#   scripts/planted-bugs.sh [<patch>...]    the named patches, or all
#   scripts/planted-bugs.sh --check         only checks that all patches apply
#   scripts/planted-bugs.sh --rotate <number> <seconds>
#                                           as many patches as fit into the time,
#                                           at least one; numbers that follow one
#                                           another choose different patches
#   scripts/planted-bugs.sh --list <number>  the order that --rotate uses
#   scripts/planted-bugs.sh --simulate [<patch>...]
#                                           runs simulations instead of tests, with the
#                                           patches that have a line "Simulated-by:
#                                           recovery" (simulate_recovery) or "Simulated-by:
#                                           <protocol>" (simulate_parameter_servers). They
#                                           have to find each bug within 10,000 jobs. The
#                                           seed has to find the bug again, but only with
#                                           the patch
#
# The script changes neither the source tree nor the objects of build/<preset>, so
# there is nothing to restore if it is interrupted. It copies the patched files to
# build/planted/<patch>, and compiles the files that include them, with the
# compiler commands of build/<preset>. Then it links these objects instead of those
# of build/<preset>. The preset is TROUPE_PRESET, or dev. The last line is
# "planted bugs: N found, N not found".
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/build.sh
. scripts/build.sh

root=$PWD
preset=${TROUPE_PRESET-dev}
export TROUPE_ALL_SEEDS=1
built=build/$preset
into=$root/build/planted
mapfile -t patches < <(printf '%s\n' "$root"/tests/simulation/planted/*.patch)

# Applies a patch in the current folder. With -C1, one line of context is enough, so
# that a patch still applies after other changes nearby.
plant() { GIT_CEILING_DIRECTORIES=$root/build git apply -C1 "$@"; }

# The object files of the build that depend on one of the named source files.
dependents() {
  ninja -C "$built" -t deps | awk -v names="$*" '
    BEGIN { count = split(names, name, " ") }
    /^[^ ]/ { object = $1; sub(/:$/, "", object); next }
    {
      for (i = 1; i <= count; ++i) {
        rest = length($1) - length(name[i])
        if (rest > 0 && substr($1, rest) == "/" name[i]) print object
      }
    }' | sort -u
}

# build_planted <patch> <folder> <program>: compiles and links <folder>/<program>.
build_planted() {
  local patch=$1 folder=$2 program=$3 file files object command source link
  local compile=() library=()
  mapfile -t files < <(sed -n 's/^+++ b\///p' "$patch")
  rm -rf "$folder"
  for file in "${files[@]}"; do
    mkdir -p "$folder/include/troupe/$(dirname "$file")"
    cp "$file" "$folder/include/troupe/$file"
  done
  (cd "$folder/include/troupe" && plant "$patch") || return 1

  ninja -C "$built" -t commands "$program" >"$folder/commands"
  link=$(tail -n 1 "$folder/commands")
  link=${link#: && }
  link=${link%% && *}
  for object in $(dependents "${files[@]}"); do
    command=$(grep -F -m 1 -e " -o $object -c " "$folder/commands") || continue
    command=${command/ -MD -MT * -o / -o }
    command=${command/ -I/ -I$folder/include -I}
    command=${command/ -o $object -c / -o $folder/$object -c }
    for file in "${files[@]}"; do
      command=${command/ -c $root\/$file/ -c $folder/include/troupe/$file}
    done
    mkdir -p "$folder/$(dirname "$object")"
    source=${command##* -c }
    if [[ $source == */Unity/* ]]; then # it includes the files by their paths
      cp "$source" "$folder/$object.cxx"
      for file in "${files[@]}"; do
        sed -i "s|\"$root/$file\"|\"$folder/include/troupe/$file\"|" "$folder/$object.cxx"
      done
      command=${command/ -c $source/ -c $folder/$object.cxx}
    fi
    compile+=("cd $root/$built && $command")
    case $object in
      */${program##*/}.dir/*) link=${link/ $object / $folder/$object } ;;
      # The linker takes no member of a library whose functions are all defined.
      *) library+=("$folder/$object") ;;
    esac
  done
  if [ ${#compile[@]} -eq 0 ]; then
    echo "planted-bugs.sh: no object of $program depends on ${files[*]}" >&2
    return 1
  fi
  mkdir -p "$folder/$(dirname "$program")"
  link=${link/ -o $program / ${library[*]} -o $folder/$program }
  printf '%s\n' "${compile[@]}" | xargs -d '\n' -P "$(nproc)" -n 1 bash -c || return 1
  (cd "$built" && bash -c "$link")
}

# Runs one patch. It fails if the tests do not find the bug.
run_patch() {
  local patch=$1 name found_by program=simulation_tests filter folder started=$SECONDS
  name=$(basename "$patch" .patch)
  found_by=$(sed -n 's/^Found-by: //p' "$patch")
  filter=${found_by#*:}
  [ "$filter" = "$found_by" ] || program=${found_by%%:*}
  folder=$into/$name
  if ! "$built/$program" --gtest_filter="$filter" >"$into/log" 2>&1 ||
    ! grep -q '^\[  PASSED  \] [1-9]' "$into/log"; then
    cat "$into/log" >&2
    echo "planted-bugs.sh: $filter fails without any patch, or names no test" >&2
    return 1
  fi
  if ! build_planted "$patch" "$folder" "$program" >"$into/log" 2>&1; then
    cat "$into/log" >&2
    echo "planted-bugs.sh: $name does not build" >&2
    return 1
  fi
  if "$folder/$program" --gtest_filter="$filter" --gtest_fail_fast \
    >"$into/log" 2>&1; then
    echo "NOT FOUND  $name, by $filter" >&2
    return 1
  fi
  # A crash is a find, too; then there may be no line with a seed.
  echo "found      $name: $(grep -m 1 '^seed ' "$into/log" || tail -n 1 "$into/log")" \
    "($((SECONDS - started)) s)"
  rm -rf "$folder"
}

# The program that simulates what a patch changes.
simulation_of() {
  if grep -q -x 'Simulated-by: recovery' "$1"; then
    echo simulate_recovery
  else
    echo simulate_parameter_servers
  fi
}

# Runs the simulation with one patch. It fails if it does not find the bug, or if
# its seed does not find it again, or finds something without the patch.
simulate_patch() {
  local patch=$1 name folder simulation options found seed started=$SECONDS
  name=$(basename "$patch" .patch)
  folder=$into/$name
  simulation=benchmarks/$(simulation_of "$patch")
  if [ "$simulation" = benchmarks/simulate_recovery ]; then
    options=(--processes 1)
  else
    options=(--protocol "$(sed -n 's/^Simulated-by: //p' "$patch")" --threads 1)
  fi
  options+=(--max-failures 1)
  if ! build_planted "$patch" "$folder" "$simulation" >"$into/log" 2>&1; then
    cat "$into/log" >&2
    echo "planted-bugs.sh: $name does not build" >&2
    return 1
  fi
  if "$folder/$simulation" "${options[@]}" --jobs 10000 >"$into/log" 2>&1 ||
    ! found=$(grep -m 1 '^seed ' "$into/log"); then
    echo "NOT FOUND  $name, by $simulation ${options[*]} --jobs 10000" >&2
    return 1
  fi
  seed=${found#seed }
  seed=${seed%%:*}
  "$folder/$simulation" "${options[@]}" --jobs 1 --seed "$seed" >"$into/log" 2>&1 || true
  if ! grep -q -x -F -e "$found" "$into/log"; then
    echo "planted-bugs.sh: $name is not found again by seed $seed" >&2
    return 1
  fi
  if ! "$built/$simulation" "${options[@]}" --jobs 1 --seed "$seed" >"$into/log" 2>&1; then
    cat "$into/log" >&2
    echo "planted-bugs.sh: seed $seed fails without any patch" >&2
    return 1
  fi
  echo "found      $name: $found ($((SECONDS - started)) s)"
  rm -rf "$folder"
}

# Sets the order of the patches for a number.
rotate() {
  local number=$1 count=${#patches[@]} first
  first=$((number % count))
  patches=("${patches[@]:first}" "${patches[@]:0:first}")
}

seconds=0 run=run_patch
case ${1-} in
  --check)
    for patch in "${patches[@]}"; do
      plant --check "$patch" || {
        echo "planted-bugs.sh: $patch does not apply; make it anew" >&2
        exit 1
      }
    done
    exit 0
    ;;
  --list)
    rotate "$2"
    basename -a -s .patch "${patches[@]}"
    exit 0
    ;;
  --rotate)
    rotate "$2"
    seconds=$3
    ;;
  --simulate)
    shift
    run=simulate_patch
    [ $# -eq 0 ] || mapfile -t patches < <(realpath "$@")
    mapfile -t patches < <(grep -l '^Simulated-by: ' "${patches[@]}")
    ;;
  ?*) mapfile -t patches < <(realpath "$@") ;;
esac

mkdir -p "$into"
if [ $run = run_patch ]; then
  mapfile -t programs < <(sed -n 's/^Found-by: \([a-z_]*\):.*/\1/p' "${patches[@]}" | sort -u)
  programs+=(simulation_tests)
else
  mapfile -t programs < <(for patch in "${patches[@]}"; do simulation_of "$patch"; done | sort -u)
fi
build "$preset" "${programs[@]}" >"$into/log" 2>&1 || {
  cat "$into/log" >&2
  echo "planted-bugs.sh: the tree does not build" >&2
  exit 1
}
begin=$SECONDS found=0 missed=0 longest=0
for patch in "${patches[@]}"; do
  started=$SECONDS
  if [ "$seconds" -gt 0 ] && [ $((found + missed)) -gt 0 ] &&
    [ $((started - begin + longest)) -gt "$seconds" ]; then
    break
  fi
  if $run "$patch"; then found=$((found + 1)); else missed=$((missed + 1)); fi
  if [ $((SECONDS - started)) -gt $longest ]; then longest=$((SECONDS - started)); fi
done
echo "planted bugs: $found found, $missed not found"
[ "$missed" -eq 0 ]
