#!/usr/bin/env bash
# From nothing to a trained network: installs what is missing, builds the tool
# `troupe`, and trains on digits that it draws itself. Needs no download but
# Debian's packages.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh
. scripts/build.sh

install_missing
build release troupe_tool

tool=build/release/troupe
saved=quickstart/lenet.model
mkdir -p quickstart
train=(train --model lenet --data digits --epochs 3 --batch 64
  --optimizer adam --learning-rate 0.001 --seed 1
  --strategy mirrored --devices 'cpu:0,cpu:1'
  --save "$saved" --summary quickstart/summary.json)

echo "\$ $tool ${train[*]}"
"$tool" "${train[@]}"
cat <<END

The model is saved in $saved, the figures of the run in quickstart/summary.json.
Next, see what it makes of some digits:

  $tool predict --model $saved --data digits --count 10

and all that can be set: $tool train --help
END
