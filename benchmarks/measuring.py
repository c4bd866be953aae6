"""One way of measuring for all benchmarks: each contender in a process of its own, interleaved."""

import resource
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path


def measure(contender, path: Path, *arguments) -> dict[str, float]:
    """What a contender says of itself on a file of texts, and peak memory of the process in MB."""
    texts = path.read_text(encoding="utf-8").split("\n")
    figures = contender(texts, *arguments)
    return {**figures, "peak MB": peak_megabytes()}


def peak_megabytes() -> float:
    """Peak resident memory; on Linux the kernel's other figure is inherited from the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes


def alone(contender, path: Path, *arguments) -> dict[str, float]:
    """Measure in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, contender, path, *arguments).result()


def compare(contenders: dict, path: Path, *arguments, runs: int) -> dict[str, dict[str, float]]:
    """Medians of several runs, interleaved, so that a slow minute hits all alike; printed, too."""
    rows = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            rows[name].append(alone(contender, path, *arguments))
    result = {}
    for name, of in rows.items():
        result[name] = {key: statistics.median(row[key] for row in of) for key in of[0]}
        print(f"{name}: " + ", ".join(f"{key} {x:,.2f}" for key, x in result[name].items()))
    return result


def print_ratio(result: dict, ours: str, peer: str) -> None:
    """Time and memory of one contender over another's."""
    time, memory = (result[ours][key] / result[peer][key] for key in ("seconds", "peak MB"))
    print(f"{ours} / {peer}: time {time:.2f}, memory {memory:.2f}")
