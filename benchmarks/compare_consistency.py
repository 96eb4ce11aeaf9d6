#!/usr/bin/env python3
"""Trains `lenet` on MNIST with parameter servers under several kinds of consistency, and prints the
test accuracies after the same number of examples.

  benchmarks/compare_consistency.py --build build/release --mnist FOLDER

Each run has 4 workers and 2 servers, 5 epochs and batches of 64. FOLDER holds the files t10k-* of
MNIST: the first 8,000 images are trained, the others tested. Takes about 20 minutes on 2 cores. The
runs of `async` and `ssp` are not repeatable, because their staleness depends on the machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CASES = (("sync", "adam"), ("ssp:2", "adam"), ("async", "adam"), ("ssp:2", "adam:beta1=0.5"),
         ("async", "adam:beta1=0"))


def train(args, consistency, optimizer, seed):
    """Returns the test accuracy in %, and the mean staleness (None: not measured)."""
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder) / "summary.json"
        done = subprocess.run(
            [str(args.build / "troupe"), "train", "--model", "lenet", "--data",
             f"mnist:{args.mnist}", "--epochs", "5", "--workers", "4", "--servers", "2",
             "--consistency", consistency, "--optimizer", optimizer, "--seed", str(seed),
             "--quiet", "--summary", str(summary)], capture_output=True, text=True, timeout=900)
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        found = json.loads(summary.read_text())
    return 100 * found["test_accuracy"], found.get("mean_staleness")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build/release",
                        help="build folder of the preset release (default: %(default)s)")
    parser.add_argument("--mnist", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=10, help="runs of each kind, from seed 1 on")
    args = parser.parse_args()
    print("| consistency | optimizer | mean staleness | accuracy, %: mean (min to max) | minus that of "
          "`sync`, points |\n|---|---|---|---|---|", flush=True)
    first = None
    for consistency, optimizer in CASES:
        runs = [train(args, consistency, optimizer, 1 + i) for i in range(args.seeds)]
        xs = [accuracy for accuracy, _ in runs]
        stale = [x for _, x in runs if x is not None]
        mean = statistics.mean(xs)
        first = mean if first is None else first
        print(f"| `{consistency}` | `{optimizer}` | {statistics.mean(stale) if stale else 0:.1f} | "
              f"{mean:.2f} ({min(xs):.2f} to {max(xs):.2f}) | {mean - first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
