#!/usr/bin/env bash
# Checks Troupe on a machine with a CUDA device: all tests that need one, and a
# comparison of speed with PyTorch, if it is installed.
#
#   scripts/gpu-check.sh                 builds the preset `cuda` and runs the checks
#   scripts/gpu-check.sh --bundle DIR    makes a folder with the programs and all
#                                        libraries but the driver, CUDA, cuDNN and NCCL
#   DIR/gpu-check.sh                     runs the checks with the programs of that folder,
#                                        on any x86-64 distribution
#
# With --quick, each case is timed for a shorter time, and PyTorch is not compiled.
# The last lines are the table of docs/gpu.md. The exit code is 1 if a test fails.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(cuda_tests bench_train troupe)

usage() {
  echo "usage: gpu-check.sh [--bundle DIR | --quick]" >&2
  exit 2
}
quick='' bundle=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --bundle)
      [ $# -ge 2 ] || usage
      bundle=$2
      shift
      ;;
    *) usage ;;
  esac
  shift
done

# Builds the programs; prints the folder of each.
build_programs() {
  . scripts/build.sh
  build cuda cuda_tests bench_train troupe_tool >&2 || exit 1
}
path_of() {
  find build/cuda -maxdepth 2 -type f -name "$1" -perm -u+x | head -1
}

# -- a folder that runs elsewhere ---------------------------------------------------

make_bundle() {
  local into=$1 program file
  mkdir -p "$into/bin" "$into/lib" "$into/peers" || exit 1
  for program in "${programs[@]}"; do
    strip -o "$into/bin/$program" "$(path_of "$program")" || exit 1
    while read -r file; do
      cp -Lu "$file" "$into/lib/"
    done < <(ldd "$(path_of "$program")" | grep -o '/[^ ]*')
  done
  strip --strip-unneeded "$into"/lib/libdnnl* 2>/dev/null
  cp benchmarks/peers/torch_train.py benchmarks/peers/torch_models.py "$into/peers/"
  cp scripts/gpu-check.sh "$into/"
  du -sm "$into" | awk '{print "the bundle has " $1 " MiB"}'
}

# -- the checks ---------------------------------------------------------------------

# Folders of CUDA's libraries: those of the machine, and those that came with PyTorch.
cuda_folders() {
  printf '%s:' /usr/local/nvidia/lib64 /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu
  python3 - <<'EOF' 2>/dev/null
import glob, site, sysconfig
roots = {sysconfig.get_paths()["purelib"], *site.getsitepackages()}
print(":".join(sorted({f for r in roots for f in glob.glob(r + "/nvidia/*/lib")})), end="")
EOF
}

# Runs a program of the bundle, or of the build folder.
run_program() {
  local program=$1
  shift
  if [ -d "$here/bin" ]; then
    "$here/lib/ld-linux-x86-64.so.2" \
      --library-path "$here/lib:${LD_LIBRARY_PATH-}:$folders" "$here/bin/$program" "$@"
  else
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}:$folders" "$(path_of "$program")" "$@"
  fi
}

# bench <model> <batch> <precision>: prints one line of the table.
bench() {
  local model=$1 batch=$2 precision=$3 ours peer best=0 mode line=''
  local window=0.5 modes='eager fused compile'
  [ -n "$quick" ] && window=0.2 modes='eager fused'
  ours=$(run_program bench_train --model "$model" --batch "$batch" --device gpu:0 \
    --strategy one_device --precision "$precision" --windows 5 --window-s $window --json |
    rate)
  line="| $model, $batch, $precision | ${ours:-failed}"
  if [ -n "$peers" ]; then
    for mode in $modes; do
      peer=$(python3 "$peers/torch_train.py" --model "$model" --batch "$batch" \
        --precision "$precision" --device cuda --mode "$mode" --windows 5 \
        --window_s $window 2>/dev/null | rate)
      line="$line | ${peer:-failed}"
      [ -n "$peer" ] && [ "${peer%.*}" -gt "${best%.*}" ] && best=$peer
    done
    line="$line | $(awk -v a="${ours:-0}" -v b="$best" 'BEGIN { printf "%.2fx", b ? a / b : 0 }')"
  fi
  echo "$line |"
}
rate() { sed -n 's/.*"examples_per_s": *\([0-9.e+]*\).*/\1/p' | tail -1 | awk '{printf "%.0f", $1}'; }

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
python3 -c 'import torch' 2>/dev/null || peers=''
folders=$(cuda_folders)

failed=0
echo "== tests"
run_program cuda_tests --gtest_brief=1 || failed=1
echo "== speed"
if nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null; then :; fi
[ -n "$peers" ] && python3 -c 'import torch; print("PyTorch", torch.__version__)'
echo
echo "| model, batch, precision | examples/s | PyTorch eager | fused | compiled | ratio to the best |"
echo "|---|---|---|---|---|---|"
for precision in float32 bf16; do
  bench mlp 64 $precision
  bench mlp 4096 $precision
  bench lenet 64 $precision
  bench lenet 1024 $precision
done
exit $failed
