"""Measures the training throughput of one PyTorch process. Prints one JSON line.

  torch_train.py --model mlp --batch 512 --threads 2 --mode fused
  torch_train.py --check --model lenet      accuracy on MNIST after 5 epochs
  torch_train.py --model mlp --device cuda --precision bf16

mode: eager    PyTorch's default: one kernel per op, also in the optimizer
      fused    eager, but with the optimizers' fused kernels
      compile  torch.compile of forward, loss and backward, fused optimizers (needs a C++ compiler)
"""
import argparse
import json
import statistics
import time

import torch

import torch_models as models


def move(inputs, device):
    if isinstance(inputs, tuple):
        return tuple(x.to(device) for x in inputs)
    return inputs.to(device)


def trainer(args):
    """Returns a function that trains `steps` steps on prepared batches and returns the last loss."""
    torch.manual_seed(1)
    model, loss_fn = models.build(args.model)
    model = model.to(args.device)
    rule = models.optimizer(args.model, model, fused=args.mode != "eager")
    data = [(move(x, args.device), y.to(args.device))
            for x, y in models.batches(args.model, args.batch)]
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        data = [(x.to(memory_format=torch.channels_last), y) for x, y in data]
    if args.mode == "compile":
        model, loss_fn = torch.compile(model), torch.compile(loss_fn)
    step = models.train_step(model, loss_fn, rule)

    def train(steps):
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            for i in range(steps):
                loss = step(*data[i % len(data)])
        return float(loss.detach())
    return train


def measure(train, batch, windows, window_s):
    """Times `windows` windows of about `window_s` seconds each. Returns fields of the JSON line."""
    def timed(steps):
        start = time.perf_counter()
        loss = train(steps)
        return time.perf_counter() - start, loss

    timed(3)
    seconds, _ = timed(5)
    steps = max(5, int(5 * window_s / seconds))
    seconds, _ = timed(steps)
    steps = max(5, int(steps * window_s / seconds))
    times, losses = zip(*[timed(steps) for _ in range(windows)])
    rates = [steps * batch / t for t in times]
    return {"examples_per_s": round(statistics.median(rates), 1), "min": round(min(rates), 1),
            "max": round(max(rates), 1),
            "step_us": round(1e6 * statistics.median(times) / steps, 1),
            "steps_per_window": steps, "windows": windows, "loss": losses[-1]}


def check(args):
    """Trains 5 epochs on 8,000 shuffled MNIST images. Returns the accuracy on 2,000 others."""
    x, y, test_x, test_y = models.mnist()
    if args.model == "mlp":
        x, test_x = x.flatten(1), test_x.flatten(1)
    torch.manual_seed(args.seed)
    model, loss_fn = models.build(args.model)
    step = models.train_step(model, loss_fn, models.optimizer(args.model, model))
    start = time.perf_counter()
    for _ in range(5):
        for rows in torch.randperm(len(x)).split(args.batch):
            loss = step(x[rows], y[rows])
    seconds = time.perf_counter() - start
    with torch.no_grad():
        accuracy = (model(test_x).argmax(1) == test_y).float().mean()
    return {"test_accuracy": round(float(accuracy), 4), "loss": float(loss.detach()),
            "seed": args.seed, "seconds": round(seconds, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "lenet", "wide_deep"], default="mlp")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=["eager", "fused", "compile"], default="eager")
    parser.add_argument("--channels_last", action="store_true", help="lenet only")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32",
                        help="bf16: autocast; float32 on a GPU: without TF32")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--window_s", type=float, default=0.7)
    parser.add_argument("--check", action="store_true", help="accuracy on MNIST")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    mode = args.mode + ("+channels_last" if args.channels_last else "")
    if args.device != "cpu":
        mode += f"/{args.device}/{args.precision}"
    case = f"{args.model}/b{args.batch}/t{args.threads}/{'check' if args.check else mode}"
    result = check(args) if args.check else measure(
        trainer(args), args.batch, args.windows, args.window_s)
    print(json.dumps({"case": case, "torch": torch.__version__, **result}), flush=True)


if __name__ == "__main__":
    main()
