"""Measures what a killed worker costs DistributedDataParallel under torchrun: Gloo, mlp, a
checkpoint after every 100 steps.

  torch_elastic.py --ranks 2                 torchrun --max-restarts 3, one worker is killed
  torch_elastic.py --ranks 2 --own-store     the same without torchrun's shared store

Prints one JSON line for each trial. recovery_s is the time from the kill to the end of the first
step after it, caught_up_s to the end of the first step that had not been done before, and redone
the number of steps that were done twice. null: the job did not recover within --patience seconds.
Each worker writes the end of each step to a file of its own.

With PyTorch 2.15, torchrun keeps one TCPStore over all restarts, so restarted workers may read the
addresses of dead ones and fail or hang. --own-store is the known remedy
(TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, PyTorch issue 135712).
"""
import argparse
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BATCH = 64  # of all ranks together
CHECKPOINT_STEPS = 100
KILL_AT = 350  # step after which a worker is killed


def worker(folder):
    import torch
    import torch_models as models

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo")
    model, loss_fn = models.build("mlp")
    rule = models.optimizer("mlp", model, fused=True)
    checkpoint, first = pathlib.Path(folder, "checkpoint.pt"), 0
    if checkpoint.exists():
        first, weights, slots = torch.load(checkpoint)
        model.load_state_dict(weights)
        rule.load_state_dict(slots)
    train = models.train_step(torch.nn.parallel.DistributedDataParallel(model), loss_fn, rule)
    data = models.batches("mlp", BATCH // ranks, seed=1 + rank)
    with open(f"{folder}/rank{rank}.{os.getpid()}", "w", buffering=1) as log:
        for step in range(first, 1_000_000):
            train(*data[step % len(data)])
            print(step, time.monotonic(), file=log)
            if rank == 0 and (step + 1) % CHECKPOINT_STEPS == 0:
                state = (step + 1, model.state_dict(), rule.state_dict())
                torch.save(state, f"{checkpoint}.new")
                os.replace(f"{checkpoint}.new", checkpoint)


def steps_of(folder):
    """Returns {(rank, pid): [(step, time), ...]} from the files of the workers."""
    done = {}
    for path in glob.glob(f"{folder}/rank*.*"):
        rank, pid = pathlib.Path(path).name[4:].split(".")
        lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
        done[int(rank), int(pid)] = [(int(x[0]), float(x[1])) for x in lines if len(x) == 2]
    return done


def wait_until(condition, seconds):
    """Returns true as soon as the condition holds, false after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def recovered(folder, old, killed):
    """Returns the figures of a recovery, when new workers have passed the steps of the old ones."""
    done = steps_of(folder)
    before = max(step for key in old for step, _ in done[key])
    after = sorted((when, step) for key, steps in done.items() if key not in old
                   for step, when in steps)
    fresh = [when for when, step in after if step > before]
    if not fresh:
        return None
    return {"recovery_s": after[0][0] - killed, "caught_up_s": fresh[0] - killed,
            "redone": before - min(step for _, step in after) + 1}


def end_workers(folder):
    """Ends the workers that torchrun has left behind."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if folder.encode() in pathlib.Path(path).read_bytes().split(b"\0"):
                os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended


def trial(args):
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/output", "w") as output:
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        if args.own_store:
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        job = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "3",
             "--nproc-per-node", str(args.ranks), os.path.abspath(__file__), "--folder", folder],
            env=env, stdout=output, stderr=output, start_new_session=True)
        victim = args.ranks - 1
        try:
            def has_begun():
                return any(rank == victim and steps and steps[-1][0] >= KILL_AT
                           for (rank, _), steps in steps_of(folder).items())
            if not wait_until(has_begun, 120):
                raise RuntimeError(pathlib.Path(folder, "output").read_text()[-2000:])
            old = set(steps_of(folder))
            killed = time.monotonic()
            os.kill(next(pid for rank, pid in old if rank == victim), signal.SIGKILL)
            wait_until(lambda: recovered(folder, old, killed) or job.poll() is not None,
                       args.patience)
            return recovered(folder, old, killed) or {
                "recovery_s": None, "caught_up_s": None, "redone": None}
        finally:
            job.kill()
            job.wait()
            end_workers(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for a recovery")
    parser.add_argument("--own-store", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # this process is a worker
    args = parser.parse_args()
    if args.folder:
        return worker(args.folder)
    for _ in range(args.trials):
        print(json.dumps(trial(args)), flush=True)


if __name__ == "__main__":
    main()
