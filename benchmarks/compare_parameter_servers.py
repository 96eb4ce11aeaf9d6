#!/usr/bin/env python3
"""Measures parameter servers next to those of TensorFlow and of torch.distributed.rpc, and prints
the tables of docs/performance.md.

  benchmarks/compare_parameter_servers.py --build build/release --peers build/peers \\
    --update docs/performance.md

Each worker and each server is a process with one thread, on both sides. The programs of a row run
in turn. With --update, replaces the text of the file between the lines "<!-- servers -->" and
"<!-- /servers -->". Needs an idle machine, and about 45 minutes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare import Failed, add_folders, run, spread
from compare_recovery import machine

HERE = pathlib.Path(__file__).resolve().parent
MARKS = "<!-- servers -->", "<!-- /servers -->"


def by_case(lines, case):
    return next(x["median"] for x in lines if x["case"] == case)


class Programs:
    """Each function runs one program, and returns its rate, or a time in us."""

    def __init__(self, args):
        self.build, self.peers = args.build, args.peers

    def closures(self, case, workers, servers=1):
        return by_case(run([str(self.build / "benchmarks/bench_parameter_server"), "--processes",
                            "--json", "--only", case, "--workers", str(workers), "--servers",
                            str(servers),
                            "--in-flight", "64" if case == "closure rate" else "1"]), case)

    def bookkeeping(self):
        """Processor time that a closure needs to count once, in % of that of a step of `mlp`."""
        step = run([str(self.build / "benchmarks/bench_train"), "--model", "mlp", "--batch", "64",
                    "--threads", "1", "--json"])[-1]["step_us"]
        return 100 * self.closures("bookkeeping of a closure", 2) / step

    def train(self, *options, epochs=4):
        """Examples/s of `troupe train`, without the first epoch."""
        with tempfile.TemporaryDirectory() as folder:
            summary = pathlib.Path(folder) / "summary.json"
            done = subprocess.run([str(self.build / "troupe"), "train", *options, "--epochs",
                                   str(epochs), "--quiet", "--summary", str(summary)],
                                  capture_output=True, text=True, timeout=900)
            if done.returncode:
                raise Failed(done.stderr[-2000:])
            epochs = json.loads(summary.read_text())["epochs"][1:]
        return statistics.median(x["examples"] / x["seconds"] for x in epochs)

    def tensorflow(self, only, case, workers, servers=1, legacy=False):
        os.environ["TF_USE_LEGACY_KERAS"] = "1" if legacy else "0"
        return by_case(run([str(self.peers / "tf/bin/python"), str(HERE / "peers/tf_ps.py"),
                            "--workers", str(workers), "--ps", str(servers), "--only", only],
                           timeout=900), case)

    def torch(self, workers):
        return run([str(self.peers / "pt/bin/python"), str(HERE / "peers/torch_ps.py"),
                    "--workers", str(workers)], timeout=900)[-1]["updates_per_s"]

    def one_process(self, threads):
        """Functions that train `wide_deep` without servers, by program."""
        common = ["--model", "wide_deep", "--batch", "512", "--threads", str(threads)]
        peers = HERE / "peers"

        def tensorflow():
            os.environ["TF_USE_LEGACY_KERAS"] = "1"
            return run([str(self.peers / "tf/bin/python"), str(peers / "tf_train.py"), *common,
                        "--api", "loop"])[-1]["examples_per_s"]

        def ours():
            return run([str(self.build / "benchmarks/bench_train"), *common,
                        "--json"])[-1]["examples_per_s"]

        def torch():
            return run([str(self.peers / "pt/bin/python"), str(peers / "torch_train.py"), *common,
                        "--mode", "fused"])[-1]["examples_per_s"]
        return ours, {"TensorFlow": tensorflow, "PyTorch": torch}


def rows(p):
    """Yields for each row its key, its text, what it counts, this project's program, the other
    programs by name, and the least ratio that is wanted (None: none)."""
    digits = ["--model", "mlp", "--data", "digits:28000", "--batch", "64", "--optimizer",
              "sgd:momentum=0.9", "--consistency", "async"]
    lenet = ["--model", "lenet", "--data", "digits:8000", "--batch", "64", "--consistency", "async"]
    clicks = ["--model", "wide_deep", "--data", "clicks:100000", "--batch", "512", "--optimizer",
              "adagrad", "--learning-rate", "0.01"]
    yield ("bandwidth", "push and pull of 64 MiB, 1 worker", "MiB/s",
           lambda: p.closures("push+pull", 1),
           {"TensorFlow": lambda: p.tensorflow("bandwidth", "push+pull", 1)}, 5)
    yield ("latency", "`schedule` and `join` of an empty closure, 2 workers", "us",
           lambda: p.closures("closure schedule+join", 2),
           {"TensorFlow": lambda: p.tensorflow("closures", "closure schedule+join", 2)}, None)
    yield ("closures", "empty closures, 2 workers", "1/s",
           lambda: p.closures("closure rate", 2),
           {"TensorFlow": lambda: p.tensorflow("closures", "closure rate", 2)}, 100)
    yield ("mlp", "`mlp`, batch 64, 2 workers, asynchronous", "steps/s",
           lambda: p.train(*digits, "--workers", "2", "--servers", "1", epochs=6) / 64,
           {"TensorFlow": lambda: p.tensorflow("mlp", "mlp/b64", 2),
            "torch.distributed.rpc": lambda: p.torch(2)}, 5)
    yield ("wide_deep", "`wide_deep`, batch 512, 2 workers, 2 servers, asynchronous", "examples/s",
           lambda: p.train(*clicks, "--workers", "2", "--servers", "2", "--consistency", "async"),
           {"TensorFlow": lambda: 512 * p.tensorflow("wide_deep", "wide_deep/b512", 2, 2, True)}, 3)
    yield ("wide_deep", "the same, in relation to one process without servers", "examples/s",
           lambda: p.train(*clicks, "--workers", "2", "--servers", "2", "--consistency", "async"),
           {"Troupe, one device": lambda: p.train(*clicks, "--strategy", "one_device")}, 0.6)
    for threads in (1, 2):
        ours, others = p.one_process(threads)
        yield ("one-device", f"`wide_deep`, batch 512, one process without servers, {threads} "
               f"thread{'s' * (threads > 1)}", "examples/s", ours, others, 1)
    yield ("workers", "`lenet`, batch 64 for each of 2 workers, asynchronous", "examples/s",
           lambda: p.train(*lenet, "--workers", "2", "--servers", "1"),
           {"Troupe, 1 worker": lambda: p.train(*lenet, "--workers", "1", "--servers", "1")}, 1.8)
    copies = [*lenet, "--workers", "2", "--servers", "2"]
    yield ("copies", "`lenet`, 2 workers, 2 servers with a copy each, asynchronous", "examples/s",
           lambda: p.train(*copies, "--replication", "2"),
           {"Troupe without copies": lambda: p.train(*copies)}, 0.85)


def limits(p):
    """Yields for each quantity without another program its key, its text, its unit, the program,
    and the largest value that is wanted (None: it is only there for comparison)."""
    yield ("latency", "`schedule` and `join` of an empty closure, 2 workers", "us",
           lambda: p.closures("closure schedule+join", 2), 50)
    yield ("latency", "a byte to another thread and back, through sockets", "us",
           lambda: p.closures("round trip of a byte", 2), None)
    yield ("bookkeeping", "processor time of the functions that count a closure once, in relation to "
           "a step of `mlp`", "%", p.bookkeeping, 3)
    yield ("memory", "memory of two server processes that rows of a table need, in relation to the "
           "rows and their slots", "%", lambda: p.closures("memory of rows", 2, 2), 110)


def measure_limit(limit, rounds):
    _, text, unit, program, most = limit
    found = [program() for _ in range(rounds)]
    is_missed = most is not None and statistics.median(found) > most
    line = (f"| {text} | {unit} | {spread(found)} | {'' if most is None else most}"
            f"{': **missed**' if is_missed else ''} |")
    print(line, flush=True)
    return line


def measure(row, rounds):
    """Runs the programs of a row in turn. Returns its lines of the table."""
    _, text, unit, ours, others, least = row
    mine, theirs = [], {name: [] for name in others}
    for _ in range(rounds):
        mine.append(ours())
        for name, program in others.items():
            theirs[name].append(program())
    lines = []
    for name, found in theirs.items():
        ratios = [b / a if unit == "us" else a / b for a, b in zip(mine, found)]
        ratio = statistics.median(ratios)
        wanted = "" if least is None else (f" (at least {least}x{'' if ratio >= least else ': **missed**'})")
        lines.append(f"| {text} | {unit} | {spread(mine)} | {name} | {spread(found)} | "
                     f"{ratio:.2f}x{wanted} |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folders(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", metavar="KEY",
                        help="only rows with this key, such as bandwidth; may be repeated")
    parser.add_argument("--update", type=pathlib.Path, help="the file to write the table into")
    args = parser.parse_args()
    if args.update and args.only:
        parser.error("--update needs all rows; leave --only out")
    if args.update and not all(mark in args.update.read_text() for mark in MARKS):
        parser.error(f"{args.update} has no lines {' and '.join(MARKS)}")
    programs = Programs(args)
    all_rows, all_limits = list(rows(programs)), list(limits(programs))
    keys = {row[0] for row in all_rows + all_limits}
    for key in args.only or []:
        if key not in keys:
            parser.error(f"--only {key}: give one of {', '.join(sorted(keys))}")
    lines = [f"\n{machine()}",
             "| what | counted | Troupe: median (min to max) | other program | its median (min to max) "
             "| Troupe is faster by |", "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    for row in all_rows:
        if not args.only or row[0] in args.only:
            lines += measure(row, args.rounds)
    lines += ["", "| what | unit | median (min to max) | at most |", "|---|---|---|---|"]
    print("\n".join(lines[-3:]), flush=True)
    for limit in all_limits:
        if not args.only or limit[0] in args.only:
            lines.append(measure_limit(limit, args.rounds))
    if args.update:
        before, rest = args.update.read_text().split(MARKS[0], 1)
        after = rest.split(MARKS[1], 1)[1]
        args.update.write_text(before + MARKS[0] + "\n".join(lines) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))
