"""The accelerator's benchmark, on its code path for the CPU: what is asked, fitted and kept."""

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import accelerator

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TOKHELPERS_MEASURED", str(tmp_path))
    return tmp_path


def test_without_a_device_nothing_changes(monkeypatch, kept):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    accelerator.main([])
    assert not list(kept.iterdir())


@pytest.mark.long
def test_small_steps_are_measured_and_kept(kept):
    accelerator.main(["--device", "cpu", "--small", "--steps", "3", "--repeats", "2"])
    steps, slopes = (pd.read_csv(kept / f"accelerator_{n}.csv") for n in ("steps", "slopes"))
    assert len(steps) == 2 * 2 * 3 and steps.seconds.gt(0).all() and steps.modelled.gt(0).all()
    assert slopes.steps.tolist() == [12] and slopes.device[0] == steps.device[0]
    assert "benchmarks/accelerator.py" in (kept / "accelerator_steps.json").read_text()


def test_slopes_are_those_of_the_line():
    rng = np.random.default_rng(0)
    added = np.repeat([0, 10_000, 60_000], 20)
    table = pd.DataFrame(
        {"added": added, "seconds": 2 * (1 + 1e-5 * added) + rng.normal(0, 0.01, 60)}
    )
    table = table.assign(memory=1e9 + 500 * added, modelled=1e9 + 400 * added)
    found = accelerator.slopes(table.assign(model="m", stage="s", batch=1, device="d")).iloc[0]
    assert abs(found.percent_per_token - 1e-3) < 2 * found.half < 1e-4
    assert (round(found.measured), round(found.modelled)) == (500, 400)
