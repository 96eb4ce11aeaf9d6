#!/usr/bin/env python3
"""Checks that sources compile alone, as in the preset dev, without a warning. A unity build does
not notice if a source lacks an include that another source of its translation unit has.

  scripts/compile-alone.py --since HEAD~20      the sources and headers that changed since then
  scripts/compile-alone.py --part 3 --of 8      the fourth eighth of all sources
  scripts/compile-alone.py --since X --part 3 --of 8    both

It checks without generating code (-fsyntax-only), so warnings of the optimizer are not found. A
changed header is compiled as the only include of a source. The exit status is 1 if a source does
not compile or has a warning; the last line is "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "alone"


def changed_since(commit):
    """The tracked files that differ from those of a commit. None if git does not have it."""
    done = subprocess.run(["git", "diff", "--name-only", "--diff-filter=d", commit, "--"], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"git does not have {commit}: only the part is compiled")
    return set(done.stdout.split())


def command_of(entry, source):
    """The command that checks `source` with the flags of an entry of compile_commands.json."""
    command = re.sub(r" -o \S+", "", entry["command"])
    return re.sub(r" -c \S+$", "", command) + " -fsyntax-only " + source


def check(job):
    name, entry, text = job
    command = command_of(entry, "-x c++ -" if text else entry["file"])
    done = subprocess.run(command, cwd=entry["directory"], shell=True, input=text,
                          capture_output=True, text=True)
    return name, done.returncode == 0 and not done.stderr, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--since", help="a commit")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=0)
    args = parser.parse_args()
    done = subprocess.run(
        ["cmake", "--preset", "dev", "-B", str(BUILD), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
        cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    entries = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        name = os.path.relpath(entry["file"], ROOT)
        if not name.startswith("build/"):
            entries[name] = entry
    changed = changed_since(args.since) if args.since else set()
    jobs = [(name, entry, None) for i, (name, entry) in enumerate(sorted(entries.items()))
            if name in changed or (args.of and i % args.of == args.part % args.of)]
    # The preset has no CUDA.
    for header in sorted(x for x in changed if x.endswith(".hpp") and "/cuda/" not in x):
        # The flags of the source beside it, of one of its folder, or of any.
        users = [header[:-4] + ".cpp", *(x for x in sorted(entries)
                                         if os.path.dirname(x) == os.path.dirname(header)),
                 *(x for x in sorted(entries) if x.split("/")[0] == header.split("/")[0])]
        user = next((entries[x] for x in users if x in entries), None)
        if user:
            jobs.append((header, user, f'#include "troupe/{header}"\n'))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, is_right, text in pool.map(check, jobs):
            if not is_right:
                failed += 1
                print(f"failed {name}:\n{text[:3000]}", flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
