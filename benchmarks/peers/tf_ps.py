"""Measures ParameterServerStrategy with ClusterCoordinator on loopback. One JSON line for each case.

  tf_ps.py --ps 2 --only wide_deep   one of: closures, bandwidth, mlp, wide_deep

The coordinator is this process. Each worker and server is a process with one compute thread.
"""
import os

os.environ["GRPC_FAIL_FAST"] = "use_caller"  # a dead worker is an error, not a wait

import argparse
import json
import statistics
import time

import tf_models as models
import tensorflow as tf
from tf_cluster import Cluster

MIB = 1 << 20


def summary(rates, digits=1):
    return {"median": round(statistics.median(rates), digits), "min": round(min(rates), digits),
            "max": round(max(rates), digits), "windows": len(rates)}


def per_second(coordinator, schedule, seconds, windows=5):
    """Returns closures per second of each window."""
    def timed(count):
        start = time.perf_counter()
        for _ in range(count):
            schedule()
        coordinator.join()
        return count / (time.perf_counter() - start)
    timed(10)
    count = max(10, int(timed(20) * seconds))
    timed(count // 2)
    return [timed(count) for _ in range(windows)]


def closures(strategy, coordinator, args):
    @tf.function
    def empty():
        return tf.constant(0)

    latencies = []
    for i in range(-20, 300):
        start = time.perf_counter()
        coordinator.schedule(empty)
        coordinator.join()
        if i >= 0:
            latencies.append((time.perf_counter() - start) * 1e6)
    latencies.sort()
    yield {"case": "closure schedule+join", "unit": "us", **summary(latencies),
           "p95": round(latencies[285], 1)}
    rates = per_second(coordinator, lambda: coordinator.schedule(empty), args.window_s)
    yield {"case": "closure rate", "unit": "closures/s", **summary(rates)}


def bandwidth(strategy, coordinator, args):
    elements = 64 * MIB // 4
    with strategy.scope():
        variable = tf.Variable(tf.zeros(elements))
    shards = getattr(variable, "variables", [variable])

    @tf.function
    def push(value):
        for shard in shards:
            shard.assign_add(tf.fill(shard.shape, value))

    @tf.function
    def pull():
        copies = [shard.read_value() for shard in shards]
        return tf.add_n([tf.reduce_sum(copy) for copy in copies])

    @tf.function
    def push_pull(value):
        push(value)
        return pull()

    one = tf.constant(1.0)
    rates = []
    for i in range(-2, 7):
        start = time.perf_counter()
        coordinator.schedule(push_pull, args=(one,))
        coordinator.join()
        if i >= 0:
            rates.append(2 * 64 / (time.perf_counter() - start))
    yield {"case": "push+pull", "shards": len(shards), "unit": "MiB/s", **summary(rates)}


def train(name, batch, strategy, coordinator, args):
    with strategy.scope():
        model, loss_fn, optimizer = models.build(name)
        if not models.LEGACY:
            optimizer.build(model.trainable_variables)
    replica_step = models.train_step(model, loss_fn, optimizer, batch)
    data = iter(coordinator.create_per_worker_dataset(lambda: models.dataset(name, batch)))

    @tf.function
    def step(iterator):
        return strategy.run(replica_step, args=next(iterator))

    rates = per_second(coordinator, lambda: coordinator.schedule(step, args=(data,)),
                       args.window_s)
    yield {"case": f"{name}/b{batch}", "unit": "steps/s", **summary(rates),
           "variables": len(model.trainable_variables)}


def mlp(*context):
    return train("mlp", 64, *context)


def wide_deep(*context):
    return train("wide_deep", 512, *context)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--only", choices=["closures", "bandwidth", "mlp", "wide_deep"],
                        required=True)
    parser.add_argument("--window_s", type=float, default=2.0)
    args = parser.parse_args()
    models.use_threads(1, 4)
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=256 << 10, max_shards=args.ps)
    with Cluster(args.workers, args.ps) as cluster:
        strategy = tf.distribute.ParameterServerStrategy(cluster.resolver(), partitioner)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        for result in globals()[args.only](strategy, coordinator, args):
            print(json.dumps({**result, "workers": args.workers, "ps": args.ps,
                              "keras": "tf_keras" if models.LEGACY else "keras 3",
                              "tf": tf.__version__}), flush=True)
        del strategy, coordinator
    os._exit(0)  # the coordinator's threads do not end after the servers


if __name__ == "__main__":
    main()
