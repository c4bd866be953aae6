"""The long runs on the real model: taken up after a kill, and one cell of each table made anew."""

import pandas as pd
import pytest
import real_model
import torch
import typer

import tokhelpers as th

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 2, "intermediate_size": 16}


class Killed(Exception):
    pass


@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_a_reading_goes_on_from_its_last_state(tmp_path, monkeypatch, optimiser):
    """Killed after step 3 of 4, with the state of step 2 kept, it ends as one that never stopped."""
    monkeypatch.setattr(real_model, "KEPT_EVERY", 2)
    monkeypatch.setattr(real_model, "STEP", 2)
    told = [["a bat sat", "on a mat"], ["the heart"], ["a cat"], ["blood"]] * 2
    monkeypatch.setattr(real_model, "chunks", lambda seed: told)
    size = real_model.base().get_vocab_size()

    def reading(folder, dies_at=None):
        monkeypatch.setattr(real_model, "RUNS", tmp_path / folder)

        def measure(model):
            seen.append(len(seen))
            if dies_at is not None and len(seen) > dies_at:
                raise Killed
            return {"sum": model.get_input_embeddings().weight.double().sum().item()}

        seen, how = [], {"points": (0, 2, 3, 4), "optimiser": optimiser}
        fresh = lambda: th.new_model("small-llama", size, **TINY)  # noqa: E731
        return real_model.read_on("x", fresh, real_model.base(), measure=measure, **how)

    whole = reading("whole")
    with pytest.raises(Killed):
        reading("killed", dies_at=2)
    assert len(list((tmp_path / "killed").glob("*.safetensors"))) == 1
    again = reading("killed")
    pd.testing.assert_frame_equal(again, whole, check_exact=True)
    assert whole["sum"].nunique() > 1 and not list((tmp_path / "killed").glob("*.safetensors"))
    monkeypatch.setattr(real_model, "MOST", 0)  # late at once: a call makes one step
    for step in (1, 2, 3):
        with pytest.raises(real_model.NotDone, match=f"x, {step} of 4 steps"):
            reading("late")
    pd.testing.assert_frame_equal(reading("late"), whole, check_exact=True)


def test_rows_that_a_late_call_made_are_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(real_model, "RUNS", tmp_path)
    monkeypatch.setattr(real_model, "MOST", 0)
    made = []

    def make(name, n):
        made.append(n)
        return {"twice": 2 * n}

    cases = [("a", n) for n in range(3)]
    for done in (1, 2):
        with pytest.raises(real_model.NotDone, match=f"t, {done} of 3 rows"):
            real_model.row_by_row("t", ["name", "n"], cases, make)
    table = real_model.row_by_row("t", ["name", "n"], cases, make)
    assert made == [0, 1, 2] and table.twice.tolist() == [0, 2, 4]


def test_a_chapter_without_long_runs_is_no_mistake_and_an_unknown_name_is(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    real_model.main(["08"])  # make full ONLY=08
    with pytest.raises(typer.BadParameter, match="'nosuch' is neither a table nor an arm"):
        real_model.main(["nosuch"])


def stored(name: str, **where) -> pd.Series:
    table = th.notebook.load_measured(f"smollm2_{name}")
    for column, value in where.items():
        table = table[table[column].fillna("") == value]
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.first
@pytest.mark.long
def test_one_cell_of_each_table():
    """Untrained ones, on this machine's own kernels: within a hundredth."""
    case = {"field": "fi", "method": "continued", "added": 4_000, "tied": True, "start": "fvt"}
    assert abs(real_model.one_start(*case.values())["bits"] - stored("starts", **case).bits) < 0.01
    case = {"text": "hpo", "by": "leaf-frequency", "counted": "hpo", "kept": 25_000}
    pruned, there = real_model.one_pruning(*case.values()), stored("pruning", **case)
    assert all(abs(pruned[part] - there[part]) < 0.01 for part in ("recutting", "renormalising"))
