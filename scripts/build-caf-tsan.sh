#!/usr/bin/env bash
# Builds CAF with ThreadSanitizer into build/caf-tsan, where the preset `tsan`
# looks for it. Debian's library is not instrumented, so with it every message
# between actors would be reported as a race. If build/caf-tsan is up to date, the
# script does nothing.
#
# The source is Debian's. apt downloads it with a separate source list, which
# names the configured mirrors. The script changes nothing under /etc or /var and
# needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.17.6
into=$PWD/build/caf-tsan
work=$PWD/build/caf-tsan-work
flags='-g1 -O1 -fsanitize=thread -fno-omit-frame-pointer -include limits
  -include mutex -include condition_variable'
key="CAF $version, $(clang++ --version | head -n 1), ${flags//$'\n'/}"

if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ]; then
  exit 0
fi

# Copies the source lists of the system, with sources as the only type.
own_lists() {
  mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"
  : >"$work/empty"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] && sed -n 's/^deb[[:space:]]/deb-src /p' "$list" \
      >"$work/sources/$(basename "$list" .list).list"
  done
  for list in /etc/apt/sources.list.d/*.sources; do
    [ -f "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" \
      >"$work/sources/$(basename "$list")"
  done
  return 0
}

apt() {
  apt-get -q -o Dir::Etc::SourceList="$work/empty" \
    -o Dir::Etc::SourceParts="$work/sources" \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch() {
  own_lists
  apt update >"$work/apt.log" 2>&1 || true # another mirror may have worked
  (cd "$work" && apt source --download-only --tar-only actor-framework) \
    >>"$work/apt.log" 2>&1 || true
  [ -f "$work/$tarball" ] && return
  cat "$work/apt.log" >&2
  echo "build-caf-tsan.sh: apt found no $tarball. Put CAF's source archive" \
    "there, as $work/$tarball, and start again." >&2
  exit 1
}

echo "Building CAF $version with ThreadSanitizer (once; some minutes) ..."
mkdir -p "$work"
tarball=actor-framework_$version.orig.tar.gz
[ -f "$work/$tarball" ] || fetch
tar xf "$work/$tarball" -C "$work"
rm -rf "$into"
cmake -S "$work/actor-framework-$version" -B "$work/build" -G Ninja \
  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-DNDEBUG \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 -DCMAKE_INSTALL_PREFIX="$into" \
  -DCMAKE_CXX_FLAGS="${flags//$'\n'/}" -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
  -DCAF_NO_IO=ON -DCAF_NO_OPENSSL=ON -DCAF_NO_PYTHON=ON -DCAF_NO_TOOLS=ON \
  -DCAF_NO_EXAMPLES=ON -DCAF_NO_UNIT_TESTS=ON -DCAF_NO_OPENCL=ON >"$work/cmake.log" 2>&1 ||
  { cat "$work/cmake.log" >&2; exit 1; }
ninja -C "$work/build" install >"$work/build.log" 2>&1 ||
  { tail -n 40 "$work/build.log" >&2; exit 1; }
rm -rf "$work/build" "$work/lists" "$work/cache"
echo "$key" >"$into/key"
