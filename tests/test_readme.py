"""The promises of the README hold as written."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_code_of_the_readme_runs_in_any_folder_and_predicts_the_weight(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    printed = io.StringIO()
    names: dict = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), names)
    mass = sum(body.mass for body in names["robot"].system().model.inertias)
    (promised,) = re.findall(r"# ([\d.]+) N: the weight", block)
    printed_value = float(printed.getvalue().split()[-1])
    assert printed_value == pytest.approx(9.81 * mass, rel=1e-6)
    assert printed_value == pytest.approx(float(promised), abs=0.05)


@pytest.mark.slow
def test_the_code_of_the_readme_passes_strict_type_checking(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    (tmp_path / "example.py").write_text(block)
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    words = [sys.executable, "-m", "mypy", *options, "example.py"]
    path = os.environ | {"MYPYPATH": str(README.parent)}  # type checkers do not see editable installations
    checked = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_commands_of_the_readme_exist():
    text = README.read_text()
    make = (README.parent / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", text, flags=re.M):
        assert re.search(rf"^{target}:", make, flags=re.M)


def test_the_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text())
    assert links
    assert not [link for link in links if not (README.parent / link).exists()]
