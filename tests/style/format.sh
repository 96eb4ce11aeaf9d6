#!/usr/bin/env bash
# Fails if clang-format would change one of the files that the arguments name, or
# without arguments any tracked C++ file. Another major version of clang-format
# formats differently; then the check is skipped.
set -euo pipefail
skipped=77
version=14

if ! command -v clang-format >/dev/null; then
  echo "skipped: clang-format is not installed (the package is in packages.txt)"
  exit $skipped
fi
if ! clang-format --version | grep -q "version $version\."; then
  echo "skipped: clang-format $version is wanted, this is $(clang-format --version)"
  exit $skipped
fi
if [ $# -gt 0 ]; then
  files=("$@")
elif ! mapfile -t files < <(git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh') ||
  [ ${#files[@]} -eq 0 ]; then
  echo "skipped: git lists no files here"
  exit $skipped
fi
if ! clang-format --dry-run --Werror "${files[@]}"; then
  echo "To fix it: clang-format -i <file>..."
  exit 1
fi
echo "${#files[@]} files are formatted"
