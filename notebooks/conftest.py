"""nbval's kernels compute as every machine does, and reach no network."""

import os
import tempfile
from pathlib import Path

import pytest

from tools.run_notebooks import environment, expected_seconds

OFFLINE = Path(__file__).resolve().parents[1] / "tests" / "offline"
LOG = "ASKED_OF_THE_NETWORK"  # the file in which each attempt is noted

os.environ.update(environment())  # the kernels that nbval starts read it
if LOG not in os.environ:  # else it is a worker's, of the process that reads the file
    os.environ[LOG] = tempfile.mkstemp()[1]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(OFFLINE), os.environ.get("PYTHONPATH", "")]
    )


def pytest_collection_modifyitems(items):
    """What takes longest comes first, so that no worker ends long before the others."""
    seconds = expected_seconds([item.path for item in items])
    items.sort(key=lambda item: -seconds[item.path])


def pytest_sessionfinish(session):
    """What a library tries, and does without when it is refused, is a failure, too."""
    if hasattr(session.config, "workerinput"):
        return
    log = Path(os.environ[LOG])
    asked = log.read_text()
    log.unlink()
    if asked:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(f"a notebook asked the network: {asked.strip()}", red=True)
