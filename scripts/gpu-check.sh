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
# Several workers also train on the one card, each as a rank of NCCL, with and without
# killed and stopped workers, and must have the weights of one process.
#
#   --ranks    only the tests of graphs and NCCL, and these trainings
#
# It takes less than 15 minutes, without the build. The last lines are the table of
# docs/gpu.md. The exit code is 1 if a test fails, weights differ or a model
# cannot be timed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(cuda_tests bench_train bench_memory troupe)

usage() {
  echo "usage: gpu-check.sh [--bundle DIR] [--quick] [--alone] [--ranks]" >&2
  exit 2
}
quick='' alone='' bundle='' ranks=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --alone) alone=yes ;;
    --ranks) ranks=yes ;;
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
file_of() {
  if [ -d "$here/bin" ]; then echo "$here/bin/$1"; else path_of "$1"; fi
}
run_program() {
  local program=$1
  shift
  "${prefix[@]}" "$(file_of "$program")" "$@"
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

# -- several ranks on one card ------------------------------------------------------

hash_of() { sed -n 's/.*weights_sha256 \([0-9a-f]*\).*/\1/p' | sort -u; }

# train_ranks <workers> <options of launch> -- <options of train>: trains with workers
# that share the card. NCCL takes processes with different values of NCCL_HOSTID for
# those of different hosts, which may have the same card.
train_ranks() {
  local workers=$1 launch=()
  shift
  while [ "$1" != -- ]; do
    launch+=("$1")
    shift
  done
  shift
  # shellcheck disable=SC2016 # the shell of the worker expands it
  NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 NCCL_DEBUG=WARN \
    timeout 120 "${prefix[@]}" "$(file_of troupe)" launch -n "$workers" "${launch[@]}" -- \
    bash -c 'export NCCL_HOSTID=$(printf %s "$TF_CONFIG" | md5sum | cut -c1-8); exec "$@"' - \
    "${prefix[@]}" "$(file_of troupe)" train --strategy multi_worker_mirrored \
    --devices gpu:0 --collectives nccl --model lenet --data digits:1920 --epochs 2 "$@"
}

# expect_hash <what> <hash> <log>: fails if a log has another hash, or the host added.
expect_hash() {
  local found
  found=$(hash_of <"$3")
  if [ -n "$2" ] && [ "$found" = "$2" ] && ! grep -q 'the host adds' "$3"; then
    echo "ok: $1"
  else
    failed=1
    echo "FAILED: $1: weights '$found' in place of '$2'"
    tail -n 20 "$3"
  fi
}

check_ranks() {
  local log expected first again workers plan
  log=$(mktemp) plan=$(mktemp)
  echo "== several ranks of NCCL on one card"
  for workers in 2 4; do
    expected=$(run_program troupe train --devices gpu:0 --replicas "$workers" --model lenet \
      --data digits:1920 --epochs 2 | hash_of)
    train_ranks "$workers" -- >"$log" 2>&1
    expect_hash "$workers workers" "$expected" "$log"
    if [ "$workers" -eq 2 ]; then first=$expected; fi
  done
  train_ranks 2 -- --precision bf16 >"$log" 2>&1
  again=$(hash_of <"$log")
  train_ranks 2 -- --precision bf16 >"$log" 2>&1
  expect_hash "two workers with bf16, twice" "$again" "$log"
  for step in 20 21 22 23; do
    echo '{"seed": 7, "faults": [{"kind": "kill", "process": 1, "step": '"$step"'},
      {"kind": "stop", "process": 0, "step": 40, "duration_ms": 5000}]}' >"$plan"
    train_ranks 2 --restarts 2 --faults "$plan" -- >"$log" 2>&1
    expect_hash "a worker is killed in step $step, and one stopped" "$first" "$log"
    grep -q 'faults: 2 of 2' "$log" || {
      failed=1
      echo "FAILED: not all faults occurred"
    }
  done
  rm "$log" "$plan"
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
if [ -n "$ranks" ]; then
  run_program cuda_tests --gtest_brief=1 --gtest_filter='OnACard.*Graph*:OnACard.*Nccl*:NcclOnACard.*' ||
    failed=1
  check_ranks
  exit $failed
fi
run_program cuda_tests --gtest_brief=1 || failed=1
check_ranks
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
