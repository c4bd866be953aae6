"""The checkout and the settings: notebooks that are run, tables that are kept, profiles."""

import json

import nbformat
import pandas as pd
import pytest
from test_project import code
from typer.testing import CliRunner

import tokhelpers as th
from tools import run_notebooks as notebooks
from tools.run_notebooks import app

TABLE = pd.DataFrame({"size": [1, 2], "gain": [0.1, 2 / 3]})


# --- notebooks -----------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two notebooks, of which the second fails."""
    for name, source in {"00_fine": "print(1 + 1)", "01_fails": "1 / 0"}.items():
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    return tmp_path


def test_failing_notebooks_are_named_and_the_others_stored(folder):
    told = CliRunner().invoke(app, ["--store", "--workers", "1"])
    lines = told.stderr.splitlines()
    assert told.exit_code == 1 and lines[-1] == "1 of 2 notebooks failed"
    assert "ZeroDivisionError" in told.stderr and "01_fails.ipynb: " in told.stderr
    first, second = [line for line in lines if line.startswith("notebook ")]
    assert first.startswith("notebook 1 of 2, ") and "last 00_fine in " in first
    assert second.startswith("notebook 2 of 2, ") and second.endswith("last 01_fails failed")
    [fine], [fails] = (code(folder / f"{name}.ipynb") for name in ("00_fine", "01_fails"))
    assert fine["outputs"][0]["text"] == ["2\n"] and fails["outputs"] == []


def test_a_name_that_fits_no_notebook(folder):
    with pytest.raises(FileNotFoundError, match="begins with '7'; there are 00_fine, 01_fails$"):
        notebooks.find_notebooks(["0", "7"])


# --- tables and profiles -------------------------------------------------------------------------
def test_a_kept_table_says_how_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_MEASURED", str(tmp_path))
    monkeypatch.setenv("TOKHELPERS_PROFILE", "full")
    monkeypatch.setenv("PATH", str(tmp_path))  # git is missing
    th.notebook.record_measured(TABLE, "gains", command="make full", seconds=1.6)
    assert (tmp_path / "gains.csv").read_text() == "size,gain\n1,0.1\n2,0.666667\n"
    how = json.loads((tmp_path / "gains.json").read_text())
    assert (how["commit"], how["profile"], how["seconds"]) == ("unknown", "full", 2)


def test_an_unknown_profile(monkeypatch):
    monkeypatch.setenv("TOKHELPERS_PROFILE", "slow")
    with pytest.raises(ValueError, match="TOKHELPERS_PROFILE is 'slow': use quick or full"):
        th.notebook.profile()
