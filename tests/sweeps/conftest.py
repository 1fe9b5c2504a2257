"""Installs the experiment `drift` for this process and for those that it starts."""

from pathlib import Path

import pytest


@pytest.fixture
def drift(tmp_path, monkeypatch):
    """A folder on the path of all processes, with the entry points of the experiment and its study."""
    site = tmp_path / "site"
    info = site / "drift-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drift\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[idcontrol.experiments]\ndrift = tests.sweeps.drift:experiment\n"
        "[idcontrol.studies]\npositions = tests.sweeps.drift:study\n"
    )
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{site}:{root}")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    return tmp_path
