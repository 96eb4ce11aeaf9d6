"""Makes the tables of compare.py about several processes: all-reduce by size, and training."""
import os
import statistics
import subprocess
import tempfile

import compare_upkeep

KIB, MIB = 1 << 10, 1 << 20


def named(size):
    return f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB"


def gloo(program, ranks):
    """Runs Debian's Gloo, one process per rank, with a file store. Returns {bytes: median us}."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([program, str(rank), str(ranks), folder], text=True,
                                  stdout=subprocess.PIPE) for rank in range(ranks)]
        said = [rank.communicate(timeout=600)[0] for rank in ranks]
    return by_size(said[0])


def mpi(program, ranks):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), program]
    return by_size(subprocess.run(command, capture_output=True, text=True, timeout=600).stdout)


def by_size(text):
    rows = [line.split() for line in text.splitlines()]
    return {int(row[0]): float(row[1]) for row in rows if len(row) == 4}


class Sides:
    """Runs the programs of the all-reduce comparison. Each method returns {bytes: median us}."""

    def __init__(self, p, run):
        self.p, self.run_json = p, run

    def ours(self, ranks, transport, sizes, tensors=1):
        lines = self.run_json([self.p.program("bench_allreduce"), "--ranks", str(ranks),
                               "--transport", transport, "--sizes", ",".join(map(str, sizes)),
                               "--tensors", str(tensors), "--json"])
        return {line["bytes"]: line["median_us"] for line in lines}

    def torch(self, ranks, sizes):
        lines = self.run_json([str(self.p.peers / "pt/bin/python"),
                               str(self.p.here / "peers/torch_allreduce.py"),
                               "--ranks", str(ranks), "--kib", *(str(s >> 10) for s in sizes)])
        return {int(line["case"].rsplit("/", 1)[1]): line["median_us"] for line in lines}

    def gloo(self, ranks):
        return gloo(str(self.p.peers / "bin/gloo_allreduce"), ranks)

    def mpi(self, ranks):
        return mpi(str(self.p.peers / "bin/mpi_allreduce"), ranks)


# Each row: ranks, bytes, transport, tensors in a call, and targets. A target is the maximum ratio
# of Troupe's time to that of the named program. "Gloo" is the faster build of two: Debian's,
# PyTorch's.
ALL_REDUCE = (
    (2, 64 * MIB, "auto", 1, {"Gloo": 0.55, "Open MPI": 0.3}),
    (2, 1 * MIB, "auto", 1, {"Gloo": 0.35, "Open MPI": 1.2}),
    (2, 4 * KIB, "auto", 1, {"Gloo": 0.25, "Open MPI": 0.8}),
    (4, 64 * MIB, "auto", 1, {"Gloo": 0.6}),
    (4, 64 * KIB, "auto", 1, {"Open MPI": 1.0}),
    (4, 4 * KIB, "auto", 1, {"Gloo": 0.1, "Open MPI": 1.0}),
    (2, 64 * MIB, "tcp", 1, {"Gloo": 1.0}),
    (2, 4 * KIB, "tcp", 1, {"Gloo": 0.5}),
    (2, 64 * MIB, "tls", 1, {"Troupe over TCP": 2.5}),
    (2, 4 * KIB, "auto", 1000, {"Gloo": 0.1}),
)
# Each row: model, global batch, and the target, a minimum speed-up of two workers over one.
TRAINING = (("lenet", 64, 1.75), ("mlp", 512, 1.6), ("mlp", 64, 1.1))


def middle(xs, digits):
    return (f"{statistics.median(xs):,.{digits}f} ({min(xs):,.{digits}f} to "
            f"{max(xs):,.{digits}f})")


def all_reduce_round(sides):
    """Runs every program once. Returns {(program, ranks, bytes): median us}. Keys of Troupe also
    contain the transport and the number of tensors."""
    found = {}
    sizes = {ranks: sorted({size for r, size, *_ in ALL_REDUCE if r == ranks}) for ranks in (2, 4)}
    for ranks in (2, 4):
        for who, times in (("Gloo of PyTorch", sides.torch(ranks, sizes[ranks])),
                           ("Gloo of Debian", sides.gloo(ranks)), ("Open MPI", sides.mpi(ranks))):
            found.update({(who, ranks, size): us for size, us in times.items()})
        for transport in ("auto", "tcp", "tls"):
            for tensors in (1, 1000):
                mine = [size for r, size, t, n, _ in ALL_REDUCE
                        if (r, t, n) == (ranks, transport, tensors)]
                if mine:
                    times = sides.ours(ranks, transport, mine, tensors)
                    found.update({("Troupe", ranks, size, transport, tensors): us
                                  for size, us in times.items()})
    return found


def peers_time(found, who, ranks, size, tensors):
    if who == "Gloo":  # the faster build, which needs one call per tensor
        return tensors * min(found["Gloo of PyTorch", ranks, size],
                             found["Gloo of Debian", ranks, size])
    if who == "Troupe over TCP":
        return found["Troupe", ranks, size, "tcp", 1]
    return found[who, ranks, size]


def all_reduce(sides, rounds):
    turns = [all_reduce_round(sides) for _ in range(rounds)]
    rows = ["**All-reduce between processes of one host, us**", "",
            "| processes, size, transport | time of Troupe: median (min to max) | peer | "
            "time of the peer | time of Troupe / time of the peer | maximum ratio |",
            "|---|---|---|---|---|---|"]
    for ranks, size, transport, tensors, targets in ALL_REDUCE:
        ours = [turn["Troupe", ranks, size, transport, tensors] for turn in turns]
        what = f"{ranks}, {f'{tensors:,} x ' if tensors > 1 else ''}{named(size)}, {transport}"
        for who, target in targets.items():
            theirs = [peers_time(turn, who, ranks, size, tensors) for turn in turns]
            ratios = [a / b for a, b in zip(ours, theirs)]
            reached = statistics.median(ratios) <= target
            rows.append(f"| {what} | {middle(ours, 1)} | {who} | {middle(theirs, 1)} | "
                        f"{middle(ratios, 2)} | {target} {'reached' if reached else '**missed**'} |")
    return "\n".join(rows) + "\n"


def training_round(p, run, model, batch):
    """Returns {framework: (speed-up of two workers over one, examples/s of two workers)}."""
    def ours(workers):
        return run([p.program("bench_train"), "--model", model, "--batch", str(batch // workers),
                    "--workers", str(workers), "--json", *p.windows()])[-1]["examples_per_s"]

    def theirs(python, script, *more):
        line = run([str(p.peers / python), str(p.here / "peers" / script), "--model", model,
                    "--batch", str(batch), *more, *p.windows("--window_s")])[-1]
        return line["speedup"], line["examples_per_s"]
    one, two = ours(1), ours(2)
    return {"Troupe": (two / one, two),
            "PyTorch DDP": theirs("pt/bin/python", "torch_ddp.py", "--mode", "fused"),
            "TensorFlow MultiWorkerMirrored": theirs("tf/bin/python", "tf_mwms.py")}


def training(p, run, rounds):
    rows = ["**Two workers with one thread each against one, same global batch**", "",
            "| model, global batch | program | rate of 2 workers / rate of 1 worker: median "
            "(min to max) | examples/s of 2 workers | minimum ratio |",
            "|---|---|---|---|---|"]
    for model, batch, target in TRAINING:
        turns = [training_round(p, run, model, batch) for _ in range(rounds)]
        for who in turns[0]:
            speedups = [turn[who][0] for turn in turns]
            said = ""
            if who == "Troupe":
                reached = statistics.median(speedups) >= target
                said = f"{target}x {'reached' if reached else '**missed**'}"
            rows.append(f"| {model}, {batch} | {who} | {middle(speedups, 2)} | "
                        f"{middle([turn[who][1] for turn in turns], 0)} | {said} |")
    return "\n".join(rows) + "\n"


def sections(p, run, rounds):
    """Yields the title of each table, and a function that measures and returns the table."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    yield "All-reduce between processes", lambda: all_reduce(Sides(p, run), rounds)
    yield "Two workers against one", lambda: training(p, run, rounds)
    yield "Two workers beside their steps", lambda: compare_upkeep.upkeep(p, rounds)
