"""One way of measuring for all benchmarks: each contender in a process of its own, interleaved."""

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

PEERS = {
    "rustbpe": "0.1.0",
    "ffbpe": "0.1.10",
    "gigabpe": "0.1.0",
    "bpe-continue": "0.1.0",
}  # needed for nothing else, so in no requirements


def asked(about: str, **defaults) -> argparse.Namespace:
    """A benchmark's options, each with its default: ``runs=3`` is ``--runs 3``."""
    parser = argparse.ArgumentParser(description=about)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


@contextmanager
def stored(texts: Iterable[str]) -> Iterator[Path]:
    """A file that has a text per line, for contenders in other processes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "texts.txt"
        path.write_text("\n".join(texts), encoding="utf-8")
        yield path


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Seconds by the clock, and of the processor in all threads, that some work takes."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return {"seconds": time.perf_counter() - began, "processor seconds": time.process_time() - used}


def _is_there(name: str) -> bool:
    return find_spec(name.replace("-", "_")) is not None


def without_missing(contenders: dict) -> dict:
    """The contenders that can run; says which peers are not installed."""
    missing = [name for name in PEERS if name in contenders and not _is_there(name)]
    for name in missing:
        print(f"{name} is not installed and left out: pip install -r requirements.txt")
    return {name: run for name, run in contenders.items() if name not in missing}


def measure(contender, path: Path, *arguments) -> dict[str, float]:
    """What a contender says of itself on a file of texts, and peak memory of the process in MB."""
    texts = path.read_text(encoding="utf-8").split("\n")
    figures = contender(texts, *arguments)
    return {**figures, "peak MB": peak_megabytes()}


def peak_megabytes(of: str = "VmHWM") -> float:
    """Peak resident memory; on Linux the kernel's other figure is inherited from the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith(of))
        return int(line.split()[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes


def forget_peak() -> float:
    """Begin to measure the peak anew, where the system can (Linux); returns what is held now, in MB."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_megabytes("VmRSS")


def alone(contender, path: Path, *arguments) -> dict[str, float]:
    """Measure in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, contender, path, *arguments).result()


def compare(contenders: dict, path: Path, *arguments, runs: int) -> dict[str, dict[str, float]]:
    """The fastest of several runs, interleaved, so that a slow minute hits all alike; printed, too."""
    rows = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            rows[name].append(alone(contender, path, *arguments))
    result = {}
    for name, of in rows.items():
        result[name] = min(of, key=lambda row: row["seconds"])
        print(f"{name}: " + ", ".join(f"{key} {x:,.2f}" for key, x in result[name].items()))
    return result


def print_ratio(result: dict, ours: str, peer: str) -> None:
    """Time, by the clock and of the processor, and memory of one contender over another's."""
    both = result[ours].keys() & result[peer].keys()
    measures = [key for key in ("seconds", "processor seconds", "peak MB") if key in both]
    ratios = (f"{key} {result[ours][key] / result[peer][key]:.2f}" for key in measures)
    print(f"{ours} / {peer}: {', '.join(ratios)}")
