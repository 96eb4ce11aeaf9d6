#!/usr/bin/env python3
"""Executes closures on workers and servers that are killed at random, and checks that each counts once.

  scripts/closure-runs.py --runs 10                  10 jobs
  scripts/closure-runs.py --runs 1 --seed 1234       the job of a seed again
  scripts/closure-runs.py --runs 10 --copies 2       servers with a backup, which are killed too
  scripts/closure-runs.py --runs 10 --copies 2 --closure add

Each job has a coordinator, 1 to 3 parameter servers (`troupe node`) and 2 or 3 workers, all of them
processes. 500 closures move 1 from a variable x to y on another server, if x > y, else back, and add
1 to n; with --closure add they only add 1 to n. Two to five times a worker gets SIGKILL at a random
moment, and another one is started and added. A job passes if n is 500 and x + y is unchanged.

With --copies K each server has K copies on K or K + 1 processes. In each tenth of the closures a
worker or a server gets SIGKILL at a random moment, and another one is started and added. A server is
killed only when all copies have been in sync since the last loss. With --stop it gets SIGSTOP in
place of SIGKILL, and SIGCONT up to 2.5 s later, so it may go on as an old primary. Each job also
measures the longest time in which a server did not answer a read.

The last line is "closure runs: N passed, N failed, N workers killed", with copies also "N servers
killed, longest gap N ms, 99th percentile N ms" over the jobs. The exit code is 1 if a job failed or
nothing was killed. The same seed gives the same job, but the moments vary.
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

    def stop(self, seconds):
        """Stops the process. It goes on after some time, unless it is killed before."""
        self.process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self.process.send_signal, [signal.SIGCONT]).start()


class Job:
    """One job: what is wrong (None: nothing), how many processes were killed, and the longest gap."""

    def __init__(self, seed, args):
        self.args = args
        self.dice = random.Random(seed)
        self.wrong = None
        self.workers_killed = self.servers_killed = 0
        self.gap = None
        least = args.copies if args.copies > 1 else 1
        most = args.copies + 1 if args.copies > 1 else 3
        self.servers = [self.server() for _ in range(self.dice.randint(least, most))]
        self.workers = [self.worker() for _ in range(self.dice.randint(2, 3))]
        self.stopped = []
        self.kills = 10 if args.copies > 1 else self.dice.randint(2, 5)
        self.in_sync = False
        try:
            self.run()
        finally:
            for one in self.servers + self.workers + self.stopped:
                one.kill()

    def server(self):
        return Node(self.args.build / "troupe", "node")

    def worker(self):
        return Node(self.args.build / "programs/closures_node")

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill_one(self):
        victims = self.workers
        if self.args.copies > 1 and self.in_sync and self.dice.random() < 0.7:
            victims = self.servers
        victim = victims.pop(self.dice.randrange(len(victims)))
        if self.args.stop and victims is self.servers:
            victim.stop(self.dice.uniform(0.2, 2.5))
            self.stopped.append(victim)
        else:
            victim.kill()
        if victims is self.workers:
            self.workers_killed += 1
            self.workers.append(self.worker())
            self.send(self.workers[-1].address)
        else:
            self.servers_killed += 1
            self.in_sync = False
            self.servers.append(self.server())
            self.send("server " + self.servers[-1].address)

    def run(self):
        command = [self.args.build / "programs/closures_run", str(CLOSURES)]
        command += [",".join(x.address for x in all) for all in (self.servers, self.workers)]
        command += [self.args.closure, str(self.args.copies)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        end = threading.Timer(JOB_TIMEOUT, self.process.kill)
        end.start()
        last = ""
        try:
            for line in self.process.stdout:
                last = line.strip()
                if last == "in sync":
                    self.in_sync = True
                    continue
                if not last.startswith("scheduled"):
                    break
                if self.args.copies > 1:
                    self.send("go")
                if self.workers_killed + self.servers_killed < self.kills:
                    time.sleep(self.dice.uniform(0, 0.03 if self.args.copies > 1 else 0.01))
                    self.kill_one()
            self.process.stdin.close()
            self.process.wait()
            errors = self.process.stderr.read()
        except BrokenPipeError:
            self.process.wait()
            errors = self.process.stderr.read()
        finally:
            end.cancel()
        words = last.split()
        if self.process.returncode or len(words) < 6 or words[0] != "n":
            self.wrong = (f"exit code {self.process.returncode}, last line {last!r}, errors:\n"
                          f"{errors}")
            return
        n, x, y = (float(words[i]) for i in (1, 3, 5))
        if len(words) == 8:
            self.gap = int(words[7])
        if n != CLOSURES or x + y != 100:
            self.wrong = f"{last}; n should be {CLOSURES}, and x + y 100"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--copies", type=int, default=1, help="of each server (default: 1)")
    parser.add_argument("--closure", choices=("move", "add"), default="move")
    parser.add_argument("--stop", action="store_true", help="stop servers for some time, do not "
                        "kill them")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev",
                        help="build folder (default: %(default)s)")
    args = parser.parse_args()
    if not (args.build / "programs/closures_run").exists():
        parser.error(f"there is no {args.build}/programs/closures_run; build the preset dev, or "
                     "name its folder by --build")
    failed = workers = servers = 0
    gaps = []
    for seed in range(args.seed, args.seed + args.runs):
        job = Job(seed, args)
        workers += job.workers_killed
        servers += job.servers_killed
        failed += job.wrong is not None
        if job.gap is not None:
            gaps.append(job.gap)
        text = f"{job.workers_killed} workers killed"
        if args.copies > 1:
            text += f", {job.servers_killed} servers killed, longest gap {job.gap} ms"
        print(f"FAILED seed {seed}: {job.wrong}" if job.wrong else f"ok seed {seed}: {text}",
              flush=True)
    text = f"closure runs: {args.runs - failed} passed, {failed} failed, {workers} workers killed"
    if gaps:
        gaps.sort()
        text += (f", {servers} servers killed, longest gap {gaps[-1]} ms, 99th percentile "
                 f"{gaps[(99 * len(gaps) + 99) // 100 - 1]} ms")
    print(text)
    return 1 if failed or workers + servers == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
