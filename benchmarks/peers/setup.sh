#!/usr/bin/env bash
# Installs the peers from PyPI, each into a virtual environment of its own, in
# the folder named (default: ./build/peers); the build never does. PyTorch
# brings several GB. torch.compile also needs a C++ compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=${1:-build/peers}

install() { # <environment> <requirements>
  echo "installing $2 into $into/$1"
  python3 -m venv "$into/$1"
  "$into/$1/bin/pip" install --quiet --requirement "$here/requirements-$2.txt"
}
mkdir -p "$into"
install tf tensorflow
install pt torch
echo "done; benchmarks/compare.py --peers $into"
