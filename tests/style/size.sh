#!/usr/bin/env bash
# Fails if a tracked file has more than 300 lines, unless long_files.txt beside
# this script names it and says why.
set -euo pipefail
limit=300
allowed=$(dirname "$0")/long_files.txt

mapfile -t files < <(git ls-files)
if [ ${#files[@]} -eq 0 ]; then
  echo "skipped: git lists no files here"
  exit 77
fi

status=0
excused() { grep -q "^$1:" "$allowed"; }
for file in "${files[@]}"; do
  [ -f "$file" ] || continue # deleted, not yet committed
  lines=$(wc -l <"$file")
  if [ "$lines" -gt $limit ] && ! excused "$file"; then
    echo "$file: $lines lines; split it, or say in $allowed why not"
    status=1
  elif [ "$lines" -le $limit ] && excused "$file"; then
    echo "$file: only $lines lines; $allowed need not name it"
    status=1
  fi
done
while IFS=: read -r file why; do
  if [ ! -f "$file" ] || [ -z "${why// /}" ]; then
    echo "$allowed: '$file' is no file, or no reason is given"
    status=1
  fi
done < <(grep -v -e '^#' -e '^$' "$allowed")
exit $status
