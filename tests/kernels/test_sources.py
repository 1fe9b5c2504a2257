"""Which files compiled code depends on, and what becomes of code of an older version."""

import os
import pickle

import numba
import pytest

from idcontrol.kernels import jit, sources


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in which a module imports another by way of a folder's own file, and of several lines."""
    root = tmp_path / "idcontrol"
    texts = {
        "top.py": "from idcontrol.middle import (\n    bottom,\n    CONSTANT,\n)\n",
        "middle/__init__.py": "",
        "middle/bottom.py": "from idcontrol.floor import ground as g\n",
        "floor.py": "from idcontrol.top import anything\n",
        "beside.py": "",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sources, "ROOT", root)

    def told():
        sources.stamp.cache_clear()
        sources._imports.cache_clear()
        return sources.stamp(root / "top.py")

    return root, told


@pytest.mark.parametrize("name", ["top.py", "middle/__init__.py", "middle/bottom.py", "floor.py"])
def test_a_change_of_any_file_that_is_imported_makes_compiled_code_old(package, name):
    root, told = package
    before = told()
    assert told() == before
    os.utime(root / name, (1, 1))
    assert told() != before


def test_a_change_of_a_file_that_is_not_imported_does_not(package):
    root, told = package
    before = told()
    os.utime(root / "beside.py", (1, 1))
    assert told() == before


def test_kernels_depend_on_what_they_call_in_other_files():
    root = sources.ROOT
    assert root / "kernels" / "linear.py" in sources._imports(root / "models" / "whitened.py")


@pytest.mark.parametrize("gone", [b"cidcontrol.kernels.jit\nGone\n.", b"cidcontrol.gone\nGone\n."])
def test_what_was_kept_of_types_that_are_gone_is_compiled_anew(tmp_path, gone):
    index = jit._Index(str(tmp_path), "kernel", "now")
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(numba.__version__) + gone)
    assert index._load_index() == {}
