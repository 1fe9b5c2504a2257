"""Damaged files of compiled code are not run: the code is compiled again, and a line is printed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import config

from idcontrol.kernels import cache
from idcontrol.kernels.cache import SealedFiles
from idcontrol.kernels.hooks import PLAIN
from tests.kernels import linking
from tests.kernels.linking import total
from tests.kernels.programs import run


@pytest.fixture(autouse=True)
def apart():
    """Forget which lines were printed, as a folder of another test may have had the same name; release all claims."""
    cache._say.cache_clear()
    with cache.claims():
        yield


def one_file(folder: Path) -> Path:
    """The file of the code of one signature."""
    SealedFiles([folder], "kernel", "version").save("float64", {"code": 1.5})
    (file,) = folder.iterdir()
    return file


def test_code_is_read_as_it_was_saved(tmp_path, capsys):
    one_file(tmp_path)
    assert SealedFiles([tmp_path], "kernel", "version").load("float64") == {"code": 1.5}
    assert capsys.readouterr().err == ""


def test_every_flipped_bit_is_noticed(tmp_path, capsys):
    files, file = SealedFiles([tmp_path], "kernel", "version"), one_file(tmp_path)
    content = file.read_bytes()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        file.write_bytes(damaged)
        assert files.load("float64") is None
    assert capsys.readouterr().err == f"idcontrol: {file} is damaged: compiled anew\n"


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-2], lambda whole: bytes(len(whole))])
def test_a_file_that_is_empty_cut_off_or_zero_is_damaged(tmp_path, capsys, damage):
    file = one_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert SealedFiles([tmp_path], "kernel", "version").load("float64") is None
    assert "is damaged: compiled anew" in capsys.readouterr().err


def test_a_folder_with_the_name_of_a_cache_file_does_no_harm(tmp_path, capsys):
    file = one_file(tmp_path)
    file.unlink()
    file.mkdir()
    files = SealedFiles([tmp_path], "kernel", "version")
    assert files.load("float64") is None
    files.save("float64", {"code": 1.5})
    assert [*tmp_path.glob("*.nbc")] == [file]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"idcontrol: compiled code is not kept in {file}; the next start compiles again: ")


def test_a_new_version_removes_the_files_of_the_old_one_but_not_its_own(tmp_path):
    old = one_file(tmp_path)
    other = tmp_path / "kernel2.py311.1.nbc"
    other.touch()
    new = SealedFiles([tmp_path], "kernel", "new")
    new.save("int64", "code")
    new.save("float64", "code")
    assert not old.exists()
    assert other.exists()
    assert (new.load("int64"), new.load("float64")) == ("code", "code")


@pytest.mark.parametrize(("name", "version", "key"), [("kernel", "new", "float64"), ("kernel", "version", "int64")])
def test_code_of_another_version_or_signature_is_not_taken(tmp_path, capsys, name, version, key):
    one_file(tmp_path)
    assert SealedFiles([tmp_path], name, version).load(key) is None
    assert capsys.readouterr().err == ""


def test_code_for_a_type_that_is_elsewhere_now_is_not_taken(tmp_path, monkeypatch):
    module = ModuleType("gone")
    module.Gone = type("Gone", (), {"__module__": "gone", "__repr__": lambda self: "Gone"})
    monkeypatch.setitem(sys.modules, "gone", module)
    files, key = SealedFiles([tmp_path], "kernel", "version"), module.Gone()
    files.save(key, "code")
    monkeypatch.delitem(sys.modules, "gone")
    assert files.load(key) is None


class Alike(int):
    """Different types of arguments with the same text."""

    def __repr__(self) -> str:
        return "alike"


def test_code_for_types_that_print_alike_is_distinct(tmp_path):
    files = SealedFiles([tmp_path], "kernel", "version")
    files.save(Alike(1), "code")
    assert (files.load(Alike(2)), files.load(Alike(1))) == (None, "code")


def test_a_file_under_the_name_of_another_is_damaged(tmp_path, capsys):
    file = one_file(tmp_path)
    files = SealedFiles([tmp_path], "kernel", "version")
    file.replace(file.with_name(files._file("int64")))
    assert files.load("int64") is None
    assert "is damaged: compiled anew" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(PLAIN or config.DISABLE_JIT, reason="Numba keeps what is compiled, or nothing is")
def test_a_linked_kernel_with_a_flipped_bit_is_compiled_again(tmp_path):
    lines = "from tests.kernels.linking import total", "print(total(np.ones(3), 2))"
    first = run(*lines, NUMBA_CACHE_DIR=tmp_path)
    (file,) = tmp_path.rglob("linking.scale-*.nbc")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    damaged, mended = (run(*lines, NUMBA_CACHE_DIR=tmp_path) for _ in range(2))
    assert first == mended == ([f"{total(np.ones(3), 2)}"], "")
    assert damaged == (first[0], f"idcontrol: {file} is damaged: compiled anew\n")


def test_cached_code_of_another_user_is_read_and_new_code_is_written_elsewhere(tmp_path):
    shared, own = tmp_path / "shared", tmp_path / "own"
    for folder in (shared, own):
        folder.mkdir()
    one_file(shared)
    files = SealedFiles([shared, own], "kernel", "version")
    assert files.load("float64") == {"code": 1.5}
    assert files.load("int64") is None
    files.save("int64", {"code": 2.5})
    assert files.load("int64") == {"code": 2.5}
    assert (len([*shared.glob("*.nbc")]), len([*own.glob("*.nbc")])) == (1, 1)


@pytest.fixture
def busy(tmp_path):
    """Files, and another process that has claimed the code for "float64" until its standard input is closed."""
    files = SealedFiles([tmp_path], "kernel", "version")
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / f"{files._file('float64')}.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
        other.stdout.readline()
        yield files, other
        other.communicate()


def test_code_that_another_process_compiles_is_awaited(busy, monkeypatch):
    files, other = busy

    def finish(_):
        files.save("float64", "code")
        other.communicate()

    monkeypatch.setattr("time.sleep", finish)
    assert files.load("float64") == "code"


def test_a_process_that_compiles_forever_is_not_awaited(busy, monkeypatch):
    monkeypatch.setattr(cache, "WAIT_S", 0.0)
    assert busy[0].load("float64") is None


def test_claims_leave_no_file(tmp_path):
    with cache.claims():
        SealedFiles([tmp_path], "kernel", "version").load("float64")
        assert [*tmp_path.iterdir()] != []
    assert [*tmp_path.iterdir()] == []


def test_environments_that_share_sources_keep_a_file_each(tmp_path, monkeypatch):
    one_file(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_ENVIRONMENT", "another Numba")
        files = SealedFiles([tmp_path], "kernel", "version")
        assert files.load("float64") is None
        files.save("float64", {"code": 2.5})
    assert SealedFiles([tmp_path], "kernel", "version").load("float64") == {"code": 1.5}


@pytest.mark.slow
@pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
def test_kernels_without_a_folder_to_write_to_are_kept_in_a_temporary_one(tmp_path):
    shutil.copy(linking.__file__, tmp_path / "linking.py")
    (tmp_path / "__pycache__").touch()  # a file in place of the folder cannot be written into
    (tmp_path / "temporary").mkdir()
    lines = "from linking import total", "print(total(np.ones(3), 2), sum(total.stats.cache_misses.values()))"
    folders = {"TMPDIR": tmp_path / "temporary", "NUMBA_CACHE_DIR": "", "HOME": "/proc/none"}
    folders |= {"XDG_CACHE_HOME": "/proc/none", "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    runs = [run(*lines, **folders) for _ in range(2)]
    (folder,) = (tmp_path / "temporary").glob("idcontrol-*")
    line = f"idcontrol: new kernels are kept in {folder}; to keep them elsewhere: export NUMBA_CACHE_DIR=WRITABLE_DIR\n"
    value = f"{total(np.ones(3), 2)}"
    assert runs == [([value, "1"], line), ([value, "0"], line)]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The temporary folder, for functions that remember nothing of another one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for function in (cache._temporary, cache._writable_root):
        monkeypatch.setattr(cache, function.__name__, function.__wrapped__)
    return tmp_path


def test_a_temporary_folder_that_others_may_write_to_is_not_used(temporary):
    folder = temporary / f"idcontrol-{os.getuid()}"
    assert cache._temporary() == str(folder)
    folder.chmod(0o777)
    assert cache._temporary() != str(folder)


def test_a_user_without_a_home_gets_no_folder_in_the_working_directory(temporary, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.chdir(temporary)
    assert cache._writable_root("/proc/none", temporary) == str(temporary / f"idcontrol-{os.getuid()}")
    assert not (temporary / "~").exists()


def test_kernels_are_compiled_anew_each_time_where_nothing_can_be_written(temporary, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    assert cache._temporary() is None
    assert "no folder can be written to" in capsys.readouterr().err
