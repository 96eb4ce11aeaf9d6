#!/usr/bin/env python3
"""Runs the benchmarks of this project and of its peers (TensorFlow, PyTorch, Gloo, Open MPI) in
turn, and prints tables of ratios.

  benchmarks/compare.py --build build/release --peers build/peers --update docs/performance.md

Each round runs every program of a case once, one after the other (A B C A B C ...), so that a
disturbance of the machine affects all of them. A figure is the median over rounds, with minimum and
maximum; a ratio compares two programs of the same round. --update replaces the text of a file
between the lines "<!-- measured -->" and "<!-- /measured -->", and between "<!-- processes -->"
and "<!-- /processes -->". With --only, --update replaces only the tables of this run.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

import compare_processes

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = "<!-- measured -->", "<!-- /measured -->"    # tables about one process
PROCESSES = "<!-- processes -->", "<!-- /processes -->"  # tables about several processes


class Failed(Exception):
    pass


def run(command, timeout=600):
    """Runs a program and returns the JSON lines that it prints, parsed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3",
                               "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def add_folders(parser):
    """Adds the options that name the folders of the programs."""
    parser.add_argument("--build", type=pathlib.Path, default="build/release",
                        help="build folder of the preset release (default: %(default)s)")
    parser.add_argument("--peers", type=pathlib.Path,
                        default=os.environ.get("TROUPE_PEERS_DIR", "build/peers"),
                        help="folder of peers/setup.sh (default: $TROUPE_PEERS_DIR or %(default)s)")


class Programs:
    def __init__(self, args):
        self.build, self.peers, self.args, self.here = args.build, args.peers, args, HERE

    def program(self, name):
        return str(self.build / "benchmarks" / name)

    def windows(self, name="--window-s"):
        return ["--windows", str(self.args.windows), name, str(self.args.window_s)]

    def ours(self, model, batch, threads=1, *more):
        return [self.program("bench_train"), "--model", model, "--batch", str(batch),
                "--threads", str(threads), "--json", *more, *self.windows()]

    def tf(self, model, batch, threads=1, *more):
        return [str(self.peers / "tf/bin/python"), str(HERE / "peers/tf_train.py"), "--model", model,
                "--batch", str(batch), "--threads", str(threads), "--api", "loop", *more,
                *self.windows("--window_s")]

    def torch(self, model, batch, threads=1, mode="fused", *more):
        return [str(self.peers / "pt/bin/python"), str(HERE / "peers/torch_train.py"),
                "--model", model, "--batch", str(batch), "--threads", str(threads),
                "--mode", mode, *more, *self.windows("--window_s")]

    def torches(self, model, batch, threads):
        modes = ["eager", "fused"] + ["compile"] * self.args.compile
        all = {f"PyTorch {mode}": self.torch(model, batch, threads, mode) for mode in modes}
        if model == "lenet":
            for mode in modes[1:]:
                all[f"PyTorch {mode}, channels last"] = self.torch(
                    model, batch, threads, mode, "--channels_last")
        return all


def cases(p):
    """Yields for each table the title, the JSON key of the compared figure, and the command of each
    program by name. The first command is this project's."""
    for model, batch in (("mlp", 64), ("mlp", 512), ("lenet", 64)):
        for threads in (1, 2):
            tf = {"TensorFlow": p.tf(model, batch, threads)}
            if threads == 2:
                tf["TensorFlow mirrored"] = p.tf(model, batch, 2, "--strategy", "mirrored2")
            yield (f"{model}, batch {batch}, {threads} thread{'s' * (threads > 1)}",
                   "examples_per_s",
                   {"Troupe": p.ours(model, batch, threads), **p.torches(model, batch, threads),
                    **tf})
    for threads in (1, 2):
        yield (f"mlp, batch 1, {threads} thread{'s' * (threads > 1)}, step in us", "step_us",
               {"Troupe": p.ours("mlp", 1, threads), **p.torches("mlp", 1, threads),
                "TensorFlow": p.tf("mlp", 1, threads)})
    for model, batch in (("lenet", 64), ("mlp", 64), ("mlp", 512)):
        yield (f"{model}, mirrored over 2 devices, 1 thread and batch {batch} each",
               "examples_per_s",
               {"Troupe mirrored": p.ours(model, batch, 1, "--strategy", "mirrored",
                                          "--replicas", "2"),
                "Troupe, 1 device, 1 thread": p.ours(model, batch),
                "TensorFlow, 2 threads": p.tf(model, batch, 2),
                "TensorFlow, 2 threads, double batch": p.tf(model, 2 * batch, 2),
                "TensorFlow mirrored": p.tf(model, 2 * batch, 2, "--strategy", "mirrored2")})


def number(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def spread(xs, show=number):
    return f"{show(statistics.median(xs))} ({show(min(xs))} to {show(max(xs))})"


def compare(title, figure, programs, rounds):
    """Runs the programs in turn. Returns a markdown table of their figures and ratios."""
    names = list(programs)
    values = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            values[name].append(run(programs[name])[-1][figure])
    more_is_better = figure == "examples_per_s"
    heading = ("examples/s: median (min to max) | rate of Troupe / rate of this program"
               if more_is_better else
               "us per step: median (min to max) | time of this program / time of Troupe")
    lines = [f"**{title}**", "", f"| program | {heading} |", "|---|---|---|"]
    for name in names:
        pairs = zip(values[names[0]], values[name])
        ratios = [a / b if more_is_better else b / a for a, b in pairs]
        lines.append(f"| {name} | {spread(values[name])} | "
                     f"{'' if name == names[0] else spread(ratios, lambda x: f'{x:.2f}x')} |")
    return "\n".join(lines) + "\n"


def table(title, lines, columns):
    """Returns a markdown table with a row per JSON line; `columns` maps headings to keys."""
    rows = [f"**{title}**", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for line in lines:
        cells = [line[key] for key in columns.values()]
        rows.append("| " + " | ".join(x if isinstance(x, str) else number(x) for x in cells) + " |")
    return "\n".join(rows) + "\n"


def ours_alone(p):
    """Yields title, commands and columns of each table that contains no peer."""
    where = (("default", 1), ("mirrored", 2))
    placed = [["--model", model, "--batch", str(batch), "--strategy", strategy,
               "--replicas", str(replicas), "--json"]
              for strategy, replicas in where for model, batch in (("mlp", 64), ("lenet", 64))]
    steps = {"mlp": "300", "lenet": "40"}
    yield ("What model.fit adds to a step, us", [
        [p.program("bench_overhead"), *one, "--steps", steps[one[1]]] for one in placed], {
            "model/batch/threads/strategy/replicas": "case", "model.fit": "fit_us",
            "baseline loop without sums": "bare_us",
            "model.fit minus that loop: median": "added_us", "minimum": "added_min",
            "maximum": "added_max", "baseline loop with sums": "summing_us",
            "model.fit minus the loop with sums: median": "added_to_summing_us"})
    yield ("Peak memory, MiB", [[p.program("bench_memory"), *one] for one in placed], {
        "model/batch/strategy/replicas": "case", "measured peak": "peak_mib",
        "sum of the formula": "formula_mib", "peak minus sum": "beyond_mib",
        "in the formula: inputs": "inputs_mib", "parameters": "parameters_mib",
        "slots": "slots_mib", "gradients": "gradients_mib", "activations": "activations_mib"})
    yield ("Upper bound: oneDNN alone, 1 thread", [[p.program("bench_onednn")]], {
        "model/batch/threads": "case", "products of a step, us": "products_us",
        "GFLOP/s of the products": "gflop_per_s", "update of a step, us": "update_us",
        "examples/s of both together": "examples_per_s"})


def machine(build):
    cpu = platform.processor()
    for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("Model name:"):
            cpu = line.split(":", 1)[1].strip()
    onednn = run([str(build / "benchmarks/bench_onednn"), "--version"])[0]
    return (f"{datetime.date.today()}: {cpu}, {os.cpu_count()} cores, {platform.system()} "
            f"{platform.release()}; oneDNN {onednn['onednn']}, float32.\n")


def merged(old, here, parts):
    """Returns `old` with its tables replaced by the `parts` with equal titles. The line `here` has
    machine and date of the parts. If it is not above the tables of `old`, each part gets it."""
    top, *tables = re.split(r"(?m)^(?=\*\*)", old)
    by_title = {x.split("\n", 1)[0]: x.rstrip() + "\n" for x in tables}
    for part in parts:
        title, rest = part.split("\n", 1)
        by_title[title] = part if here in top else f"{title}\n\n{here}{rest}"
    return top + "\n".join(by_title.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folders(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--windows", type=int, default=3, help="windows of each program in a round")
    parser.add_argument("--window-s", type=float, default=0.7)
    parser.add_argument("--compile", action="store_true", help="also run torch.compile")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="only cases whose title contains TEXT; may be repeated")
    parser.add_argument("--update", type=pathlib.Path, help="the file to write the tables into")
    args = parser.parse_args()
    for needed in (args.build / "benchmarks/bench_train", args.peers / "tf/bin/python",
                   args.peers / "pt/bin/python"):
        if not needed.exists():
            parser.error(f"there is no {needed}; build the preset 'release', run "
                         "benchmarks/peers/setup.sh, or name the folders by --build and --peers")
    for marks in (MEASURED, PROCESSES) if args.update else ():
        if not all(mark in args.update.read_text() for mark in marks):
            parser.error(f"{args.update} has no lines {' and '.join(marks)}")

    here = machine(args.build)
    print(here)
    found = {MEASURED: [], PROCESSES: []}

    def wanted(title):
        return not args.only or any(text in title for text in args.only)

    def show(part, marks=MEASURED):
        found[marks].append(part)
        print(part, flush=True)
    p = Programs(args)
    for title, figure, programs in cases(p):
        if wanted(title):
            show(compare(title, figure, programs, args.rounds))
    for title, commands, columns in ours_alone(p):
        if wanted(title):
            lines = [line for command in commands for line in run(command)]
            show(table(title, [x for x in lines if set(columns.values()) <= set(x)], columns))
    for title, make in compare_processes.sections(p, run, args.rounds):
        if wanted(title):
            show(make(), PROCESSES)
    for marks, parts in found.items() if args.update else ():
        if parts:
            text = args.update.read_text()
            before, rest = text.split(marks[0], 1)
            old, after = rest.split(marks[1], 1)
            new = merged(old, here, parts) if args.only else f"\n{here}\n" + "\n".join(parts)
            args.update.write_text(before + marks[0] + new + marks[1] + after)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))
