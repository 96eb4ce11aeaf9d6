#!/usr/bin/env bash
# Installs TensorFlow and PyTorch from PyPI, each into its own virtual environment
# in the folder that the first argument names (default: build/peers). The build
# does not run this script. PyTorch takes several GB. torch.compile also needs a
# C++ compiler. The programs for Gloo and Open MPI are built if Debian's
# libgloo-dev, libopenmpi-dev and openmpi-bin are installed.
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
# Keras 2, whose fused optimizers are faster for tables. It would replace numpy.
"$into/tf/bin/pip" install --quiet --no-deps tf_keras==2.21.0
mkdir -p "$into/bin"
flags=(-O3 -march=native -std=c++17)
if [ -e /usr/include/gloo/allreduce.h ]; then
  g++ "${flags[@]}" "$here/gloo_allreduce.cpp" -o "$into/bin/gloo_allreduce" -lgloo -lpthread
else
  echo "no Gloo: apt-get install libgloo-dev, then run this again"
fi
if command -v mpicxx >/dev/null; then
  mpicxx "${flags[@]}" "$here/mpi_allreduce.cpp" -o "$into/bin/mpi_allreduce"
else
  echo "no Open MPI: apt-get install libopenmpi-dev openmpi-bin, then run this again"
fi
echo "done; benchmarks/compare.py --peers $into"
