"""The files that compiled code depends on, and the deletion of code of older versions."""

import ast
import os
from pathlib import Path

import numba
import pytest

from idcontrol.kernels import sources
from idcontrol.kernels.cache import SealedFiles
from idcontrol.kernels.hooks import PLAIN
from tests.kernels.linking import raised
from tests.kernels.programs import modules


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with imports through a folder's `__init__.py`, and over several lines."""
    root = tmp_path / "idcontrol"
    texts = {
        "top.py": "from idcontrol.middle import (\n    bottom,\n    CONSTANT,\n)\n",
        "middle/__init__.py": "",
        "middle/bottom.py": "from idcontrol.floor import ground as g\nfrom idcontrol.middle import below\n",
        "middle/below/__init__.py": "",
        "floor.py": "from idcontrol.top import anything\n",
        "beside.py": "",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sources, "ROOT", root)

    def stamp_of():
        sources.stamp.cache_clear()
        sources._read.cache_clear()
        return sources.stamp(root / "top.py")

    return root, stamp_of


FILES = ["top.py", "middle/__init__.py", "middle/bottom.py", "middle/below/__init__.py", "floor.py"]


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_any_file_that_is_imported_makes_compiled_code_old(package, name):
    root, stamp_of = package
    before = stamp_of()
    assert stamp_of() == before
    (root / name).write_text(f"{(root / name).read_text()}CONSTANT = 1\n")
    assert stamp_of() != before


def test_a_change_counts_though_the_files_size_and_time_stay(package):
    root, stamp_of = package
    (root / "floor.py").write_text("CONSTANT = 1\n")
    os.utime(root / "floor.py", (1, 1))
    before = stamp_of()
    (root / "floor.py").write_text("CONSTANT = 2\n")
    os.utime(root / "floor.py", (1, 1))
    assert stamp_of() != before


def test_a_file_that_is_only_newer_is_no_change(package):
    root, stamp_of = package
    before = stamp_of()
    os.utime(root / "floor.py", (1, 1))
    assert stamp_of() == before


def test_a_program_keeps_the_text_that_it_began_with(package):
    """After an edit, a module that is loaded later still calls the version imported earlier."""
    root, stamp_of = package
    before = stamp_of()
    (root / "floor.py").write_text("CONSTANT = 1\n")
    sources.stamp.cache_clear()
    assert sources.stamp(root / "top.py") == before


def test_a_change_of_a_file_that_is_not_imported_does_not(package):
    root, stamp_of = package
    before = stamp_of()
    (root / "beside.py").write_text("CONSTANT = 1\n")
    assert stamp_of() == before


def test_every_import_of_a_file_with_kernels_is_seen():
    for file in modules():
        text = file.read_text(encoding="utf-8")
        if "kernels.jit import" in text:
            assert imported(ast.parse(text)) <= set(sources._read(file)[1]), file


def imported(tree):
    """Files of the package that a module imports when it is loaded, as Python's own parser reads it."""
    files = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
        else:
            continue
        for module in modules:
            top, *parts = module.split(".")
            place = sources.ROOT.joinpath(*parts)
            if top == "idcontrol":
                files |= {each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()}
    return files


@pytest.mark.skipif(PLAIN or numba.config.DISABLE_JIT, reason="Numba keeps what is compiled, or nothing is")
def test_kernels_outside_the_package_count_what_they_call_in_it():
    raised(2.0, 3)  # the first compilation opens the cache
    stamp_of = sources.stamp(Path(raised.py_func.__code__.co_filename))
    assert raised._cache._cache_file._version == SealedFiles([Path()], "", stamp_of)._version
