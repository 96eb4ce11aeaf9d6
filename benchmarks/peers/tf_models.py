"""Defines the models of the TensorFlow benchmarks, and synthetic inputs with a fixed seed.

With TF_USE_LEGACY_KERAS=1, tf.keras is tf_keras (Keras 2), whose `optimizers.legacy` update a
variable by one kernel. Without it, tf.keras is Keras 3.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
FEATURES, ROWS, DIM, DENSE = 26, 100_000, 16, 13  # of wide_deep


def use_threads(intra, inter=None):
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.threading.set_inter_op_parallelism_threads(inter or intra)


def mlp():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        tf.keras.Input((784,)),
        layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)])


def lenet():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        tf.keras.Input((28, 28, 1)),
        layers.Conv2D(32, 5, padding="same", activation="relu"), layers.MaxPool2D(2),
        layers.Conv2D(64, 5, padding="same", activation="relu"), layers.MaxPool2D(2),
        layers.Flatten(), layers.Dense(1024, "relu"), layers.Dense(10)])


def wide_deep():
    """A table of 100,000 x 16 for each of 26 features, and an MLP 429-256-128-1."""
    layers = tf.keras.layers
    ids = tf.keras.Input((FEATURES,), dtype="int32")
    dense = tf.keras.Input((DENSE,))
    embedded = [layers.Embedding(ROWS, DIM)(ids[:, i]) for i in range(FEATURES)]
    hidden = layers.Concatenate()([*embedded, dense])
    for width in (256, 128):
        hidden = layers.Dense(width, "relu")(hidden)
    return tf.keras.Model([ids, dense], layers.Dense(1)(hidden))


def zipf_ids(rng, shape, exponent=1.1):
    """Returns ids in [0, ROWS). The probability of an id is in proportion to (id + 1)^-exponent."""
    weight = np.arange(1, ROWS + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(shape)).astype(np.int32)


def batches(name, batch, count=16, seed=1):
    """Returns inputs and labels of `count` global batches, stacked on a leading axis."""
    rng = np.random.default_rng(seed)
    lead = (count, batch)
    if name == "wide_deep":
        dense = rng.standard_normal(lead + (DENSE,), dtype=np.float32)
        labels = rng.integers(0, 2, lead + (1,)).astype(np.float32)
        return (zipf_ids(rng, lead + (FEATURES,)), dense), labels
    shape = (28, 28, 1) if name == "lenet" else (784,)
    x = rng.standard_normal(lead + shape, dtype=np.float32)
    return x, rng.integers(0, 10, lead).astype(np.int32)


def dataset(name, batch, **kwargs):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = tf.data.Dataset.from_tensor_slices(batches(name, batch, **kwargs))
    return data.repeat().prefetch(2).with_options(options)


def build(name):
    """Returns (model, loss per example, optimizer)."""
    losses = tf.keras.losses
    optimizers = tf.keras.optimizers.legacy if LEGACY else tf.keras.optimizers
    if name == "wide_deep":
        loss = losses.BinaryCrossentropy(from_logits=True, reduction="none")
        return wide_deep(), loss, optimizers.Adagrad(0.01)
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    if name == "lenet":
        return lenet(), loss, optimizers.Adam(1e-3)
    return mlp(), loss, optimizers.SGD(0.01, momentum=0.9)


def train_step(model, loss_fn, optimizer, global_batch):
    """Returns the function that one replica runs in each step."""
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = loss_fn(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss
    return step
