#!/usr/bin/env bash
# Fails if a page contains C++ code that no build compiles. A line precedes each
# C++ block:
#   <!-- path/of/file.cpp: name -->
# The block must repeat the lines of this file between `// [doc:begin name]` and
# `// [doc:end]`. With --write, the script updates the blocks.
set -euo pipefail
mapfile -t pages < <(git ls-files '*.md')
if [ ${#pages[@]} -eq 0 ]; then
  echo "skipped: git lists no pages here"
  exit 77
fi

# Prints a page with its code blocks read from the files.
renewed() {
  awk -v page="$1" '
    function fail(why) {
      print page ":" NR ": " why >"/dev/stderr"
      failed = 1
    }
    function show(file, name,    line, inside, seen, indent) {
      while ((getline line <file) > 0) {
        if (inside && line ~ /\/\/ \[doc:end\]/) break
        if (inside) {
          if (inside++ == 1) indent = match(line, /[^ ]/) - 1
          print line == "" ? "" : substr(line, indent + 1)
        }
        if (index(line, "// [doc:begin " name "]")) inside = seen = 1
      }
      close(file)
      if (!seen) fail(file " has no range " name)
    }
    skipping && /^```/ { skipping = 0 }
    skipping { next }
    { print }
    /^```cpp/ {
      if (split(before, part, " ") == 4 && part[1] == "<!--") {
        sub(/:$/, "", part[2])
        show(part[2], part[3])
        skipping = 1
      } else
        fail("name the compiled file of this code in a line above it")
    }
    { before = $0 }
    END { exit failed }' "$1"
}

status=0
for page in "${pages[@]}"; do
  [ -f "$page" ] || continue # deleted, not yet committed
  new=$(renewed "$page" && echo .) || { status=1; continue; }
  new=${new%.}
  if [ "${1-}" = --write ]; then
    [ "$new" = "$(cat "$page" && echo)" ] || printf '%s' "$new" >"$page"
  elif ! diff -u "$page" <(printf '%s' "$new"); then
    echo "To fix it: $0 --write"
    status=1
  fi
done
exit $status
