#!/usr/bin/env python3
"""Compares asynchronous training with parameter servers with torch.distributed.rpc.

  compare_parameter_servers.py --peers FOLDER [--rounds 5]

FOLDER contains pt/bin/python, an environment with PyTorch, and torch_ps.py with torch_models.py
(or --script says where they are). Both sides train `mlp` with one server and two workers, one thread
each, batch 64 for each worker, SGD with momentum, over processes of this host. They run in turn. Prints
the median rates of all rounds, and the median of the ratios.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 64


def ours(tool, workers, consistency, epochs):
    """Steps per second of the epochs after the first one."""
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder) / "summary.json"
        subprocess.run([tool, "train", "--model", "mlp", "--data", "digits:28000", "--batch",
                        str(BATCH), "--optimizer", "sgd:momentum=0.9", "--epochs", str(epochs),
                        "--workers", str(workers), "--servers", "1", "--consistency", consistency,
                        "--quiet", "--summary", str(summary)], check=True, timeout=600)
        rates = [x["examples"] / x["seconds"] / BATCH
                 for x in json.loads(summary.read_text())["epochs"][1:]]
    return statistics.median(rates)


def theirs(python, script, workers):
    done = subprocess.run([python, script, "--workers", str(workers), "--batch", str(BATCH)],
                          capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])["updates_per_s"]


def middle(xs):
    return f"{statistics.median(xs):,.0f} ({min(xs):,.0f} to {max(xs):,.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--peers", required=True, type=pathlib.Path)
    parser.add_argument("--script", type=pathlib.Path, default=None, help="torch_ps.py")
    parser.add_argument("--tool", default=str(HERE.parent / "build/release/troupe"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    script = options.script or options.peers / "torch_ps.py"
    python = options.peers / "pt/bin/python"
    print("| `mlp`, batch 64, 1 server | steps/s: median (min to max) | torch.distributed.rpc | ratio |")
    print("|---|---|---|---|")
    for workers in (1, 2):
        mine, peers = [], []
        for _ in range(options.rounds):
            mine.append(ours(options.tool, workers, "async", options.epochs))
            peers.append(theirs(str(python), str(script), workers))
        ratio = statistics.median(a / b for a, b in zip(mine, peers))
        print(f"| {workers} worker{'s' if workers > 1 else ''}, async | {middle(mine)} | "
              f"{middle(peers)} | {ratio:.1f}x |", flush=True)


if __name__ == "__main__":
    main()
