#!/usr/bin/env bash
# Installs missing Debian packages, builds the tool `troupe`, and trains a network
# on generated digits. It downloads only the packages.
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

The model is saved in $saved, the results of the run in quickstart/summary.json.
To predict the classes of some digits:

  $tool predict --model $saved --data digits --count 10

All options: $tool train --help
END
