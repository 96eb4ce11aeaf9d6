"""Defines the models, inputs and update rules of the PyTorch benchmarks.

To measure throughput, inputs are synthetic with a fixed seed. Parameters keep PyTorch's default
initialization.
"""
import gzip
import os
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FEATURES, ROWS, DIM, DENSE = 26, 100_000, 16, 13  # of wide_deep


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 1024), nn.ReLU(), nn.Linear(1024, 10))


class WideDeep(nn.Module):
    """A table of 100,000 x 16 for each of 26 features, and an MLP 429-256-128-1."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, DIM, sparse=True) for _ in range(FEATURES))
        self.mlp = nn.Sequential(nn.Linear(FEATURES * DIM + DENSE, 256), nn.ReLU(),
                                 nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, inputs):
        ids, dense = inputs
        embedded = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat([*embedded, dense], 1))


def zipf_ids(rng, shape, exponent=1.1):
    """Returns ids in [0, ROWS). The probability of an id is in proportion to (id + 1)^-exponent."""
    weight = np.arange(1, ROWS + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(shape))


def wide_deep_batch(rng, batch):
    return ((torch.from_numpy(zipf_ids(rng, (batch, FEATURES))),
             torch.from_numpy(rng.standard_normal((batch, DENSE), dtype=np.float32))),
            torch.from_numpy(rng.integers(0, 2, (batch, 1)).astype(np.float32)))


def batches(name, batch, count=16, seed=1):
    """Returns a list of `count` batches, each (inputs, targets)."""
    rng = np.random.default_rng(seed)
    if name == "wide_deep":
        return [wide_deep_batch(rng, batch) for _ in range(count)]
    shape = (1, 28, 28) if name == "lenet" else (784,)
    return [(torch.from_numpy(rng.standard_normal((batch, *shape), dtype=np.float32)),
             torch.from_numpy(rng.integers(0, 10, batch))) for _ in range(count)]


def build(name):
    loss = F.binary_cross_entropy_with_logits if name == "wide_deep" else F.cross_entropy
    return {"mlp": mlp, "lenet": lenet, "wide_deep": WideDeep}[name](), loss


class Rules(list):
    """Several update rules, each of some parameters."""

    def zero_grad(self):
        for rule in self:
            rule.zero_grad()

    def step(self):
        for rule in self:
            rule.step()


def optimizer(name, model, fused=False):
    """Returns the update rule. fused: it runs one kernel per parameter, not one per op."""
    if name == "wide_deep":  # there is no fused Adagrad for sparse gradients
        return Rules([torch.optim.Adagrad(model.tables.parameters(), 0.01),
                      torch.optim.Adam(model.mlp.parameters(), 1e-3, fused=fused)])
    if name == "lenet":
        return torch.optim.Adam(model.parameters(), 1e-3, fused=fused)
    return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=fused)


def train_step(model, loss_fn, rule):
    """Returns a function (inputs, target) -> loss that does one whole training step."""
    def step(inputs, target):
        rule.zero_grad()
        loss = loss_fn(model(inputs), target)
        loss.backward()
        rule.step()
        return loss
    return step


def mnist():
    """Returns (train images, train labels, test images, test labels) from MNIST's t10k files in
    $TROUPE_DATA_DIR/mnist: the first 8,000 images to train, the other 2,000 to test. Images are
    N x 1 x 28 x 28 with values in [0, 1]."""
    folder = os.environ.get("TROUPE_DATA_DIR")
    if not folder:
        raise SystemExit("set TROUPE_DATA_DIR to a folder in which mnist/ holds the t10k files")

    def idx(file, skip):
        with gzip.open(pathlib.Path(folder) / "mnist" / file) as opened:
            return np.frombuffer(opened.read(), np.uint8, offset=skip)
    images = idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255
    labels = idx("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    return images[:8000], labels[:8000], images[8000:], labels[8000:]
