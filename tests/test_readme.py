"""What the README promises is true as written."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_code_of_the_readme_runs_and_predicts_the_weight(monkeypatch):
    monkeypatch.chdir(README.parent)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks) == 1
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[0], "README.md", "exec"), {})
    status, force = printed.getvalue().strip().splitlines()[0], printed.getvalue().strip().splitlines()[-1]
    assert status.startswith("SOLVED")
    assert float(force.split()[0]) == pytest.approx(47.088, abs=1e-3)


def test_the_commands_of_the_readme_exist():
    text = README.read_text()
    make = (README.parent / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", text, flags=re.M):
        assert re.search(rf"^{target}:", make, flags=re.M)
