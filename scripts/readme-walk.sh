#!/usr/bin/env bash
# Runs every block of README.md that is marked sh, in order and as written, in a
# fresh clone of HEAD. With an argument, runs the blocks in the folder that it
# names. $HOME is a temporary folder, because some commands install there.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CCACHE_DIR=${CCACHE_DIR-$HOME/.cache/ccache}

if [ $# -gt 0 ]; then
  clone=$(cd "$1" && pwd)
else
  clone=$root/build/readme-walk/troupe
  rm -rf "$root/build/readme-walk"
  git clone -q "$root" "$clone"
fi
export HOME=$root/build/readme-walk/home
mkdir -p "$HOME"
cd "$clone"

# Prints each block as a script that ends with NUL.
blocks() {
  awk '/^```sh$/ { inside = 1; next }
       /^```/ && inside { inside = 0; printf "%c", 0; next }
       inside { print }' README.md
}

count=0
while IFS= read -r -d '' block; do
  count=$((count + 1))
  echo "== README.md, block $count:"
  sed 's/^/   /' <<<"${block%$'\n'}"
  bash -euo pipefail -c "$block" </dev/null
done < <(blocks)

if [ $count -eq 0 ]; then
  echo "README.md has no block marked sh" >&2
  exit 1
fi
echo "== all $count blocks of README.md ran"
