"""Compares two workers of MultiWorkerMirroredStrategy on loopback with one. Prints one JSON line.

  tf_mwms.py --model mlp --batch 512

Every worker is a process with one compute thread, which is pinned to its own core. With --no_pin,
the kernel chooses the cores. One worker and two workers train on the same global batch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from tf_cluster import free_ports


def train(strategy, models, args):
    """Returns the examples per second of all workers together, by window."""
    import tensorflow as tf
    with strategy.scope():
        model, loss_fn, optimizer = models.build(args.model)
        optimizer.build(model.trainable_variables)
    data = iter(strategy.experimental_distribute_dataset(models.dataset(args.model, args.batch)))
    replica_step = models.train_step(model, loss_fn, optimizer, args.batch)

    @tf.function
    def step(batch):
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    def timed(steps):
        start = time.perf_counter()
        for _ in range(steps):
            loss = step(next(data))
        loss.numpy()
        return time.perf_counter() - start

    timed(5)
    # All workers must run equally many steps, so each computes this number from their mean time.
    mean = strategy.run(lambda t: tf.distribute.get_replica_context().all_reduce("MEAN", t),
                        args=(tf.constant(timed(10)),))
    steps = max(5, int(10 * args.window_s / float(strategy.experimental_local_results(mean)[0])))
    return [steps * args.batch / timed(steps) for _ in range(args.windows)]


def worker(args):
    import tf_models as models
    import tensorflow as tf
    models.use_threads(1, 2)  # one compute thread; the second inter-op thread waits for messages
    if "TF_CONFIG" in os.environ:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING))
    else:
        strategy = tf.distribute.get_strategy()
    rates = train(strategy, models, args)
    if not args.index:
        print(json.dumps({"tf": tf.__version__, "rates": rates}), flush=True)


def launch(workers, args):
    """Runs the workers. Returns what the first one prints: its rates and TensorFlow's version."""
    ports = free_ports(workers)
    processes = []
    for index in range(workers):
        env = dict(os.environ)
        env.pop("TF_CONFIG", None)
        if workers > 1:
            env["TF_CONFIG"] = json.dumps({
                "cluster": {"worker": [f"127.0.0.1:{p}" for p in ports]},
                "task": {"type": "worker", "index": index}})
        command = [sys.executable, __file__, "--index", str(index), "--model", args.model,
                   "--batch", str(args.batch), "--windows", str(args.windows),
                   "--window_s", str(args.window_s)]
        if not args.no_pin:
            command = ["taskset", "-c", str(index)] + command
        processes.append(subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL))
    said = [p.communicate(timeout=600)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit(f"the workers ended with {[p.returncode for p in processes]}")
    return json.loads(said[0].splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "lenet"], default="mlp")
    parser.add_argument("--batch", type=int, default=64, help="of all workers together")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window_s", type=float, default=1.0)
    parser.add_argument("--no_pin", action="store_true")
    parser.add_argument("--index", type=int, help="(internal) run as this worker")
    args = parser.parse_args()
    if args.index is not None:
        return worker(args)
    one, two = launch(1, args), launch(2, args)
    single, both = statistics.median(one["rates"]), statistics.median(two["rates"])
    print(json.dumps({
        "case": f"{args.model}/b{args.batch}/mwms2", "tf": one["tf"],
        "examples_per_s": round(both, 1), "min": round(min(two["rates"]), 1),
        "max": round(max(two["rates"]), 1), "one_process": round(single, 1),
        "one_min": round(min(one["rates"]), 1), "one_max": round(max(one["rates"]), 1),
        "speedup": round(both / single, 3)}), flush=True)


if __name__ == "__main__":
    main()
