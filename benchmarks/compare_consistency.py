#!/usr/bin/env python3
"""Trains `lenet` on MNIST with parameter servers under several kinds of consistency, with the same
optimizer and learning rates, and prints the test accuracies after the same number of examples.

  benchmarks/compare_consistency.py --build build/release --mnist FOLDER

Each run has 4 workers and 2 servers, 5 epochs and batches of 64. FOLDER holds the files t10k-* of
MNIST: the first 8,000 images are trained, the others tested. Takes about 20 minutes on 2 cores. The
runs of `async` and `ssp` are not repeatable, because their staleness depends on the machine.

The exit code is 0 if the mean accuracies of `ssp:2` and `async` are at most 0.5 points below that of
`sync`, and 1 if not.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

REFERENCE = "sync"
CONSISTENCIES = (REFERENCE, "ssp:2", "async")
MAX_LOSS = 0.5  # points


def train(args, consistency, seed):
    """Returns the test accuracy in %, and the mean staleness (None: not measured)."""
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder) / "summary.json"
        done = subprocess.run(
            [str(args.build / "troupe"), "train", "--model", "lenet", "--data",
             f"mnist:{args.mnist}", "--epochs", "5", "--workers", "4", "--servers", "2",
             "--consistency", consistency, "--optimizer", args.optimizer, "--schedule",
             args.schedule, "--learning-rate", str(args.learning_rate),
             "--seed", str(seed), "--quiet", "--summary", str(summary)],
            capture_output=True, text=True, timeout=900)
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
    parser.add_argument("--optimizer", default="adam:beta1=0", help="of all runs (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.0003,
                        help="of all runs (default: %(default)s)")
    parser.add_argument("--schedule", default="cosine",
                        help="learning rates of all runs (default: %(default)s)")
    args = parser.parse_args()
    print(f"`{args.optimizer}`, learning rate {args.learning_rate}, schedule `{args.schedule}`, "
          f"{args.seeds} seeds\n\n"
          "| consistency | mean staleness | accuracy, %: mean (min to max) | minus that of "
          f"`{REFERENCE}`, points | within {MAX_LOSS} |\n|---|---|---|---|---|", flush=True)
    means = {}
    is_within = True
    for consistency in CONSISTENCIES:
        runs = [train(args, consistency, 1 + i) for i in range(args.seeds)]
        accuracies = [accuracy for accuracy, _ in runs]
        stale = [x for _, x in runs if x is not None]
        means[consistency] = statistics.mean(accuracies)
        difference = round(means[consistency] - means[REFERENCE], 2)
        print(f"| `{consistency}` | {statistics.mean(stale) if stale else 0:.1f} | "
              f"{means[consistency]:.2f} ({min(accuracies):.2f} to {max(accuracies):.2f}) | "
              f"{difference:+.2f} | {'yes' if difference >= -MAX_LOSS else 'no'} |", flush=True)
        is_within = is_within and difference >= -MAX_LOSS
    sys.exit(0 if is_within else 1)


if __name__ == "__main__":
    main()
