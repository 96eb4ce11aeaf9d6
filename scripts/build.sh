# shellcheck shell=bash
# Other scripts source this file in the root folder. build <preset> [<target>...]
# configures and builds into build/<preset>. It prints the output of the
# configuration only if that fails. If the variables TROUPE_CUDA and
# TROUPE_CUDA_ARCHITECTURES are set, they replace the values of the preset.
build() {
  local preset=$1 log=build/$1/configure.log
  shift
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
    export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
  fi
  mkdir -p "build/$preset"
  echo "Building into build/$preset ..."
  if ! cmake --preset "$preset" ${TROUPE_PRECOMPILE:+-DTROUPE_PRECOMPILE="$TROUPE_PRECOMPILE"} \
    ${TROUPE_CUDA:+-DTROUPE_CUDA="$TROUPE_CUDA"} \
    ${TROUPE_CUDA_ARCHITECTURES:+-DTROUPE_CUDA_ARCHITECTURES="$TROUPE_CUDA_ARCHITECTURES"} \
    >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
