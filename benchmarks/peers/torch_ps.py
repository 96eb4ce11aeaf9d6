"""Measures an asynchronous parameter server on torch.distributed.rpc, with mlp. Prints one JSON line.

  torch_ps.py --workers 2 --batch 64

A worker computes gradients on its batch, sends them in one call, and gets the new parameters as the
answer. The server applies each gradient when it arrives, under a lock. Each process has one thread.
"""
import argparse
import json
import os
import statistics
import tempfile
import threading
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

import torch_models as models


class Server:
    def __init__(self):
        model, _ = models.build("mlp")
        self.parameters = list(model.parameters())
        self.rule = models.optimizer("mlp", model, fused=True)
        self.lock = threading.Lock()
        self.updates = 0

    def pull(self):
        return [p.detach() for p in self.parameters]

    def push_pull(self, gradients):
        with self.lock:
            for parameter, gradient in zip(self.parameters, gradients):
                parameter.grad = gradient
            self.rule.step()
            self.updates += 1
        return self.pull()

    def count(self):
        return self.updates


def work(server, batch, seed, seconds, windows):
    """Trains for `windows` windows. Returns the updates of this worker in each."""
    torch.set_num_threads(1)
    model, loss_fn = models.build("mlp")
    data = models.batches("mlp", batch, seed=seed)
    parameters = list(model.parameters())

    def store(fresh):
        with torch.no_grad():
            for parameter, value in zip(parameters, fresh):
                parameter.copy_(value)

    store(server.rpc_sync().pull())
    counts = []
    for window in range(windows + 1):  # the first one warms up
        end, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            inputs, target = data[count % len(data)]
            model.zero_grad()
            loss_fn(model(inputs), target).backward()
            store(server.rpc_sync().push_pull([p.grad for p in parameters]))
            count += 1
        counts.append(count)
    return counts[1:]


def process(rank, args, store):
    torch.set_num_threads(1)
    backend = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    names = ["master", "server"] + [f"worker{i}" for i in range(args.workers)]
    rpc.init_rpc(names[rank], rank=rank, world_size=len(names), rpc_backend_options=backend)
    if names[rank] == "master":
        server = rpc.remote("server", Server)
        futures = [rpc.rpc_async(name, work, (server, args.batch, i, args.window_s, args.windows))
                   for i, name in enumerate(names[2:])]
        per_window = [sum(counts) / args.window_s for counts in zip(*[f.wait() for f in futures])]
        print(json.dumps({
            "case": f"ps/mlp/b{args.batch}/w{args.workers}", "torch": torch.__version__,
            "updates_per_s": round(statistics.median(per_window), 1),
            "min": round(min(per_window), 1), "max": round(max(per_window), 1),
            "applied_on_server": server.rpc_sync().count()}), flush=True)
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="per worker")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window_s", type=float, default=2.0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, (args, f"{folder}/store"), nprocs=args.workers + 2)


if __name__ == "__main__":
    main()
