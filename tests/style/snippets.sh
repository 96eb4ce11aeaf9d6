#!/usr/bin/env bash
# Fails if a page contains C++ code that no build compiles. A line precedes each
# C++ block:
#   <!-- path/of/file.cpp: name -->
# The block must repeat the lines of this file between `// [doc:begin name]` and
# `// [doc:end]`. For the name `struct x`, it must repeat the definition of the struct
# x with the comment before it. Each struct of docs/options.md's folders whose name ends
# in `_options` must be on that page. With --write, the script updates the blocks.
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
    # Prints the definition that begins with the words `kind name`.
    function define(file, kind, name,    line, comment, inside, seen) {
      while ((getline line <file) > 0) {
        if (!inside && line ~ "^" kind " (class )?" name "( |$)") inside = seen = 1
        if (inside) print (comment != "" ? comment : "") line
        if (inside || line !~ /^\/\/\//) comment = ""
        else comment = comment line "\n"
        if (inside && line ~ /^};/) break
      }
      close(file)
      if (!seen) fail(file " does not define the " kind " " name)
    }
    skipping && /^```/ { skipping = 0 }
    skipping { next }
    { print }
    /^```cpp/ {
      count = split(before, part, " ")
      sub(/:$/, "", part[2])
      if (count == 4 && part[1] == "<!--") {
        show(part[2], part[3])
        skipping = 1
      } else if (count == 5 && part[1] == "<!--" && part[3] ~ /^(struct|enum)$/) {
        define(part[2], part[3], part[4])
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

# Options of roles inside the library.
internal='request_runner|update|train'
if [ -f docs/options.md ]; then
  while read -r file name; do
    if ! grep -qxF -- "<!-- $file: struct $name -->" docs/options.md; then
      echo "docs/options.md: the struct $name of $file is missing"
      status=1
    fi
  done < <(git grep -oE '^struct [a-z0-9_]+_options' -- 'data/*.hpp' 'models/*.hpp' \
      'tensors/*.hpp' 'training/*.hpp' | sed 's/:struct / /' |
      grep -vE " ($internal)_options$" | grep -vE '^tensors/(kernels|onednn|cuda)/')
fi
exit $status
