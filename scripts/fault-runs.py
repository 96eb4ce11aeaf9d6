#!/usr/bin/env python3
"""Trains over real processes under random faults, and compares the weights with those of one
process.

  scripts/fault-runs.py --runs 10                  10 jobs
  scripts/fault-runs.py --runs 1 --seed 1234       the job of a seed again

Each job has 2 to 4 workers. Four of five jobs train `mlp` or `lenet` on generated digits, and are
started by `troupe train --workers N --restarts 20 --on-sigterm leave`. The others are a training
loop of its own with `reduce` in each step (tests/apps/programs/own_loop.cpp), started by `troupe
launch --restarts 20`. One to three faults happen at random times:

  kill   SIGKILL of a worker, which is started again and joins the job; never of the last one that has
         the complete state, while those that join still copy it
  most   SIGKILL of all workers but one that has the complete state, at once
  stop   SIGSTOP of a worker, and SIGCONT after less than the heartbeat timeout
  leave  SIGTERM to a worker, which leaves the job

Half of the jobs also have a plan of one or two faults that occur at exact steps (`--faults`): a kill
or a stop of a worker, delays of messages and packets, slow steps of a worker, the end of all
connections between two workers, or of all connections of one, a packet of a worker that is lost or
corrupt. A plan kills at most one worker, and
then only stops happen at random times. A loop of its own does not leave.

Without faults a job takes 5 to 15 seconds on two cores, depending on the processor. `--length 0.5` halves
the number of epochs.

A job passes if it ends with exit code 0 within the timeout, and its weights_sha256 is that of an
undisturbed run. So each step was made once, with the examples of its batch: a step with other examples
would have other gradients, on which all later weights depend. A training also has the same number of
examples, loss and accuracy in each epoch, in its summary. Workers of a loop that have not joined have the
same sum of all reduced values.
A job with a plan must report how many of its faults occurred. If the last worker was to leave, it must
have saved the run (exit code 130), and the resumed run must end with these weights.
The output of a job that fails is kept in build/fault-runs. The last line is "fault runs: N passed, N
failed", and the exit code is 1 if a job failed.
The same seed and options give the same job and faults, but the step at which a fault without a plan
happens varies. If a job ends before its first fault, another one is drawn in its place, with a seed of its
own, which is printed. If no fault happens in ten such jobs, the run has failed.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "fault-runs"
JOB_TIMEOUT = 180  # seconds
MAX_DRAWS = 10     # of jobs in which no fault happens, for one run
SEEDS = 10**6      # The seed of the first job is below it.
TRAINING = {
    "mlp": "train --model mlp --data digits:1400 --batch 24",
    "lenet": "train --model lenet --data digits:700 --batch 24",
}
LOOP = "own_loop"
LOOP_SHARE = 0.2
STEPS_PER_EPOCH = {"mlp": 50, "lenet": 25, LOOP: 50}
# By the number of workers.
EPOCHS = {"mlp": {2: 100, 3: 50, 4: 32}, "lenet": {2: 24, 3: 12, 4: 10},
          LOOP: {2: 24, 3: 12, 4: 9}}


@dataclasses.dataclass
class Fault:
    kind: str       # "kill", "most", "stop" or "leave"
    delay: float    # seconds after the fault before, or after the first epoch's start
    choice: float   # in [0, 1): which of the workers that run
    stopped: float  # seconds for which "stop" stops the worker


@dataclasses.dataclass
class Job:
    seed: int
    model: str
    workers: int
    faults: list
    plan: dict      # the JSON form of a plan of faults. None: there is none
    length: float   # factor of the number of epochs

    @staticmethod
    def of_seed(seed, length=1.0):
        dice = random.Random(seed)
        model, workers = dice.choice(list(TRAINING)), dice.randint(2, 4)
        faults = [Fault(dice.choice(("kill", "most", "stop", "leave")), dice.uniform(0.1, 1.5),
                        dice.random(), dice.uniform(0.05, 0.6))
                  for _ in range(dice.randint(1, 3))]
        if dice.random() < LOOP_SHARE:
            model = LOOP
            for fault in faults:
                fault.kind = "kill" if fault.kind == "leave" else fault.kind
        # The last planned faults are at half of the steps.
        steps = STEPS_PER_EPOCH[model] * epochs_of(model, workers, length)
        plan = plan_of(dice, steps, workers) if dice.random() < 0.5 else None
        if plan and any(x["kind"] == "kill" for x in plan["faults"]):
            # Otherwise the last process could be the one that the plan kills.
            faults = [x for x in faults if x.kind == "stop"]
        return Job(seed, model, workers, faults, plan, length)

    def __str__(self):
        planned = ", ".join(x["kind"] for x in self.plan["faults"]) if self.plan else "none"
        return f"seed {self.seed}: {self.model}, {self.workers} workers, planned: {planned}"

    def undisturbed(self, tool, summary):
        """Command of the job without faults."""
        if self.model == LOOP:
            return [loop_beside(tool), "one_device", str(self.workers), self.epochs()]
        return [*self.training(tool, summary), "--strategy", "one_device"]

    def command(self, tool, saved, plan_file, summary):
        planned = ["--faults", str(plan_file)] if self.plan else []
        if self.model == LOOP:
            return [tool, "launch", "-n", str(self.workers), "--restarts", "20", *planned, "--",
                    loop_beside(tool), "workers", self.epochs()]
        return [*self.training(tool, summary), "--workers", str(self.workers), "--restarts", "20",
                "--on-sigterm", "leave", "--save", str(saved), *planned]

    def training(self, tool, summary):
        return [tool, *TRAINING[self.model].split(), "--epochs", self.epochs(), "--replicas",
                str(self.workers), "--summary", str(summary)]

    def epochs(self):
        return str(epochs_of(self.model, self.workers, self.length))


def epochs_of(model, workers, length):
    return max(4, round(EPOCHS[model][workers] * length))


def loop_beside(tool):
    return str(pathlib.Path(tool).parent / "programs" / LOOP)


def plan_of(dice, steps, workers):
    """Draws a plan of one or two faults."""
    kinds = ["kill", "stop", "delay", "slow", "cut", "disconnect", "drop", "corrupt"]
    faults = []
    for _ in range(dice.randint(1, 2)):
        kind = dice.choice(kinds)
        if kind == "kill":
            kinds.remove(kind)
        process, peer = dice.sample(range(workers), 2)
        step = dice.randrange(1, steps // 2)
        faults.append({
            "kill": {"process": process, "step": step},
            "stop": {"process": process, "step": step, "duration_ms": dice.randint(50, 500)},
            "delay": {"probability": dice.choice((0.001, 0.01)), "max_delay_ms": 5},
            "slow": {"process": process, "step": step, "delay_ms": 10, "steps": 20},
            "cut": {"process": process, "peer": peer, "step": step},
            "disconnect": {"process": process, "step": step},
            "drop": {"process": process, "step": step},
            "corrupt": {"process": process, "step": step},
        }[kind] | {"kind": kind})
    return {"seed": dice.randrange(2**32), "faults": faults}


def weights_in(output):
    """The hash of the weights, of a loop with the sum of all reduced values."""
    found = re.search(r"^(?:\[[^]]*\] )?(?:weights_sha256|weights) (\w+(?: losses \S+)?)$", output,
                      re.MULTILINE)
    return found and found.group(1)


def has_weights(output, expected):
    """True if all workers that print a result print the expected one. A worker that has joined a loop
    prints no sum of its values."""
    found = re.findall(r"^(?:\[[^]]*\] )?(?:weights_sha256|weights) (\w+(?: losses \S+)?)$", output,
                       re.MULTILINE)
    return bool(found) and all(x in (expected, expected.split()[0]) for x in found)


def epochs_in(summary):
    """The results of each epoch in a summary file, without times."""
    epochs = json.loads(summary.read_text())["epochs"]
    return [{key: value for key, value in x.items() if key != "seconds"} for x in epochs]


class Oracle:
    """Weights and epochs of undisturbed runs, by model and number of replicas."""

    def __init__(self, tool):
        self.tool = tool
        self.known = {}

    def results_of(self, job):
        key = job.model, job.workers
        if key not in self.known:
            summary = KEPT / "undisturbed.json"
            done = subprocess.run(job.undisturbed(self.tool, summary), capture_output=True,
                                  text=True, timeout=JOB_TIMEOUT, check=True)
            epochs = None
            if job.model != LOOP:
                epochs = epochs_in(summary)
                summary.unlink()
            self.known[key] = weights_in(done.stdout), epochs
        return self.known[key]


def children_of(process):
    try:
        text = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    except OSError:
        return []
    return [int(x) for x in text.split()]


def have_all_joined(text):
    """True if a step was made after all restarted workers have joined, so that they have the state."""
    epochs = list(re.finditer(r"^(?:\[[^]]*\] )?epoch \d+/", text, re.MULTILINE))
    joins = [x.start() for x in re.finditer("a process has joined", text)]
    return (text.count("it is started again") == len(joins)
            and (not joins or epochs[-1].start() > joins[-1]))


def inject(fault, process, having_state, leaving):
    """Returns what was done to which process, or None if the job has ended or would be lost. A process
    that leaves is added to `leaving`."""
    workers = children_of(process)
    if fault.kind == "most":
        return kill_most(fault, workers, having_state - leaving)
    if fault.kind == "kill":
        workers = [x for x in workers if (having_state - leaving) & (set(workers) - {x})]
    if not workers:
        return None
    target = workers[int(fault.choice * len(workers))]
    try:
        if fault.kind == "kill":
            os.kill(target, signal.SIGKILL)
        elif fault.kind == "leave":
            os.kill(target, signal.SIGTERM)
            leaving.add(target)
        else:
            os.kill(target, signal.SIGSTOP)
            time.sleep(fault.stopped)
            os.kill(target, signal.SIGCONT)
    except ProcessLookupError:
        return None
    return f"{fault.kind} of process {target}"


def kill_most(fault, workers, candidates):
    """Kills all workers but one of `candidates`. Returns as `inject`."""
    candidates = sorted(candidates & set(workers))
    if not candidates or len(workers) < 2:
        return None
    left = candidates[int(fault.choice * len(candidates))]
    targets = [x for x in workers if x != left]
    for target in targets:
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return f"kill of processes {' and '.join(map(str, targets))}"


def weights_of_resumed(saved, tool, summary):
    done = subprocess.run([tool, "train", "--resume", str(saved), "--save", str(saved),
                           "--summary", str(summary)],
                          capture_output=True, text=True, timeout=JOB_TIMEOUT)
    return weights_in(done.stdout)


def has_begun(errors, process):
    """Waits until the first epoch has begun, of a loop until it has ended."""
    end = time.monotonic() + JOB_TIMEOUT
    while "epoch 1/" not in errors.read_text() and process.poll() is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return process.poll() is None


def kill_all(process):
    for one in [*children_of(process), process.pid]:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def run(job, tool, oracle, keep):
    """Returns (what is wrong or None, the faults that happened, number of joins)."""
    expected, epochs = oracle.results_of(job)
    output, errors, saved, plan, summary = (
        KEPT / f"{job.seed}.{x}" for x in ("out", "err", "troupe", "plan.json", "summary.json"))
    if job.plan:
        plan.write_text(json.dumps(job.plan))
    done = []  # What was injected. None: the job had ended.
    with open(output, "w") as out, open(errors, "w") as err:
        process = subprocess.Popen(job.command(tool, saved, plan, summary), stdout=out, stderr=err)
        begun = has_begun(errors, process)
        having_state, leaving = set(children_of(process)), set()
        for fault in job.faults if begun else []:
            time.sleep(fault.delay)
            if have_all_joined(errors.read_text()):
                having_state |= set(children_of(process))
            if process.poll() is None:
                done.append(inject(fault, process, having_state, leaving))
        try:
            process.wait(JOB_TIMEOUT)
        except subprocess.TimeoutExpired:
            kill_all(process)
            return f"no end within {JOB_TIMEOUT} s", [x for x in done if x], 0
    text = errors.read_text()
    problem = None
    reported = re.search(r"^faults: (\d+) of", text, re.MULTILINE)
    planned = int(reported.group(1)) if reported else 0
    kills = (any(x and x.startswith("kill") for x in done)
             or ", kill of process" in text)
    cuts = job.plan and any(x["kind"] in ("cut", "disconnect", "drop", "corrupt")
                            for x in job.plan["faults"])
    was_saved = process.returncode == 130 and any(x and x.startswith("leave") for x in done)
    if was_saved and weights_of_resumed(saved, tool, summary) != expected:
        problem = f"the weights of the resumed run are not {expected}"
    elif process.returncode != 0 and not was_saved:
        problem = f"exit code {process.returncode}: {(text.splitlines() or [''])[-1]}"
    elif not was_saved and not has_weights(output.read_text(), expected):
        problem = f"weights_sha256 is not {expected}"
    elif epochs and epochs_in(summary) != epochs:
        problem = "the results of the epochs are not those of the undisturbed run"
    elif "was lost" in text and not kills and not cuts:
        problem = "a process that was stopped for a moment was taken for lost"
    elif job.plan and not reported:
        problem = "it does not report which faults of the plan occurred"
    if problem is None and not keep:
        for one in (output, errors, saved, plan, summary):
            one.unlink(missing_ok=True)
    return (problem, [x for x in done if x] + ["planned fault"] * planned,
            text.count("a process has joined"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="seed of the first job")
    parser.add_argument("--length", type=float, default=1.0,
                        help="factor of the number of epochs of each job [1]")
    parser.add_argument("--keep", action="store_true", help="keep the output of all jobs")
    parser.add_argument("--tool", default=None, help="the tool [build/release/troupe, or dev]")
    options = parser.parse_args()
    tools = [ROOT / "build" / x / "troupe" for x in ("release", "dev")]
    tool = options.tool or next((str(x) for x in tools if x.exists()), None)
    if tool is None:
        parser.error(f"build the tool first: neither {tools[0]} nor {tools[1]} exists")
    if not os.path.exists(loop_beside(tool)):
        parser.error(f"build the target program_{LOOP} first: {loop_beside(tool)} does not exist")
    KEPT.mkdir(parents=True, exist_ok=True)
    first = random.SystemRandom().randrange(SEEDS) if options.seed is None else options.seed
    oracle = Oracle(tool)
    passed = failed = joins = undisturbed = 0
    counts = {"kill": 0, "stop": 0, "leave": 0, "planned": 0}
    for seed in range(first, first + options.runs):
        for draw in range(MAX_DRAWS):
            job = Job.of_seed(seed + draw * SEEDS, options.length)
            began = time.monotonic()
            problem, done, joined = run(job, tool, oracle, options.keep)
            seconds = time.monotonic() - began
            if problem or done:
                break
            undisturbed += 1
            print(f"--  {job}, {seconds:.1f} s, ended before its faults", flush=True)
        else:
            problem = f"no fault happened in {MAX_DRAWS} jobs"
        joins += joined
        for one in done:
            counts[one.split()[0]] += 1
        failed += problem is not None
        passed += problem is None
        output = KEPT / f"{job.seed}.err"
        print(f"{'FAILED' if problem else 'ok'}  {job}, {seconds:.1f} s, {', '.join(done) or 'no fault'}"
              + (f": {problem}" if problem else "")
              + (f" (see {output})" if problem and output.exists() else ""), flush=True)
    print(f"{counts['kill']} kills of one or most processes, {joins} joins, {counts['stop']} processes stopped, "
          f"{counts['leave']} leaves, {counts['planned']} planned faults; {undisturbed} other jobs ended "
          "before their faults")
    print(f"fault runs: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
