# shellcheck shell=bash
# Other scripts source this file in the root folder. build <preset> [<target>...]
# configures and builds into build/<preset>. It prints the output of the
# configuration only if that fails. If the variables TROUPE_CUDA and
# TROUPE_CUDA_ARCHITECTURES are set, they replace the values of the preset, unless it
# is that of a sanitizer.
build() {
  local preset=$1 log=build/$1/configure.log cuda=${TROUPE_CUDA-}
  shift
  if [[ $preset == ?san ]]; then cuda=OFF; fi
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
    export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
    # An object can be used in another checkout. Its debug information then names
    # the folder of the first one.
    export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
  fi
  mkdir -p "build/$preset"
  echo "Building into build/$preset ..."
  if ! cmake --preset "$preset" \
    ${cuda:+-DTROUPE_CUDA="$cuda"} \
    ${TROUPE_CUDA_ARCHITECTURES:+-DTROUPE_CUDA_ARCHITECTURES="$TROUPE_CUDA_ARCHITECTURES"} \
    >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
