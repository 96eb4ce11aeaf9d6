#!/usr/bin/env python3
"""Counts the files of this project whose code runs in a command, with callgrind of valgrind.

  scripts/path-units.py build/dev/benchmarks/bench_train ...
  scripts/path-units.py --sources build/dev/troupe train ...     only .cpp and .cu
  scripts/path-units.py --within 'troupe::model::fit*' COMMAND   only what this function calls
  scripts/path-units.py --read callgrind.out.123                 a file that callgrind has written

The command needs debug information, as in the presets dev and unity. Headers count as files, too:
their inlined code runs in the function that contains it. A command runs about 50 times slower.
The last line is "N files".
"""
import argparse
import collections
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("tensors", "strategies", "net", "data", "models", "actors", "training", "simulation",
           "apps")
NAME = re.compile(r"(\w+)=(?:\((\d+)\))? ?(.*)")


def instructions_of(lines):
    """The instructions of each file in a file of callgrind, without those of called functions."""
    counts, names = collections.Counter(), {}
    file, positions, is_call = None, 1, False
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("positions:"):
            positions = len(line.split()) - 1
        elif match := NAME.match(line):
            kind, number, name = match.groups()
            if kind in ("fl", "fi", "fe", "cfi", "cfl", "jfi"):
                # A name has its number at the first use, and only the number afterwards.
                if number and name:
                    names[number] = name
                elif number:
                    name = names[number]
                if kind in ("fl", "fi", "fe"):
                    file = name
            is_call = is_call or kind == "calls"
        elif re.match(r"[0-9+*-]", line):
            cost = line.split()[positions:positions + 1]
            if not is_call:  # The line after calls= has the cost of the called function.
                counts[file] += int(cost[0]) if cost else 0
            is_call = False
    return counts


def path_in_project(name):
    """The path below the root, or None. The include folder of a build is a link to the root."""
    path = os.path.realpath(ROOT / name)
    if not path.startswith(str(ROOT) + os.sep):
        return None
    path = path[len(str(ROOT)) + 1:]
    return path if path.split(os.sep)[0] in FOLDERS else None


def run(command, within):
    """Runs the command under callgrind. Returns the instructions of each file, of all its
    processes."""
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--callgrind-out-file={folder}/%p", "--dump-instr=no", "--trace-children=yes"]
        options += [f"--toggle-collect={x}" for x in within]
        try:
            done = subprocess.run(["valgrind", "--tool=callgrind", *options, *command])
        except FileNotFoundError:
            sys.exit("path-units.py: valgrind is not installed")
        if done.returncode != 0:
            sys.exit(f"path-units.py: the command has failed with {done.returncode}")
        return read(sorted(glob.glob(f"{folder}/*")))


def read(files):
    counts = collections.Counter()
    for name in files:
        with open(name) as lines:
            counts += instructions_of(lines)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sources", action="store_true", help="count no headers")
    parser.add_argument("--within", action="append", default=[], metavar="FUNCTION",
                        help="count only while this function runs (--toggle-collect)")
    parser.add_argument("--read", action="store_true", help="read files of callgrind")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("give a command, such as build/dev/benchmarks/bench_train")
    counts = collections.Counter()
    all_counts = read(args.command) if args.read else run(args.command, args.within)
    for name, count in all_counts.items():
        path = path_in_project(name) if name else None
        if path and not (args.sources and path.endswith((".hpp", ".cuh"))):
            counts[path] += count
    folders = collections.Counter(x.split(os.sep)[0] for x in counts)
    for path, count in sorted(counts.items()):
        print(f"{count:14,} {path}")
    print(", ".join(f"{folder} {folders[folder]}" for folder in FOLDERS if folders[folder]))
    print(f"{len(counts)} files")


if __name__ == "__main__":
    main()
