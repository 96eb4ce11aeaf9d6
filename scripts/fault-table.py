#!/usr/bin/env python3
"""Trains over real processes under each kind of fault, and prints a table of how the jobs ended.

  scripts/fault-table.py --runs 400 --seed 1                  400 jobs, the kinds in turn
  scripts/fault-table.py --kind stops --runs 20               jobs of one kind
  scripts/fault-table.py --kind stops --seed 1234 --runs 1    a job again

The kinds:

  kills        SIGKILL of two to four workers, one after the other
  stops        SIGSTOP of two workers for longer than the heartbeat timeout, then SIGCONT
  flapping     four to eight short stops of workers
  joins        SIGKILL of a worker, and of the one that is started in its place, while it joins; twice
  cuts         connections that end, and packets that are lost or corrupt, at planned steps
  one-way      packets of one host to another one are dropped, twice; not those in the other direction
  partitions   one or two of five hosts are cut off from the others for some time, twice
  disk         the disk of --save becomes full, and a worker is killed
  descriptors  the limit of open files of two workers is lowered to about what they have, and another
               worker is killed
  signals      SIGKILL of a worker, then SIGINT, SIGTERM or SIGHUP to the launcher

The workers of `one-way` and `partitions` run in network namespaces, each with an address of its own, and
without a launcher. These kinds need root, and are left out without it. All other jobs are started by
`troupe train --workers N --restarts 20`.

A job counts only if at least two faults happened after its first epoch and before its last one ended, as
its output shows; otherwise a job with another seed is drawn, which is printed. It must end within 60 s
after its last fault, in one of two ways:

  by hash      exit code 0, and each weights_sha256 that is printed is the one of an undisturbed run; or exit
               code 130, and the resumed run has that hash
  by sentence  another exit code, and an error for which docs/failures.md has a row (SENTENCES below)

No process and no file in /dev/shm or in the folder for temporary files may be left, and no process may end
by a signal that the script has not sent. The output of a job that fails is kept in build/fault-table. The
last line is "fault table: N passed, N failed", and the exit code is 1 if a job failed.
"""
import argparse
import atexit
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "fault-table"
END_LIMIT = 60   # seconds from the last fault to the end of the job
START_LIMIT = 60  # seconds until the first epoch has ended
STRAY_LIMIT = 5   # seconds from the end of the job to that of its last process
MIN_FAULTS = 2
MAX_DRAWS = 20   # of jobs with too few faults, for one run
MARK = "TROUPE_FAULT_TABLE"  # in the environment of all processes of a job
HOST_KINDS = ("one-way", "partitions")
KINDS = ("kills", "stops", "flapping", "joins", "cuts", "one-way", "partitions", "disk", "descriptors",
         "signals")
NETWORK = {"version": 1, "name": "small", "input": [28, 28, 1], "layers": [
    {"type": "flatten"}, {"type": "dense", "units": 16, "activation": "relu"},
    {"type": "dropout", "rate": 0.2}, {"type": "dense", "units": 10}]}

SILENT_KINDS = ("stops", "flapping", "one-way", "partitions")

# The errors by which a job may end: a row of docs/failures.md, which is checked, the kinds of faults that can
# lead to it, and a pattern of the text.
SENTENCES = [
    ("a worker is stopped for longer, and more than half are left", SILENT_KINDS,
     r"could not reach this one and go on without it"),
    ("more than half of the workers are lost without such a launcher, or after a process that it has not "
     "started has asked to join and could be reached; or half of the workers are lost, one of which is not known to "
     "be dead",
     SILENT_KINDS, r"worker \d+(, the leader,)? was (lost|disconnected)|has begun a change of the view"
     r"|no more than half|reaches no majority"),
    ("the only worker with the complete state is lost while those that have joined still copy it",
     ("kills", "joins", "descriptors"),
     r"no process has the state|the last process with the state of the job|the connections to all its processes "
     r"have ended"),
    ("the disk of `--save` is full when the training has ended", ("disk",),
     r"cannot write .*: No space left on device"),
]


@dataclasses.dataclass
class Result:
    verdict: str         # "hash", "sentence", "too few faults", or what is wrong
    faults: list         # texts of the faults that happened in time
    seconds: float
    last: str = ""       # last line of the errors

    @property
    def passed(self):
        return self.verdict in ("hash", "sentence")


class Hosts:
    """Network namespaces on one bridge, which has a namespace too."""

    def __init__(self, count):
        self.names = []
        self.prefix = f"troupe{os.getpid()}x{threading.get_ident() % 100000}"
        atexit.register(self.close)
        self.bridge = self.add("s")
        self.ip(self.bridge, "link", "add", "name", "br0", "type", "bridge")
        self.ip(self.bridge, "link", "set", "br0", "up")
        self.hosts = []
        for i in range(count):
            host = self.add(f"h{i}")
            self.hosts.append(host)
            call("ip", "link", "add", "name", "v0", "netns", host, "type", "veth", "peer", "name", f"p{i}",
                 "netns", self.bridge)
            self.ip(self.bridge, "link", "set", f"p{i}", "master", "br0", "up")
            self.ip(host, "addr", "add", f"{address(i)}/24", "dev", "v0")
            self.ip(host, "link", "set", "v0", "up")
            self.ip(host, "link", "set", "lo", "up")
            # Rules that drop packets stand before the one for local addresses.
            self.ip(host, "rule", "add", "pref", "100", "lookup", "local")
            self.ip(host, "rule", "del", "pref", "0")

    def add(self, name):
        full = self.prefix + name
        call("ip", "netns", "add", full)
        self.names.append(full)
        return full

    @staticmethod
    def ip(namespace, *arguments):
        call("ip", "-n", namespace, *arguments)

    def drop(self, sender, receiver):
        """Drops all packets of one host to another, without a word to the sender."""
        self.ip(self.hosts[receiver], "rule", "add", "pref", str(10 + sender), "from", address(sender),
                "blackhole")

    def heal(self, sender, receiver):
        self.ip(self.hosts[receiver], "rule", "del", "pref", str(10 + sender))

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        self.names = []


def address(host):
    return f"192.0.2.{host + 1}"


def call(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def children_of(pid):
    try:
        return [int(x) for x in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def marked(mark):
    """Processes of a job that live."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in pathlib.Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            pass
    return found


def hashes_in(text):
    return re.findall(r"^(?:\[[^]]*\] )?weights_sha256 (\w+)$", text, re.MULTILINE)


class Job:
    """One job, its folder, and the faults that happened while it trained."""

    def __init__(self, seed, kind, options):
        self.seed, self.kind, self.tool = seed, kind, options.tool
        self.dice = random.Random(f"{seed} {kind}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{seed}-{kind}-", dir=KEPT))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.mark = f"{MARK}={os.getpid()}-{seed}-{kind}"
        self.faults, self.late = [], 0
        self.began = time.monotonic()
        self.last_fault = self.began
        self.network = self.folder / "small.json"
        self.network.write_text(json.dumps(NETWORK))
        self.epochs = self.dice.choice((120, 160, 200))
        self.data = self.dice.choice(("digits:200", "digits:120"))

    def options(self):
        return ["--model", str(self.network), "--data", self.data, "--batch", "20", "--epochs",
                str(self.epochs)]

    def environment(self, **more):
        name, value = self.mark.split("=")
        return dict(os.environ, TMPDIR=str(self.temporary), **{name: value}, **more)

    # -- what the job has printed -------------------------------------------------------

    def text(self):
        return "".join(x.read_text(errors="replace") for x in sorted(self.folder.glob("*.err")))

    def output(self):
        return "".join(x.read_text(errors="replace") for x in sorted(self.folder.glob("*.out")))

    def is_training(self):
        text = self.text()
        return "epoch 1/" in text and f"epoch {self.epochs}/{self.epochs}" not in text

    def has_begun(self):
        """Waits until the first epoch has ended."""
        while "epoch 1/" not in self.text():
            if not self.lives() or time.monotonic() - self.began > START_LIMIT:
                return False
            time.sleep(0.01)
        return True

    def note(self, text):
        """Counts a fault that has just happened, if the job still trains."""
        self.last_fault = time.monotonic()
        if self.is_training():
            self.faults.append(f"{self.last_fault - self.began:.2f} {text}")
        else:
            self.late += 1

    def pause(self, low, high):
        end = time.monotonic() + self.dice.uniform(low, high)
        while time.monotonic() < end and self.lives():
            time.sleep(0.005)

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
            return True
        except ProcessLookupError:
            return False

    def kill_strays(self):
        left = marked(self.mark)
        for pid in left:
            self.signal(pid, signal.SIGKILL)
        return left


class LaunchedJob(Job):
    """A job of `troupe train --workers`."""

    def __init__(self, seed, kind, options):
        super().__init__(seed, kind, options)
        self.workers = self.dice.choice((3, 3, 4)) if kind != "kills" else self.dice.choice((2, 3, 3, 4))
        self.replicas = self.workers
        self.saved = self.folder / "saved" / "job.troupe"
        self.saved.parent.mkdir()
        self.transport = self.dice.choice(("auto", "auto", "shm", "tcp", "tls"))

    def start(self):
        command = [self.tool, "train", *self.options(), "--workers", str(self.workers), "--restarts", "20",
                   "--transport", self.transport, "--save", str(self.saved)]
        if self.kind == "cuts":
            plan = self.folder / "plan.json"
            plan.write_text(json.dumps(self.plan()))
            command += ["--faults", str(plan)]
        if self.kind == "disk":
            call("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(self.saved.parent))
        with open(self.folder / "job.out", "w") as out, open(self.folder / "job.err", "w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=self.environment(),
                                            cwd=self.folder)

    def lives(self):
        return self.process.poll() is None

    def children(self):
        return children_of(self.process.pid)

    def kill(self, pid=None):
        workers = self.children()
        if pid is None and workers:
            pid = self.dice.choice(workers)
        if pid in workers and self.signal(pid, signal.SIGKILL):
            self.note(f"kill of process {pid}")
            return pid
        return None

    def stop(self, low, high):
        workers = self.children()
        if not workers:
            return
        pid = self.dice.choice(workers)
        if self.signal(pid, signal.SIGSTOP):
            self.note(f"stop of process {pid}")
            self.pause(low, high)
            self.signal(pid, signal.SIGCONT)
            self.last_fault = time.monotonic()

    def plan(self):
        """Two or three planned faults in the first half of the steps."""
        steps = self.epochs * (8 if self.data == "digits:200" else 5)
        faults = []
        for _ in range(self.dice.randint(2, 3)):
            process, peer = self.dice.sample(range(self.workers), 2)
            kind = self.dice.choice(("cut", "disconnect", "drop", "corrupt"))
            faults.append({"kind": kind, "process": process, "step": self.dice.randrange(20, steps // 2)}
                          | ({"peer": peer} if kind == "cut" else {}))
        return {"seed": self.dice.randrange(2**32), "faults": faults}

    def inject(self):
        getattr(self, "inject_" + self.kind.replace("-", "_"))()

    def inject_kills(self):
        for _ in range(self.dice.randint(2, 4)):
            self.kill()
            self.pause(0, 0.8)

    def inject_stops(self):
        for _ in range(2):
            self.stop(0.95, 2.0)
            self.pause(0.1, 0.8)

    def inject_flapping(self):
        for _ in range(self.dice.randint(4, 8)):
            self.stop(0.2, 1.1)
            self.pause(0, 0.2)

    def inject_joins(self):
        for _ in range(2):
            before = set(self.children())
            self.kill()
            end = time.monotonic() + 4
            while time.monotonic() < end and self.lives():
                joining = set(self.children()) - before
                if joining:
                    self.pause(0, 0.4)
                    self.kill(joining.pop())
                    break
                time.sleep(0.003)
            self.pause(0, 0.5)

    def inject_cuts(self):
        """The plan injects them. The tool reports which occurred."""

    def inject_disk(self):
        filler = self.saved.parent / "filler"
        try:
            with open(filler, "wb") as out:
                while True:
                    out.write(bytes(4096))
                    out.flush()
        except OSError:
            self.note("full disk")
        self.pause(0, 0.4)
        self.kill()

    def inject_descriptors(self):
        workers = self.children()
        for pid in self.dice.sample(workers, min(2, len(workers))):
            try:
                used = max(int(x) for x in os.listdir(f"/proc/{pid}/fd")) + 1
            except (OSError, ValueError):
                continue
            limit = used + self.dice.randint(0, 8)
            if subprocess.run(["prlimit", f"--nofile={limit}:{limit}", "--pid", str(pid)],
                              capture_output=True).returncode == 0:
                self.note(f"limit of {limit} open files for process {pid}")
        self.pause(0, 0.3)
        self.kill()

    def inject_signals(self):
        self.kill()
        self.pause(0, 0.6)
        number = self.dice.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        if self.lives():
            self.note(f"{number.name} to the launcher")
            self.process.send_signal(number)

    def wait(self, limit):
        try:
            self.process.wait(limit)
            return True
        except subprocess.TimeoutExpired:
            return False

    def codes(self):
        return [self.process.returncode]

    def count_reported(self):
        """Adds the planned faults that the tool reports."""
        found = re.search(r"^faults: (\d+) of", self.text(), re.MULTILINE)
        self.faults += ["planned fault"] * (int(found.group(1)) if found else 0)

    def end_of(self, expected):
        """Returns "hash", "sentence", or what is wrong."""
        code, hashes = self.process.returncode, hashes_in(self.output())
        if code == 130:
            done = subprocess.run([self.tool, "train", "--resume", str(self.saved)], capture_output=True,
                                  text=True, timeout=120)
            return "hash" if hashes_in(done.stdout) == [expected] else \
                f"the resumed run has not the hash: {done.stderr[-300:]}"
        if any(x != expected for x in hashes):
            return "weights_sha256 is not that of an undisturbed run"
        if code == 0:
            return "hash" if hashes else "exit code 0 without weights_sha256"
        return "sentence" if sentence_in(self.text(), self.kind) else f"exit code {code} with an unknown error"

    def clean(self):
        if self.kind == "disk":
            subprocess.run(["umount", str(self.saved.parent)], capture_output=True)


class HostsJob(Job):
    """A job of workers in network namespaces, as on several machines, without a launcher."""

    def __init__(self, seed, kind, options):
        super().__init__(seed, kind, options)
        self.workers = self.replicas = 3 if kind == "one-way" else 5
        self.transport = self.dice.choice(("auto", "tcp", "tls"))
        self.hosts = Hosts(self.workers)
        self.processes = []

    def start(self):
        port = 21000
        cluster = {"worker": [f"{address(i)}:{port}" for i in range(self.workers)]}
        if self.transport == "tls":
            for i in range(self.workers):
                call(self.tool, "cert", "--out", str(self.folder / "certs"), "--name", f"w{i}", "--hosts",
                     address(i))
        for i in range(self.workers):
            more = {"TROUPE_SECRET": "x" * 40, "TF_CONFIG": json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": i}})}
            if self.transport == "tls":
                certs = self.folder / "certs"
                more |= {"TROUPE_TLS_CA": str(certs / "authority.pem"),
                         "TROUPE_TLS_CERTIFICATE": str(certs / f"w{i}.pem"),
                         "TROUPE_TLS_KEY": str(certs / f"w{i}.key")}
            own = self.folder / f"w{i}"
            own.mkdir()
            with open(self.folder / f"w{i}.out", "w") as out, open(self.folder / f"w{i}.err", "w") as err:
                self.processes.append(subprocess.Popen(
                    ["ip", "netns", "exec", self.hosts.hosts[i], "unshare", "-p", "-f", "--mount-proc",
                     "--kill-child", self.tool, "train", *self.options(), "--workers", str(self.workers),
                     "--strategy", "multi_worker_mirrored", "--transport", self.transport, "--save",
                     str(own / "job.troupe")],
                    stdout=out, stderr=err, env=self.environment(**more), cwd=own))

    def lives(self):
        return any(x.poll() is None for x in self.processes)

    def inject(self):
        for _ in range(2):
            if self.kind == "one-way":
                pairs = [tuple(self.dice.sample(range(self.workers), 2))]
            else:
                minority = self.dice.sample(range(self.workers), self.dice.choice((1, 1, 2)))
                pairs = [pair for a in minority for b in range(self.workers) if b not in minority
                         for pair in ((a, b), (b, a))]
            for pair in pairs:
                self.hosts.drop(*pair)
            self.note("drop " + ", ".join(f"{a} to {b}" for a, b in pairs))
            self.pause(*self.dice.choice(((0.1, 0.8), (1.2, 3.0))))
            for pair in pairs:
                self.hosts.heal(*pair)
            self.last_fault = time.monotonic()
            self.pause(0.1, 1.0)

    def wait(self, limit):
        end = time.monotonic() + limit
        for one in self.processes:
            try:
                one.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                return False
        return True

    def codes(self):
        return [x.returncode for x in self.processes]

    def count_reported(self):
        pass

    def end_of(self, expected):
        hashes = hashes_in(self.output())
        if any(x != expected for x in hashes):
            return "weights_sha256 is not that of an undisturbed run"
        for i, one in enumerate(self.processes):
            text = (self.folder / f"w{i}.err").read_text(errors="replace")
            if one.returncode != 0 and not sentence_in(text, self.kind):
                return f"worker {i}: exit code {one.returncode} with an unknown error"
        return "hash" if hashes else "sentence"

    def clean(self):
        self.hosts.close()


def sentence_in(text, kind):
    """The row of docs/failures.md for the last error of a text. None: it has no row."""
    errors = re.findall(r"^(?:\[[^]]*\] )?troupe: (.*)$", text, re.MULTILINE)
    for row, kinds, pattern in SENTENCES if errors else []:
        if kind in kinds and re.search(pattern, errors[-1]):
            return row
    return None


class Oracle:
    """Weights of undisturbed runs."""

    def __init__(self, tool):
        self.tool, self.known, self.lock = tool, {}, threading.Lock()

    def weights_of(self, job):
        key = job.data, job.epochs, job.replicas
        with self.lock:
            if key not in self.known:
                done = subprocess.run([self.tool, "train", *job.options(), "--strategy", "one_device",
                                       "--replicas", str(job.replicas)], capture_output=True, text=True,
                                      timeout=300, check=True)
                self.known[key] = hashes_in(done.stdout)[0]
            return self.known[key]


def run(seed, kind, options, oracle):
    job = (HostsJob if kind in HOST_KINDS else LaunchedJob)(seed, kind, options)
    try:
        return judge(job, oracle.weights_of(job), options)
    finally:
        job.kill_strays()
        job.clean()


def judge(job, expected, options):
    job.began = time.monotonic()
    job.start()
    if job.has_begun():
        job.pause(0, 0.5)
        job.inject()
    ended = job.wait(END_LIMIT + max(0.0, job.last_fault - time.monotonic()))
    seconds = time.monotonic() - job.began
    job.count_reported()
    lines = [x for x in job.text().splitlines() if x.strip()]
    text = job.text()
    if not ended:
        verdict = f"no end within {END_LIMIT} s after the last fault"
    elif re.search(r"terminate called|AddressSanitizer|signal (4|6|7|8|11) \(", text) or any(
            -x in (4, 6, 7, 8, 11) or x in (132, 134, 135, 136, 139) for x in job.codes()):
        verdict = "a process crashed"
    else:
        verdict = job.end_of(expected)
        # The guard that ends the workers of a killed launcher ends after it.
        end = time.monotonic() + STRAY_LIMIT
        while (strays := marked(job.mark)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [x.name for x in job.temporary.iterdir() if not x.name.endswith(".troupe")]
        parts = [x.name for x in job.folder.rglob("*.part")]
        if strays:
            verdict = f"processes {strays} are left"
        elif left or (parts and verdict == "hash"):
            verdict = f"files are left: {left + parts}"
    if verdict in ("hash", "sentence") and len(job.faults) < MIN_FAULTS:
        verdict = "too few faults"
    result = Result(verdict, job.faults, seconds, lines[-1] if lines else "")
    (job.folder / "faults").write_text("\n".join([*job.faults, verdict, ""]))
    if result.verdict == "too few faults" or (result.passed and not options.keep):
        job.clean()
        shutil.rmtree(job.folder, ignore_errors=True)
    return result


def check_rows():
    text = (ROOT / "docs" / "failures.md").read_text()
    for row, _, _ in SENTENCES:
        if f"| {row} |" not in text:
            sys.exit(f"docs/failures.md has no row \"{row}\"")


def print_table(results):
    print("\n| kind | runs | faults that struck | ends by hash | ends by sentence |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        own = [x for k, x in results if k == kind]
        if own:
            print(f"| {kind} | {len(own)} | {sum(len(x.faults) for x in own)} "
                  f"| {sum(x.verdict == 'hash' for x in own)} "
                  f"| {sum(x.verdict == 'sentence' for x in own)} |")


def one_run(number, options, oracle, kinds):
    seed, kind = options.seed + number, kinds[(options.seed + number) % len(kinds)]
    for draw in range(MAX_DRAWS):
        used = seed + draw * 10**6
        try:
            result = run(used, kind, options, oracle)
        except Exception as problem:  # of the script: a command that fails
            result = Result(f"{type(problem).__name__}: {problem}", [], 0)
        if result.verdict != "too few faults":
            break
        print(f"--  --kind {kind} --seed {used}: {len(result.faults)} faults in time", flush=True)
    print(f"{'ok' if result.passed else 'FAILED'}  --kind {kind} --seed {used}, {result.seconds:.1f} s: "
          f"{result.verdict}; {len(result.faults)} faults"
          + ("" if result.verdict == "hash" else f": {result.last[:300]}"), flush=True)
    return kind, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="seed of the first job")
    parser.add_argument("--kind", choices=KINDS, help="one kind in place of all")
    parser.add_argument("--jobs", type=int, default=1, help="number of jobs at a time [1]")
    parser.add_argument("--keep", action="store_true", help="keep the output of all jobs")
    parser.add_argument("--tool", default=None, help="the tool [build/release/troupe, or dev]")
    options = parser.parse_args()
    tools = [ROOT / "build" / x / "troupe" for x in ("release", "dev")]
    options.tool = options.tool or next((str(x) for x in tools if x.exists()), None)
    if options.tool is None:
        parser.error(f"build the tool first: neither {tools[0]} nor {tools[1]} exists")
    options.tool = str(pathlib.Path(options.tool).resolve())
    check_rows()
    kinds = [options.kind] if options.kind else list(KINDS)
    if os.geteuid() != 0:
        kinds = [x for x in kinds if x not in (*HOST_KINDS, "disk")]
        print("without root, no network namespaces and mounts: left out are one-way, partitions and disk")
    KEPT.mkdir(parents=True, exist_ok=True)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    shared_memory = set(os.listdir("/dev/shm"))
    oracle = Oracle(options.tool)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda x: one_run(x, options, oracle, kinds), range(options.runs)))
    print_table(results)
    left = set(os.listdir("/dev/shm")) - shared_memory
    if left:
        print(f"files are left in /dev/shm: {sorted(left)}")
    failed = sum(not x.passed for _, x in results)
    print(f"fault table: {len(results) - failed} passed, {failed} failed")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
