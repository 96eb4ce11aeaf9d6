#!/usr/bin/env bash
# Fails if a page names a test that does not exist. Pages name tests in backquotes:
#   `Suite.Case`, `Suite.*`, `Suite.Begin*`, `Begin*`, or with an instance,
#   `Instance/Suite.Case/*`
# `Begin*` is the begin of the names of suites.
set -euo pipefail
if ! git ls-files --error-unmatch CMakeLists.txt >/dev/null 2>&1; then
  echo "skipped: git lists no files here"
  exit 77
fi

tests=$(git grep -h -A 1 -E 'TEST(_F|_P)?\(' -- tests | tr '\n' ' ' |
  grep -o -E 'TEST(_F|_P)?\( *\w+, *\w+ *\)' |
  sed -E 's/^[A-Z_]*\( *(\w+), *(\w+) *\)/\1.\2/')
name='[A-Z][A-Za-z0-9]*'
status=0
while IFS=: read -r page line found; do
  test=${found//\`/}
  [[ $test =~ ^$name/ ]] && test=${test#*/} # the instance
  test=${test%%/*}                          # the parameter
  [[ $test == *.* ]] || test+=".*"
  test=${test//./\\.}
  if ! grep -q -x -e "${test//\*/.*}" <<<"$tests"; then
    echo "$page:$line: no test is named $found"
    status=1
  fi
done < <(git grep -n -o -E "\`($name/)?$name(\.($name\*?|\*)|\*)(/[^\`]*)?\`" -- \
  README.md 'docs/*.md' ':!docs/changes')
exit $status
