#!/usr/bin/env python3
"""Executes closures on workers that are killed at random, and checks that each counts once.

  scripts/closure-runs.py --runs 10                  10 jobs
  scripts/closure-runs.py --runs 1 --seed 1234       the job of a seed again

Each job has a coordinator, 1 to 3 parameter servers (`troupe node`) and 2 or 3 workers, all of them
processes. 500 closures move 1 from a variable x to y on another server, if x > y, else back, and add
1 to n. Two to five times a worker gets SIGKILL at a random moment, and another one is started and
added. A job passes if n is 500 and x + y is unchanged.

The last line is "closure runs: N passed, N failed, N workers killed", and the exit code is 1 if a job
failed or no worker was killed. The same seed gives the same job, but the moments vary.
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLOSURES = 500
JOB_TIMEOUT = 120  # seconds


class Node:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def run(seed, build):
    """Returns what is wrong, or None, and the number of workers that were killed."""
    dice = random.Random(seed)
    servers = [Node(build / "troupe", "node") for _ in range(dice.randint(1, 3))]
    workers = [Node(build / "programs/closures_node") for _ in range(dice.randint(2, 3))]
    kills = dice.randint(2, 5)
    killed = 0
    job = subprocess.Popen(
        [build / "programs/closures_run", str(CLOSURES), ",".join(x.address for x in servers),
         ",".join(x.address for x in workers)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = threading.Timer(JOB_TIMEOUT, job.kill)
    end.start()
    last = ""
    try:
        for line in job.stdout:
            last = line.strip()
            if not last.startswith("scheduled"):
                break
            if killed < kills:
                time.sleep(dice.uniform(0, 0.01))
                victim = workers.pop(dice.randrange(len(workers)))
                victim.kill()
                killed += 1
                workers.append(Node(build / "programs/closures_node"))
                job.stdin.write(workers[-1].address + "\n")
                job.stdin.flush()
        job.stdin.close()
        job.wait()
        errors = job.stderr.read()
    finally:
        end.cancel()
        for one in servers + workers:
            one.kill()
    words = last.split()
    if job.returncode or len(words) != 6 or words[0] != "n":
        return f"exit code {job.returncode}, last line {last!r}, errors:\n{errors}", killed
    n, x, y = (float(words[i]) for i in (1, 3, 5))
    if n != CLOSURES or x + y != 100:
        return f"{last}; n should be {CLOSURES}, and x + y 100", killed
    return None, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev",
                        help="build folder (default: %(default)s)")
    args = parser.parse_args()
    if not (args.build / "programs/closures_run").exists():
        parser.error(f"there is no {args.build}/programs/closures_run; build the preset dev, or "
                     "name its folder by --build")
    failed = killed = 0
    for seed in range(args.seed, args.seed + args.runs):
        wrong, count = run(seed, args.build)
        killed += count
        failed += wrong is not None
        print(f"FAILED seed {seed}: {wrong}" if wrong else f"ok seed {seed}: {count} workers killed",
              flush=True)
    print(f"closure runs: {args.runs - failed} passed, {failed} failed, {killed} workers killed")
    return 1 if failed or not killed else 0


if __name__ == "__main__":
    sys.exit(main())
