"""Compares DistributedDataParallel (gloo, loopback) with one process. Prints one JSON line.

  torch_ddp.py --model mlp --batch 512 --ranks 2 --mode fused

Every process has one thread. The job of one process and the job of RANKS processes train on the
same global batch. With rate(n), the examples per second of n processes, the speed-up is
rate(RANKS) / rate(1), and the efficiency is the speed-up / RANKS.
"""
import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import torch_models as models


def windows(args, step, data, share):
    """Returns the mean seconds per step of each window. All ranks run the same number of steps."""
    def timed(steps):
        if share > 1:
            dist.barrier()
        start = time.perf_counter()
        for i in range(steps):
            loss = step(*data[i % len(data)])
        float(loss.detach())
        if share > 1:
            dist.barrier()
        return (time.perf_counter() - start) / steps

    timed(5)
    steps = torch.tensor(max(5, int(args.window_s / timed(10))))
    if share > 1:
        dist.broadcast(steps, 0)
    return [timed(int(steps)) for _ in range(args.windows + 1)][1:]


def worker(rank, ranks, args, store, results):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    model, loss_fn = models.build(args.model)
    rule = models.optimizer(args.model, model, fused=args.mode == "fused")
    data = models.batches(args.model, args.batch // ranks, seed=1 + rank)
    if ranks > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=args.bucket_view)
    seconds = windows(args, models.train_step(model, loss_fn, rule), data, ranks)
    if rank == 0:
        results.put([args.batch / s for s in seconds])
    if ranks > 1:
        dist.destroy_process_group()


def rates(ranks, args):
    results = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (ranks, args, f"{folder}/store", results), nprocs=ranks)
    return results.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "lenet"], default="mlp")
    parser.add_argument("--batch", type=int, default=64, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mode", choices=["eager", "fused"], default="eager")
    parser.add_argument("--bucket_view", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window_s", type=float, default=0.7)
    args = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["OMP_NUM_THREADS"] = "1"

    one, many = rates(1, args), rates(args.ranks, args)
    single, ddp = statistics.median(one), statistics.median(many)
    print(json.dumps({
        "case": f"{args.model}/b{args.batch}/ddp{args.ranks}/{args.mode}"
                f"{'+bucket_view' if args.bucket_view else ''}",
        "torch": torch.__version__, "examples_per_s": round(ddp, 1), "min": round(min(many), 1),
        "max": round(max(many), 1), "one_process": round(single, 1),
        "one_min": round(min(one), 1), "one_max": round(max(one), 1),
        "speedup": round(ddp / single, 3), "efficiency": round(ddp / single / args.ranks, 3),
        "step_us": round(1e6 * args.batch / ddp, 1),
        "one_step_us": round(1e6 * args.batch / single, 1)}), flush=True)


if __name__ == "__main__":
    main()
