"""Every form in which the sources reach a user installs the whole package."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.parameters import one_fast

ROOT = Path(__file__).parents[1]
ROOMS = ("experiments", "planners", "robots")
TREES = ("with links", "links as text", "without links")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of the checkout without links, and without what runs and builds have left in it."""
    folder = tmp_path_factory.mktemp("sources") / "a checkout, öäü"
    for name in ("idcontrol", *ROOMS, "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "pictures", *(ROOMS if name == "idcontrol" else ()))
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return folder


@pytest.fixture
def tree(sources, tmp_path, request):
    """The copy of the checkout, with one of the possible replacements of the links."""
    folder = tmp_path / "clone"
    shutil.copytree(sources, folder)
    for room in ROOMS:
        if request.param == "with links":
            (folder / "idcontrol" / room).symlink_to(f"../{room}")
        elif request.param == "links as text":
            (folder / "idcontrol" / room).write_text(f"../{room}")
    return folder


def run(code, folder):
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


def build(kind, folder, out):
    """Build a distribution without network and without an environment of its own."""
    done = run(f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))", folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / done.stdout.split()[-1]


def contents(wheel):
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("idcontrol/")}


def expected(folder):
    """Yield the modules and data of an installed package, by their names in a wheel."""
    rooms = {"idcontrol": folder / "idcontrol", **{f"idcontrol/{room}": folder / room for room in ROOMS}}
    for name, room in rooms.items():
        for file in room.rglob("*"):
            inside = file.relative_to(room)
            if name == "idcontrol" and inside.parts[0] in (*ROOMS, "docs"):
                continue
            if file.suffix in (".py", ".h", ".j2", ".js", ".css", ".npz") or file.name in ("robot.toml", "tables.json"):
                yield f"{name}/{inside.as_posix()}"


@pytest.mark.parametrize("tree", one_fast(TREES, "links as text"), indirect=True)
def test_a_wheel_contains_all_rooms_with_any_form_of_the_links(tree, sources, tmp_path):
    assert set(expected(sources)) - contents(build("wheel", tree, tmp_path)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["links as text"], indirect=True)
def test_an_editable_install_finds_all_rooms_without_links(tree, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(build("editable", tree, tmp_path)).extractall(site)
    code = (
        f"import site, sys; site.addsitedir({str(site)!r})\n"
        f"sys.path += {[path for path in sys.path if path.endswith('site-packages')]!r}\n"
        "import idcontrol.planners.trot, idcontrol.robots.library as library\n"
        "from idcontrol.experiments import trot\n"
        "print(library.__file__, trot.__file__, 'links' in library.names(), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"{tree}/robots/library.py", f"{tree}/experiments/trot.py", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["with links"], indirect=True)
def test_a_source_distribution_has_the_tests_and_builds_the_same_wheel(tree, tmp_path):
    (tmp_path / "unpacked").mkdir()
    # the filters of `tarfile`, without which Python 3.12 warns, came with 3.11.4
    subprocess.run(["tar", "-xf", build("sdist", tree, tmp_path), "-C", tmp_path / "unpacked"], check=True)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert {"conftest.py", "robots", "models"} <= {path.name for path in (unpacked / "tests").iterdir()}
    assert not any((unpacked / "idcontrol" / room).exists() for room in ROOMS)
    assert contents(build("wheel", unpacked, tmp_path)) == contents(build("wheel", tree, tmp_path))


@pytest.mark.parametrize("tree", ["without links"], indirect=True)
def test_a_tree_that_lacks_a_room_is_not_built(tree, tmp_path):
    shutil.rmtree(tree / "planners")
    done = run(f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})", tree)
    assert done.returncode != 0
    assert "planners/ is missing beside idcontrol/" in done.stderr
