"""Defines the models of the TensorFlow benchmarks, and synthetic inputs with a fixed seed."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf


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


def batches(name, batch, count=16, seed=1):
    """Returns inputs and labels of `count` global batches, stacked on a leading axis."""
    rng = np.random.default_rng(seed)
    lead = (count, batch)
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
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    if name == "lenet":
        return lenet(), loss, tf.keras.optimizers.Adam(1e-3)
    return mlp(), loss, tf.keras.optimizers.SGD(0.01, momentum=0.9)


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
