#!/usr/bin/env bash
# Compiles the libraries for arm64 on an x86-64 machine, into build/arm64, and stops
# at the first error. With arguments, builds only these targets of CMake. No test
# runs.
#
# The compiler is Debian's g++-aarch64-linux-gnu. apt downloads the libraries for
# arm64 with a configuration of its own, and the script unpacks them to
# build/arm64-root. It changes nothing under /etc or /var and needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build/arm64-root
work=$PWD/build/arm64-work
compiler=aarch64-linux-gnu-g++
if ! command -v $compiler >/dev/null; then
  echo "cross-arm64.sh: $compiler is missing; install it with" \
    "apt-get install g++-aarch64-linux-gnu" >&2
  exit 1
fi

apt() {
  apt-get -q -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" \
    -o Dir::Cache="$work/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# The packages of packages.txt that contain headers or libraries.
libraries() { sed -n 's/^\(lib.*-dev\|nlohmann-json3-dev\|zlib1g-dev\)$/\1/p' packages.txt; }

if [ ! -f "$root/complete" ]; then
  echo "Downloading the libraries for arm64 (once) ..."
  rm -rf "$root" "$work"
  mkdir -p "$root" "$work/lists/partial" "$work/cache/archives/partial" "$work/packages"
  : >"$work/status" # no package counts as installed
  apt update >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; exit 1; }
  mapfile -t packages < <(libraries)
  mapfile -t packages < <(apt install -s --no-install-recommends "${packages[@]}" \
    libgomp1 libstdc++-12-dev | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
  [ ${#packages[@]} -gt 0 ] || { echo "cross-arm64.sh: apt finds no packages" >&2; exit 1; }
  (cd "$work/packages" && apt download "${packages[@]}") >"$work/apt.log" 2>&1 ||
    { cat "$work/apt.log" >&2; exit 1; }
  for package in "$work"/packages/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$work"
  touch "$root/complete"
fi

export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-$(command -v ccache || true)}
cmake -S . -B build/arm64 -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DTROUPE_BENCHMARKS=OFF -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_SYSROOT="$root" -DCMAKE_CXX_COMPILER=$compiler \
  -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH="$root" \
  -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
  -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
  >build/arm64-cmake.log 2>&1 || { cat build/arm64-cmake.log >&2; exit 1; }
if [ $# -eq 0 ]; then
  set -- troupe_{tensors,strategies,net,data,models,actors,training,simulation}
fi
cmake --build build/arm64 --target "$@"
