#!/usr/bin/env python3
"""Measures what deaths, hangs and joins cost a job of several processes, next to torchrun with
DistributedDataParallel, and prints the tables of docs/performance.md.

  benchmarks/compare_recovery.py --build build/release --peers build/peers \\
    --update docs/performance.md

With --update, replaces the text of the file between the lines "<!-- recovery -->" and
"<!-- /recovery -->"; with --only, replaces only the tables of this run. Needs an idle machine, and about an hour with the default number of events.
"""
import argparse
import collections
import datetime
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

from compare import Failed, add_folders, merged, number, run
import compare_upkeep

HERE = pathlib.Path(__file__).resolve().parent
MARKS = "<!-- recovery -->", "<!-- /recovery -->"
HEARTBEAT_MS = 1000

# What an event is, the arguments of bench_recovery, and the targets from the signal to the next
# step: milliseconds beyond two steps, of the median and of the 99th percentile. None: no target.
Case = collections.namedtuple("Case", "text arguments median p99")


def cases():
    for workers in (4, 2):
        for model in ("mlp", "lenet"):
            yield Case(f"SIGKILL of 1 of {workers}, `{model}`",
                       ["--workers", str(workers), "--model", model], 40, 200)
    for workers in (3, 4):
        yield Case(f"SIGKILL of the chief of {workers}, `mlp`",
                   ["--workers", str(workers), "--kill", "chief"], None, 500)
    for text, more in (("1 of 2", ["--workers", "2"]), ("1 of 4", ["--workers", "4"]),
                       ("the chief of 4", ["--workers", "4", "--kill", "chief"])):
        yield Case(f"SIGSTOP of {text}, `mlp`", [*more, "--signal", "STOP"],
                   HEARTBEAT_MS + 40, HEARTBEAT_MS + (500 if "chief" in text else 200))


def said(value, limit):
    """Returns a cell with a value in milliseconds, and whether it is within its limit."""
    if limit is None:
        return number(value)
    return f"{number(value)} (at most {number(limit)}{'' if value <= limit else ': **missed**'})"


def measure(args, case):
    batch = ["--batch", "16"]
    steps = ["--steps", "10" if "lenet" in case.arguments else "100"]
    return run([str(args.build / "benchmarks/bench_recovery"), *batch, *steps, *case.arguments,
                "--events", str(args.events), "--json"], timeout=7200)[0]


def deaths(args):
    rows, joins = [], []
    for case in cases():
        x = measure(args, case)
        two = 2 * x["step_ms"]
        rows.append(f"| {case.text} | {number(x['step_ms'])} | "
                    f"{said(x['kill_ms'], case.median and two + case.median)} | "
                    f"{said(x['kill_p99_ms'], two + case.p99)} |")
        joins.append(f"| {case.text} | {said(x['join_ms'], two + 50)} | {number(x['join_p99_ms'])} "
                     f"| {said(x['first_step_ms'], 1000)} | {number(x['first_step_p99_ms'])} |")
        print(rows[-1], joins[-1], sep="\n", flush=True)
    events = f"{args.events} events each, ms"
    return "\n".join([
        f"**From the signal to the next step of all others, {events}**", "",
        "| event | step | median | 99th percentile |", "|---|---|---|---|", *rows, "",
        f"**A worker that joins after the event, {events}**", "",
        "| event before | longest step of the others: median | 99th percentile | from its start "
        "to its first step: median | 99th percentile |", "|---|---|---|---|---|", *joins]) + "\n"


def large_state(args):
    rows = []
    for text, more in (("before the join", []), ("after the join", ["--copy-after-join"])):
        x = run([str(args.build / "benchmarks/bench_recovery"), "--model", "wide", "--batch", "16",
                 "--workers", "2", "--kill", "other", "--steps", "20", "--events",
                 str(max(5, args.events // 10)), "--json", *more], timeout=7200)[0]
        rows.append(f"| {text} | {number(x['step_ms'])} | {number(x['copy_ms'])} | "
                    f"{said(x['join_ms'], 2 * x['step_ms'] + x['copy_ms'])} | "
                    f"{number(x['first_step_ms'])} |")
        print(rows[-1], flush=True)
    return "\n".join([
        "**A worker that joins a job of 2 with 257 MiB of parameters, ms**", "",
        "| the state is copied | step | one copy into new memory | longest step of the other: "
        "median (at most two steps and one copy) | from its start to its first step: median |",
        "|---|---|---|---|---|", *rows]) + "\n"


def torchrun(args):
    """Runs trials of torchrun and of this project in turn."""
    python = str(args.peers / "pt/bin/python")
    variants = {"torchrun": [], "torchrun with a store for each restart": ["--own-store"]}
    ours, theirs = [], {name: [] for name in variants}
    for _ in range(args.trials):
        x = run([str(args.build / "benchmarks/bench_recovery"), "--model", "mlp", "--batch", "32",
                 "--workers", "2", "--kill", "other", "--events", "5", "--json"])[0]
        ours.append(x["kill_ms"] / 1e3)
        for name, more in variants.items():
            theirs[name].append(run([python, str(HERE / "peers/torch_elastic.py"), "--ranks", "2",
                                     *more])[0])
    middle = statistics.median(ours)
    rows = [f"| Troupe | {args.trials} of {args.trials} | {middle:.3f} s ({min(ours):.3f} to "
            f"{max(ours):.3f}) | 0 or 1 | |"]
    for name, trials in theirs.items():
        good = [x for x in trials if x["recovery_s"] is not None]
        times = [x["recovery_s"] for x in good]
        figures = ("never | | |" if not good else
                   f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f}) | "
                   f"{min(x['redone'] for x in good)} to {max(x['redone'] for x in good)} | "
                   f"{statistics.median(times) / middle:,.0f}x |")
        rows.append(f"| {name} | {len(good)} of {len(trials)} | {figures}")
        print(rows[-1], flush=True)
    return "\n".join([
        "**SIGKILL of 1 of 2 workers, `mlp`, global batch 64**", "",
        "| program | recovered | to the first step after it: median (min to max) | steps done "
        "again | time of this program / time of Troupe |", "|---|---|---|---|---|", *rows]) + "\n"


def upkeep(args):
    """What heartbeats and audits cost in jobs without faults, and the processor time of all threads
    but those of the replicas. Heartbeats and audits take too little time to be measured as they
    are: they are made 100 times as often, and what that adds is divided by 99."""
    class Programs:
        @staticmethod
        def program(name):
            return str(args.build / "benchmarks" / name)

        @staticmethod
        def windows():
            return ["--windows", "3", "--window-s", "1"]
    command = compare_upkeep.job(Programs, 2, 32)

    def share(*more):
        return 100 * compare_upkeep.supervision(compare_upkeep.watched([*command, *more])[0])

    def step_us(*more):
        return run([*command, *more])[0]["step_us"]
    threads, heartbeats, audits = [], [], []
    for _ in range(5):
        threads.append(share())
        heartbeats.append((share("--heartbeat-ms", "1") - threads[-1]) / 99)
        without = step_us()
        audits.append(100 * (step_us("--audit-steps", "1") - without) / without / 99)
    both = statistics.median(heartbeats) + statistics.median(audits)

    def row(what, xs, more=""):
        return (f"| {what} | {statistics.median(xs):.3f} % ({min(xs):.3f} to {max(xs):.3f}) | "
                f"{more} |")
    return "\n".join([
        "**Without faults, two workers of `lenet`**", "",
        "| share of the processor time | median (min to max) | maximum |", "|---|---|---|",
        row("heartbeats, each 100 ms", heartbeats), row("audits, each 100 steps", audits),
        f"| both together | {both:.3f} % | 1 % {'reached' if both <= 1 else '**missed**'} |",
        row("all threads but those of the replicas, with the messages that report, grant and "
            "commit steps", threads)]) + "\n"


def simulator(args):
    done = subprocess.run([str(args.build / "benchmarks/simulate_recovery"), "--jobs", "4000",
                           "--processes", "1"], capture_output=True, text=True, timeout=3600)
    match = re.search(r"([\d,.]+) jobs (?:a|per) minute", done.stdout)
    if done.returncode or not match:
        raise Failed(f"simulate_recovery ended with {done.returncode}:\n{done.stdout[-2000:]}")
    rate = float(match[1].replace(",", ""))
    return "\n".join([
        "**Simulator**", "", "| quantity | measured | minimum |", "|---|---|---|",
        "| simulated jobs of 8 replicas, 4 processes and 20 steps with faults, per minute and core "
        f"| {rate:,.0f} | 2,000 {'reached' if rate >= 2000 else '**missed**'} |"]) + "\n"


def machine():
    text = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    cpu = re.search(r"Model name:\s*(.*)", text)
    return (f"{datetime.date.today()}: {cpu[1] if cpu else platform.processor()}, "
            f"{os.cpu_count()} cores, {platform.system()} {platform.release()}.\n")


SECTIONS = {"deaths": deaths, "large-state": large_state, "torchrun": torchrun, "upkeep": upkeep,
            "simulator": simulator}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folders(parser)
    parser.add_argument("--events", type=int, default=200, help="deaths or hangs of each case")
    parser.add_argument("--trials", type=int, default=5, help="kills under torchrun")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="may be repeated")
    parser.add_argument("--update", type=pathlib.Path, help="the file to write the tables into")
    args = parser.parse_args()
    if args.update and not all(mark in args.update.read_text() for mark in MARKS):
        parser.error(f"{args.update} has no lines {' and '.join(MARKS)}")
    chosen = args.only or list(SECTIONS)
    for name in ("bench_recovery", "bench_train", "simulate_recovery"):
        if not (args.build / "benchmarks" / name).exists():
            parser.error(f"there is no {args.build / 'benchmarks' / name}; build the preset "
                         "'release', or name its folder by --build")
    if "torchrun" in chosen and not (args.peers / "pt/bin/python").exists():
        parser.error(f"there is no {args.peers / 'pt/bin/python'}; run benchmarks/peers/setup.sh, "
                     "or name its folder by --peers")
    here = machine()
    print(here)
    parts = [SECTIONS[name](args) for name in chosen]
    text = f"\n{here}\n" + "\n".join(parts)
    print(text)
    if args.update:
        before, rest = args.update.read_text().split(MARKS[0], 1)
        old, after = rest.split(MARKS[1], 1)
        if args.only:
            tables = [x for part in parts for x in re.split(r"(?m)^(?=\*\*)", part) if x]
            text = merged(old, here, tables)
        args.update.write_text(before + MARKS[0] + text + MARKS[1] + after)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))
