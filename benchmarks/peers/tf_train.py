"""Measures the training throughput of one TensorFlow process. Prints one JSON line.

  tf_train.py --model mlp --batch 512 --threads 2 --strategy mirrored2 --api step

api: step  one tf.function call per step (strategy.run, distributed dataset)
     loop  tf.range over the steps inside one tf.function call: the fastest way in TensorFlow
     fit   Keras model.fit
"""
import argparse
import json
import statistics
import time

import tf_models as models
import tensorflow as tf


def make_strategy(name):
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "mirrored2":
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(2)])
    return tf.distribute.get_strategy()


def custom(args, strategy):
    """Returns a function that trains `steps` steps and returns the last loss."""
    with strategy.scope():
        model, loss_fn, optimizer = models.build(args.model)
        if not models.LEGACY:
            optimizer.build(model.trainable_variables)  # Keras 3 fails in mirrored2 otherwise
    data = iter(strategy.experimental_distribute_dataset(models.dataset(args.model, args.batch)))
    replica_step = models.train_step(model, loss_fn, optimizer, args.batch)

    @tf.function(jit_compile=args.jit)
    def step(batch):
        losses = strategy.run(replica_step, args=batch)
        return strategy.reduce("SUM", losses, axis=None)

    @tf.function
    def loop(data, steps):
        loss = 0.0
        for _ in tf.range(steps):
            loss = step(next(data))
        return loss

    def train(steps):
        if args.api == "loop":
            return loop(data, tf.constant(steps)).numpy()
        for _ in range(steps):
            loss = step(next(data))
        return loss.numpy()
    return train


def fit(args, strategy):
    with strategy.scope():
        model, _, optimizer = models.build(args.model)
        model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      jit_compile=args.jit)
    data = models.dataset(args.model, args.batch)

    class Clock(tf.keras.callbacks.Callback):
        """Times each epoch without the start-up time of fit()."""
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            self.seconds = time.perf_counter() - self.start
            self.loss = logs["loss"]
    clock = Clock()

    def train(steps):
        # The second epoch is timed, because the first one also creates the iterator.
        model.fit(data, epochs=2, steps_per_epoch=steps, verbose=0, callbacks=[clock])
        train.seconds = clock.seconds
        return clock.loss
    return train


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["mlp", "lenet", "wide_deep"], default="mlp")
    parser.add_argument("--batch", type=int, default=64, help="of all devices together")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--strategy", default="none",
                        choices=["none", "one_device", "mirrored2"])
    parser.add_argument("--api", choices=["step", "loop", "fit"], default="step")
    parser.add_argument("--jit", action="store_true", help="compile the step with XLA")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window_s", type=float, default=1.0)
    args = parser.parse_args()

    two_devices = args.strategy == "mirrored2"
    models.use_threads(args.threads, max(2, args.threads) if two_devices else args.threads)
    if two_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = make_strategy(args.strategy)
    train = (fit if args.api == "fit" else custom)(args, strategy)

    def timed(steps):
        start = time.perf_counter()
        loss = train(steps)
        return getattr(train, "seconds", time.perf_counter() - start), loss

    timed(5)
    seconds, loss = timed(10)
    steps = max(5, int(10 * args.window_s / seconds))
    timed(max(5, steps // 2))
    times = []
    for _ in range(args.windows):
        seconds, loss = timed(steps)
        times.append(seconds / steps)
    rates = [args.batch / t for t in times]
    print(json.dumps({
        "case": f"{args.model}/b{args.batch}/t{args.threads}/{args.strategy}/{args.api}"
                f"{'/xla' if args.jit else ''}",
        "tf": tf.__version__,
        "examples_per_s": round(statistics.median(rates), 1),
        "min": round(min(rates), 1), "max": round(max(rates), 1),
        "step_us": round(1e6 * statistics.median(times), 1),
        "steps_per_window": steps, "windows": args.windows, "loss": float(loss)}), flush=True)


if __name__ == "__main__":
    main()
