#!/usr/bin/env bash
# Checks Troupe on a machine with a CUDA device: the tests that need one, some of them
# again with compute-sanitizer if it is installed, and the speed of training, beside
# PyTorch if that is installed.
#
#   scripts/gpu-check.sh                 builds the preset `cuda` and runs the checks
#   scripts/gpu-check.sh --bundle DIR    makes a folder with the programs and all
#                                        libraries but the driver, CUDA, cuDNN and NCCL
#   DIR/gpu-check.sh                     runs the checks with the programs of that folder,
#                                        on any x86-64 distribution
#
#   --quick    PyTorch is compiled only for large batches
#   --alone    without PyTorch
#
# It takes less than 10 minutes, without the build. The last lines are the table of
# docs/gpu.md. The exit code is 1 if a test fails or a model
# cannot be timed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(cuda_tests bench_train bench_memory troupe)

usage() {
  echo "usage: gpu-check.sh [--bundle DIR] [--quick] [--alone]" >&2
  exit 2
}
quick='' alone='' bundle=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --alone) alone=yes ;;
    --bundle)
      [ $# -ge 2 ] || usage
      bundle=$2
      shift
      ;;
    *) usage ;;
  esac
  shift
done

build_programs() {
  # shellcheck source=scripts/build.sh
  . scripts/build.sh
  build cuda cuda_tests bench_train bench_memory troupe_tool >&2 || exit 1
}
path_of() {
  find build/cuda -maxdepth 2 -type f -name "$1" -perm -u+x | head -1
}

# -- a folder that runs elsewhere ---------------------------------------------------

# Libraries of glibc are in a folder of their own: where the machine has a newer glibc,
# that one is used.
make_bundle() {
  local into=$1 program file
  mkdir -p "$into/bin" "$into/lib/glibc" "$into/peers" || exit 1
  for program in "${programs[@]}"; do
    strip -o "$into/bin/$program" "$(path_of "$program")" || exit 1
    while read -r file; do
      case $(basename "$file") in
        ld-linux* | libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so*)
          cp -Lu "$file" "$into/lib/glibc/" ;;
        *) cp -Lu "$file" "$into/lib/" ;;
      esac
    done < <(ldd "$(path_of "$program")" | grep -o '/[^ ]*')
  done
  cp benchmarks/peers/torch_train.py benchmarks/peers/torch_models.py "$into/peers/"
  cp scripts/gpu-check.sh "$into/"
  du -sm "$into" | awk '{print "the bundle has " $1 " MiB"}'
}

# -- programs -----------------------------------------------------------------------

# Folders of CUDA's libraries: those that came with PyTorch, which are often newer, and
# those of the machine.
cuda_folders() {
  python3 - <<'EOF' 2>/dev/null
import glob, site, sysconfig
roots = {sysconfig.get_paths()["purelib"], *site.getsitepackages()}
for folder in sorted({f for r in roots for f in glob.glob(r + "/nvidia/*/lib")}):
    print(folder, end=":")
EOF
  printf '%s:%s' /usr/local/nvidia/lib64 /usr/local/cuda/lib64
}

# Sets prefix, the words before the name of a program, and bin, its folder.
choose_programs() {
  local libraries=${LD_LIBRARY_PATH-}:$folders
  if [ ! -d "$here/bin" ]; then
    prefix=(env "LD_LIBRARY_PATH=$libraries")
    return
  fi
  prefix=(env "LD_LIBRARY_PATH=$here/lib:$libraries")
  if ! "${prefix[@]}" "$here/bin/troupe" --version >/dev/null 2>&1; then
    prefix=("$here/lib/glibc/ld-linux-x86-64.so.2"
      --library-path "$here/lib:$here/lib/glibc:$libraries")
  fi
}
run_program() {
  local program=$1
  shift
  if [ -d "$here/bin" ]; then program=$here/bin/$program; else program=$(path_of "$program"); fi
  "${prefix[@]}" "$program" "$@"
}

# -- the checks ---------------------------------------------------------------------

# sanitize <tool> <filter>
sanitize() {
  local log
  if ! command -v compute-sanitizer >/dev/null || [ "${prefix[0]}" != env ]; then
    echo "== without compute-sanitizer --tool $1, which needs the glibc of the machine"
    return
  fi
  log=$(mktemp)
  local before=("${prefix[@]}")
  prefix=("${prefix[@]}" compute-sanitizer --tool "$1" --error-exitcode 9)
  echo "== compute-sanitizer --tool $1"
  if ! run_program cuda_tests --gtest_brief=1 --gtest_filter="$2" >"$log" 2>&1; then
    failed=1
    grep -v '^ *$' "$log" | tail -n 40
  fi
  tail -n 1 "$log"
  prefix=("${before[@]}")
  rm "$log"
}

rate() {
  sed -n 's/.*"examples_per_s": *\([0-9.e+]*\).*/\1/p' | tail -n 1 | awk '{ printf "%.0f", $1 }'
}

# graphs <model> <batch>: prints a line of the table of graphs.
graphs() {
  local without with
  without=$(run_program bench_train --model "$1" --batch "$2" --device gpu:0 \
    --strategy one_device --windows 5 --window-s 0.2 --json | rate)
  with=$(run_program bench_train --model "$1" --batch "$2" --device gpu:0 \
    --strategy one_device --graph --windows 5 --window-s 0.2 --json | rate)
  if [ -z "$without" ] || [ -z "$with" ]; then failed=1; fi
  echo "| $1, $2 | ${without:-failed} | ${with:-failed} |"
}

# bench <model> <batch> <precision>: prints a line of the table.
bench() {
  local model=$1 batch=$2 precision=$3 ours peer best=0 mode line modes='eager fused compile'
  ours=$(run_program bench_train --model "$model" --batch "$batch" --device gpu:0 \
    --strategy one_device --precision "$precision" --windows 5 --window-s 0.2 --json | rate)
  if [ -z "$ours" ]; then failed=1; fi
  line="| $model, $batch, $precision | ${ours:-failed}"
  if [ -n "$quick" ] && [ "$batch" -lt 1024 ]; then modes='eager fused'; fi
  for mode in $modes; do
    if [ -z "$peers" ]; then break; fi
    peer=$(python3 "$peers/torch_train.py" --model "$model" --batch "$batch" \
      --precision "$precision" --device cuda --mode "$mode" --windows 5 --window_s 0.2 \
      2>/dev/null | rate)
    line="$line | ${peer:-failed}"
    if [ -n "$peer" ] && [ "$peer" -gt "$best" ]; then best=$peer; fi
  done
  if [ "$modes" = 'eager fused' ] && [ -n "$peers" ]; then line="$line | "; fi
  if [ "$best" -gt 0 ]; then
    line="$line | $(awk -v a="${ours:-0}" -v b="$best" 'BEGIN { printf "%.2f", a / b }')"
  fi
  echo "$line |"
}

# memory <model> <batch>: prints a line of the table of memory.
memory() {
  local found number='\([0-9.e+]*\)'
  found=$(run_program bench_memory --model "$1" --batch "$2" --device gpu:0 \
    --strategy one_device --json |
    sed -n "s/.*\"formula_mib\":$number.*\"peak_mib\":$number.*/\2 \1/p")
  if [ -z "$found" ]; then failed=1; fi
  awk -v name="$1, $2" '{ printf "| %s | %.1f | %.1f | %.2f |\n", name, $1, $2, $1 / $2 }' \
    <<<"${found:-0 1}"
}

if [ -n "$bundle" ]; then
  cd "$here/.." || exit 1
  build_programs
  make_bundle "$bundle"
  exit
fi
peers=''
if [ -d "$here/bin" ]; then
  peers=$here/peers
else
  cd "$here/.." || exit 1
  build_programs
  peers=benchmarks/peers
fi
if [ -n "$alone" ] || ! python3 -c 'import torch' 2>/dev/null; then peers=''; fi
folders=$(cuda_folders)
choose_programs

failed=0
devices=$(run_program troupe devices)
if ! grep cuda: <<<"$devices"; then
  echo "gpu-check.sh: this machine has no CUDA device, or no driver for it" >&2
  exit 1
fi
echo "== tests"
run_program cuda_tests --gtest_brief=1 || failed=1
sanitize memcheck '*.AgreeWithTheReference/*:OnACard.ALoopOfOnesOwnTrains'
sanitize racecheck '*.AgreeWithTheReference/reduce*:*.AgreeWithTheReference/softmax*:*.AgreeWithTheReference/dense'

echo "== speed"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
if [ -n "$peers" ]; then python3 -c 'import torch; print("PyTorch", torch.__version__)'; fi
echo
if [ -n "$peers" ]; then
  echo "| model, batch, precision | Troupe, examples/s | PyTorch eager | fused | compiled | Troupe / best |"
  echo "|---|---|---|---|---|---|"
else
  echo "| model, batch, precision | Troupe, examples/s |"
  echo "|---|---|"
fi
for precision in float32 bf16; do
  bench mlp 64 $precision
  bench mlp 4096 $precision
  bench lenet 64 $precision
  bench lenet 1024 $precision
done

echo
echo "| model, batch | examples/s | with graphs of steps |"
echo "|---|---|---|"
for model in mlp lenet; do
  graphs "$model" 64
done

echo
echo "| model, batch | memory of tensors on the device, MiB | by the formula of docs/performance.md, MiB | ratio |"
echo "|---|---|---|---|"
for model in mlp lenet; do
  for batch in 64 4096; do memory "$model" "$batch"; done
done
exit $failed
