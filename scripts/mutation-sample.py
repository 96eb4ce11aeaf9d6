#!/usr/bin/env python3
"""Tests a random sample of small changes (mutations) to the sources of a folder.
Makes one change at a time in a copy of the tree, in build/mutation, and runs the
tests that can detect it. If all these tests pass, the change is a survivor. A
survivor needs a new test, or a line in tests/mutation/equivalent.txt that says
why the change makes no difference. That file describes the format of a line.

  scripts/mutation-sample.py --folder strategies --count 60 --seed 1
  scripts/mutation-sample.py --folder strategies --seed 1 --only 3,17
  scripts/mutation-sample.py --folder strategies --at failure_handling.cpp:127
  scripts/mutation-sample.py --folder strategies --list
  scripts/mutation-sample.py --check     checks that each line of equivalent.txt matches a change

A seed draws the same sample as long as the sources do not change. The exit
status is 1 if a survivor has no line in equivalent.txt; with --check, if a line
of equivalent.txt matches no change.
"""
import argparse
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from mutations import candidates_of  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "mutation" / "troupe"
EXPLAINED = ROOT / "tests" / "mutation" / "equivalent.txt"

# The test programs that can detect a change to a folder, the cheapest first.
PROGRAMS = {
    "strategies": ["strategies_tests", "actors_tests", "simulation_tests"],
    "actors": ["actors_tests", "simulation_tests"],
}
# Cases that are left out because they take minutes.
SLOW = ["*ThousandSeeds*"]
MAX_MEMORY_BYTES = 4 << 30  # Limit of a test program, without shared mappings.
BUILD_TIMEOUT = 1800        # Seconds.


class Failure(Exception):
    """Ends the run with an error message."""

def update_copy():
    """Makes the copy equal to the tree. Equal files keep their modification times,
    so that the next build of the copy compiles only changed files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in names:
        source, copy = ROOT / name, COPY / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    for top in COPY.iterdir():
        if top.name == "build":
            continue
        for path in [top, *top.rglob("*")]:
            if path.is_file() and str(path.relative_to(COPY)) not in names:
                path.unlink()


def prepare():
    os.nice(10)


def run(command, log, timeout, before=prepare):
    """Runs a command and writes its output to a file.
    @returns its exit status, or None if it took longer than the timeout."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, cwd=COPY, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, preexec_fn=before, start_new_session=True)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # the command and its descendants
            except ProcessLookupError:
                pass
            process.wait()


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Build:
    """The build folder of the copy."""

    def __init__(self, preset, jobs):
        self.preset, self.jobs = preset, jobs
        self.tree = COPY / "build" / preset
        self.log = COPY / "build" / "mutation.log"
        self.cpu_limits, self.timeouts = {}, {}  # Seconds, by program.

    def configure(self):
        self.tree.mkdir(parents=True, exist_ok=True)
        if shutil.which("ccache"):
            os.environ.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
        if run(["cmake", "--preset", self.preset], self.log, BUILD_TIMEOUT) != 0:
            raise Failure(f"the copy cannot be configured; see {self.log}")

    def make(self, program):
        command = ["ninja", "-C", str(self.tree), f"-j{self.jobs}", program]
        return run(command, self.log, BUILD_TIMEOUT) == 0

    def measure(self, program):
        """Builds and runs a program without a change, to measure its time."""
        if not self.make(program):
            raise Failure(f"{program} does not build without any change; see {self.log}")
        self.cpu_limits[program] = self.timeouts[program] = 1800
        began, used = time.monotonic(), cpu_seconds()
        if case := self.failed_case(program)[0]:
            raise Failure(f"{case} fails without any change; see {self.log}")
        took, used = time.monotonic() - began, cpu_seconds() - used
        self.cpu_limits[program] = int(5 + 3 * used)
        self.timeouts[program] = 30 + 5 * took  # The processor may be shared.
        print(f"{program} passes in {took:.0f} s, {used:.0f} s of the processor", flush=True)

    def failed_case(self, program, only="*", without=()):
        """@returns the first case that fails (empty: none), and true if the program
        took too long."""
        def limit():
            prepare()
            for what, most in ((resource.RLIMIT_CPU, self.cpu_limits[program]),
                               (resource.RLIMIT_DATA, MAX_MEMORY_BYTES),
                               (resource.RLIMIT_CORE, 0)):
                resource.setrlimit(what, (most, most))

        command = [str(self.tree / program), "--gtest_fail_fast", "--gtest_color=no",
                   f"--gtest_filter={only}-{':'.join([*SLOW, *without])}"]
        status = run(command, self.log, self.timeouts[program], limit)
        if status == 0:
            return "", False
        text = self.log.read_text(errors="replace")
        failed = re.findall(r"^\[  FAILED  \] (\w\S*?),? ", text, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
        late = status in (None, -signal.SIGKILL, -signal.SIGXCPU)
        return (failed or begun[-1:] or ["its start"])[0], late

    def killer(self, program):
        """@returns the case that detects the change; empty: none. A case that fails
        and passes when it is repeated does not count: it depends on time."""
        fickle = []
        while True:
            case, late = self.failed_case(program, without=fickle)
            if not case or late or len(fickle) == 3:
                return case + ", which took too long" if late else case
            if self.failed_case(program, only=case)[0]:
                return case
            fickle.append(case)


def all_changes(folder):
    files = sorted(path for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".cpp", ".hpp"))
    return [change for path in files
            for change in candidates_of(str(path.relative_to(ROOT)), path.read_text())]


def explanations():
    lines = EXPLAINED.read_text().splitlines() if EXPLAINED.is_file() else []
    return [line for line in lines if line and not line.startswith("#")]


def explanation_of(change, lines):
    head = f"{change.file}: {change.text}: "
    return next((line[len(head):] for line in lines if line.startswith(head)), "")


def unfit_lines(lines):
    folders = {line.split("/")[0] for line in lines}
    changes = [x for folder in sorted(folders) for x in all_changes(folder)]
    fit = {line for x in changes for line in lines
           if line.startswith(f"{x.file}: {x.text}: ")}
    return [line for line in lines if line not in fit]


def outcome_of(change, build, programs):
    """Makes a change, builds it and runs the programs.
    @returns the outcome: one word, and the rest of the line to print."""
    path = COPY / change.file
    source = path.read_text()
    path.write_text(change.of(source))
    try:
        for program in programs:
            if not build.make(program):
                return "invalid", ": does not build; another one is drawn"
            if case := build.killer(program):
                return "killed", f" by {program} {case}"
        return "SURVIVED", ""
    finally:
        path.write_text(source)


def chosen(changes, options):
    """@returns a list of (number of the draw, change) in the order of the draws, and the
    number of changes to try."""
    order = list(changes)
    random.Random(options.seed).shuffle(order)
    drawn = list(enumerate(order, 1))
    if options.only:
        wanted = [int(number) for number in options.only.split(",")]
        return [drawn[number - 1] for number in wanted], len(wanted)
    if options.at:
        drawn = [x for x in drawn if x[1].place().endswith("/" + options.at)]
        return drawn, len(drawn)
    return drawn, options.count


def try_all(options):
    changes = all_changes(options.folder)
    drawn, count = chosen(changes, options)
    if not drawn:
        raise Failure(f"there is no change to make in {options.at or options.folder}")
    if options.list:
        for number, change in drawn[:count] if options.only or options.at else drawn:
            print(f"{number:4} {change.place()}: {change.text}")
        return True
    lines = explanations()
    programs = (options.programs.split(",") if options.programs else
                PROGRAMS.get(options.folder, [f"{options.folder}_tests"]))
    COPY.mkdir(parents=True, exist_ok=True)
    update_copy()
    build = Build(options.preset, options.jobs)
    build.configure()
    for program in programs:
        build.measure(program)

    print(f"seed {options.seed}, {len(changes)} changes to draw from", flush=True)
    tally = dict.fromkeys(["killed", "explained", "SURVIVED", "invalid"], 0)
    survivors, tried = [], 0
    while tried < min(count, len(drawn)):
        valid = sum(tally.values()) - tally["invalid"]
        batch = drawn[tried:tried + count - valid]
        if not batch:
            break
        tried += len(batch)
        # Sorting by file saves compilations: consecutive changes share a file.
        for number, change in sorted(batch, key=lambda x: (x[1].file, x[1].begin)):
            started = time.monotonic()
            why = explanation_of(change, lines)
            if why and not (options.only or options.at):
                word, rest = "explained", f": {why}"
            else:
                word, rest = outcome_of(change, build, programs)
            tally[word] += 1
            if word == "SURVIVED":
                survivors.append(str(number))
            print(f"{number:4} {change.place()}: {change.text}: {word}{rest}"
                  f" ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{options.folder}, seed {options.seed}: {tally['killed']} killed, "
          f"{tally['explained']} explained, {tally['SURVIVED']} survived; "
          f"{tally['invalid']} did not build")
    if survivors:
        print(f"again: {sys.argv[0]} --folder {options.folder} --seed {options.seed} "
              f"--only {','.join(survivors)}")
    return not survivors


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="strategies")
    parser.add_argument("--count", type=int, default=60, help="number of changes that build (60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (1)")
    parser.add_argument("--only", metavar="N,...", help="only these draws of the seed")
    parser.add_argument("--at", metavar="FILE:LINE", help="try all changes of a line")
    parser.add_argument("--list", action="store_true", help="print the changes without trying them")
    parser.add_argument("--check", action="store_true",
                        help="only check that each line of equivalent.txt matches a change")
    parser.add_argument("--programs", metavar="NAME,...",
                        help="test programs to run, in this order (those of the folder)")
    parser.add_argument("--preset", default="dev", help="preset of CMakePresets.json (dev)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # ends commands too
    try:
        if options.check:
            unfit = unfit_lines(explanations())
            for line in unfit:
                print(f"{EXPLAINED.relative_to(ROOT)}: matches no change: {line}")
            return 1 if unfit else 0
        return 0 if try_all(options) else 1
    except Failure as failure:
        sys.exit(f"mutation-sample.py: {failure}")


if __name__ == "__main__":
    sys.exit(main())
