"""Measures what several processes cost besides their steps: start, memory, supervision."""
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

MIB = 1 << 20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Name of a replica's thread. Other threads send messages and heartbeats, or supervise.
REPLICA = "caf.actor"


def start_s(tool):
    """Returns the seconds from a cold start of two workers to the end of their job of one step."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        done = subprocess.run([tool, "train", "--model", "mlp", "--data", "digits:128", "--epochs",
                               "1", "--workers", "2", "--max-steps", "1", "--quiet"], cwd=folder,
                              capture_output=True, text=True, timeout=60)
        took = time.monotonic() - begin
    if done.returncode not in (0, 130):  # 130: ended by --max-steps
        raise RuntimeError(done.stderr)
    return took


def processes_of(group):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                yield folder
        except ProcessLookupError:
            pass


def look(group, cpu, memory):
    """Records, for a process group, the processor seconds of each thread and the peak memory (PSS)
    of each process."""
    for process in processes_of(group):
        try:
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    now = int(line.split()[1]) * 1024
                    memory[process.name] = max(memory.get(process.name, 0), now)
            for task in (process / "task").iterdir():
                name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                cpu[task.name] = (process.name, name, (int(fields[11]) + int(fields[12])) * TICK_S)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass  # the process or thread has ended


def watched(command):
    """Runs a command. Returns processor seconds by (process, thread name), and peak bytes by
    process."""
    cpu, memory = {}, {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as job:
        while job.poll() is None:
            look(job.pid, cpu, memory)
            time.sleep(0.1)
    if job.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {job.returncode}")
    seconds = {}
    for process, name, s in cpu.values():
        seconds[process, name] = seconds.get((process, name), 0) + s
    return seconds, memory


def job(p, workers, batch):
    return [p.program("bench_train"), "--model", "lenet", "--batch", str(batch), "--workers",
            str(workers), "--json", *p.windows()]


def supervision(seconds):
    """Returns the fraction of processor time that was used by threads other than those of replicas
    and the main thread, "bench_train". Counts only processes whose replica used more than 1 s."""
    trained = {process for (process, name), s in seconds.items() if name == REPLICA and s > 1}
    mine = [(name, s) for (process, name), s in seconds.items() if process in trained]
    return (sum(s for name, s in mine if name not in (REPLICA, "bench_train"))
            / sum(s for _, s in mine))


def upkeep(p, rounds):
    starts = [start_s(str((p.build / "troupe").absolute())) for _ in range(rounds)]
    shares, more = [], []
    for _ in range(rounds):
        seconds, memory = watched(job(p, 2, 32))
        shares.append(supervision(seconds))
        alone = max(watched(job(p, 1, 32))[1].values())
        more.append((max(memory.values()) - alone) / MIB)

    def row(what, xs, show, target, reached):
        said = f"{target} {'reached' if reached else '**missed**'}"
        return (f"| {what} | {show(statistics.median(xs))} ({show(min(xs))} to {show(max(xs))}) | "
                f"{said} |")
    return "\n".join([
        "**What processes cost beside their steps**", "", "| quantity | median (min to max) | maximum |", "|---|---|---|",
        row("seconds for a cold start of two workers, one step of `mlp`, and the end of both", starts,
            lambda x: f"{x:.2f} s", "1 s", statistics.median(starts) < 1),
        row("share of the processor time of two workers of `lenet` that threads for messages, "
            "heartbeats and supervision use", shares, lambda x: f"{100 * x:.2f} %", "1 %",
            statistics.median(shares) <= 0.01),
        row("memory of one of two workers of `lenet` minus memory of a worker alone, with the "
            "same batch per worker", more, lambda x: f"{x:.1f} MiB", "2 MiB",
            statistics.median(more) <= 2),
    ]) + "\n"
