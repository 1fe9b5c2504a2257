"""The commands and the code of the pages work as written."""

import contextlib
import importlib
import io
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import nbformat
import pytest
from nbclient import NotebookClient

from idcontrol import controllers, plants, robots
from idcontrol.cli import cli
from idcontrol.cli.loop import LOOPS
from idcontrol.config import entries
from idcontrol.config.configuration import keys
from idcontrol.loop.launch import LoopSettings
from idcontrol.scenes.walk import WalkConfig

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "idcontrol" / "docs"
PAGES = {
    str(page.relative_to(DOCS)): page.read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "notes"
}
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = (
    "python3", "tsid/bin/pip", "pip", "source", "export", "mkdir", "cp", "sed", "cc", "c++", "./machine",
    "./controller",
)  # fmt: skip
"""Commands of other people that pages may show."""

SECTION = re.compile(r"^#{2,3} (\d+(?:\.\d+)?) ", flags=re.M)
CITATION = re.compile(r"\b(math|planner)\.md(?:, (?:sections?|chapters?))?[\s#]+(\d{1,2}(?!\d)(?:and|[\d.,;\s#-])*)")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return page and text of every block in a language."""
    matches = [(page, re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)) for page, text in PAGES.items()]
    return [(page, text) for page, texts in matches for text in texts]


def commands() -> list[tuple[str, str]]:
    """Return page and line of every command for a shell; a backslash continues a line."""
    shown = [
        *blocks("sh"),
        *(("README.md", line) for line in re.findall(r"^    ((?:idcontrol|make) \w.*)$", README, flags=re.M)),
    ]
    lines = [(page, line) for page, text in shown for line in text.replace("\\\n", " ").splitlines()]
    return [(page, line) for page, line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


WITH_PYTHON = sorted({page for page, _ in blocks("python")})
EXPENSIVE_PAGES = {"howto/filter.md", "howto/gradients.md"}
"""Pages whose kernels take long to compile."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page in EXPENSIVE_PAGES)) for page in WITH_PYTHON]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, monkeypatch):
    for registry in (controllers.REGISTRY, plants.REGISTRY):
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for _, text in (block for block in blocks("python") if block[0] == page):
            exec(compile(text, page, "exec"), names)
    for promised in re.findall(r"^print\(.*# > (.*)$", PAGES[page], flags=re.M):
        assert promised in said.getvalue()


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_understood(page, line):
    words = shlex.split(line.partition(" > ")[0], comments=True)
    if words[0] == "idcontrol":
        name, *arguments = words[1:]
        understood(cli.commands[name], name, arguments)
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M)
    elif words[:2] == ["pip", "install"]:
        (extras,) = re.findall(r"(?:\.|\.whl\))\[(.*)\]", line)  # from the clone or a wheel: no index has idcontrol
        offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(extras.split(",")) <= set(offered)
    elif words[:2] == ["python", "-m"]:
        assert (ROOT / f"{words[2].replace('.', '/')}.py").exists()
    else:
        assert words[0] in ELSEWHERE
        assert all(Path(word).exists() for word in words if word.startswith(("robots/", "experiments/")))


def understood(command: click.Command, name: str, arguments: list[str]) -> None:
    """Parse a command line as the command would, and look up the names in it."""
    context = command.make_context(name, list(arguments))
    values = context.params
    for key, known in (("controller", controllers.available()), ("plant", plants.available())):
        choices = values.get(f"{key}s") or values.get(key)
        if isinstance(choices, str) and choices != "all":
            assert all(one in known or ":" in one for one in choices.split(","))
    if name in ("run", "compare"):
        assert values["experiment"] in entries.entry_points(entries.EXPERIMENTS)
    if values.get("study"):
        assert values["study"] in entries.entry_points(entries.STUDIES)


def test_every_experiment_is_in_the_gallery_with_its_picture_and_its_command():
    parts = PAGES["gallery.md"].split("\n## ")[1:]
    assert sorted(part.splitlines()[0] for part in parts) == sorted(entries.entry_points(entries.EXPERIMENTS))
    for part in parts:
        (picture,) = re.findall(r"pictures/gallery/[\w.-]+", part)
        assert (DOCS / picture).is_file()
        assert re.search(rf"^idcontrol run {part.splitlines()[0]}\b", part, flags=re.M)


def test_settings_of_the_loop_that_pages_name_can_be_set():
    said = [line for _, line in commands() if line.startswith("idcontrol loop")]
    said += [line for page in PAGES.values() for line in page.splitlines() if "--set loop." in line]
    named = {key for line in said for key in re.findall(r"--set ([a-z_.0-9]+)=", line)}
    assert named
    for key in named:
        value: object = LoopSettings() if key.startswith("loop.") else WalkConfig()
        for part in key.removeprefix("loop.").split("."):
            value = getattr(value, part)


def test_the_page_of_settings_has_unit_default_range_and_meaning_of_each(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    rows = importlib.import_module("reference").settings().splitlines()
    assert any(row.startswith("| `kick.at_s` | `null` [s] | ≥\xa00, `null` | T") for row in rows)
    assert any(row.startswith("| `planner` | `trot` | `paper`, `trot` | `") for row in rows)
    assert any(row.startswith("| `push.impulse_n_s` | `null` [N s] |") for row in rows)
    named = {row.split("`")[1] for row in rows if row.startswith("| `")}
    prefixed = {f"loop.{key}" for key in keys(LoopSettings())}
    groups = {key.rpartition(".")[0] for key in named}
    assert {*keys(WalkConfig()), *prefixed} - named <= groups


def test_the_robot_file_of_the_tutorial_is_fit_to_run(tmp_path):
    (text,) = (text for page, text in blocks("toml") if page == "tutorials/robot.md")
    (tmp_path / "robot.toml").write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "robots" / "links" / "links.urdf", tmp_path / "my_robot.urdf")
    assert not robots.library.check(str(tmp_path / "robot.toml")).problems


def unresolved(text: str) -> list[str]:
    """Return the sections of numbered pages that a text cites but that do not exist."""
    cited = [
        (f"{name}.md", number)
        for name, numbers in CITATION.findall(text)
        for number in re.findall(r"(?<![\d.])\d{1,2}(?:\.\d{1,2})?(?![\d.]*\d)", numbers)
    ]
    return [f"{page} {number}" for page, number in cited if number not in SECTION.findall(PAGES[page])]


def test_every_section_that_the_sources_cite_exists():
    sources = [
        source
        for folder in ("idcontrol", "planners", "robots", "experiments", "tests")
        for source in (ROOT / folder).rglob("*.py")
    ]
    wrong = {str(source.relative_to(ROOT)): unresolved(source.read_text(encoding="utf-8")) for source in sources}
    assert not {source: cited for source, cited in wrong.items() if cited}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_papers_are_cited_by_author_and_year(page):
    assert not re.findall(r"\b00[0-4](?='s| \(\d|,? (?:section|eq|Algorithm|Appendix|Table))", PAGES[page])


@pytest.mark.parametrize("page", sorted(PAGES))
def test_fractions_of_formulas_are_in_braces(page):
    # docutils reads \frac12 as 12 over the next symbol, without a warning
    assert not re.findall(r"\\[dt]?frac\d", PAGES[page])


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_names_of_the_library_that_a_page_uses_exist(page):
    named = set(re.findall(r"(?<![\w/.\"])idcontrol(?:\.\w+)+", PAGES[page])) - {
        LOOPS,
        entries.STUDIES,
        entries.CONTROLLERS,
        entries.PLANTS,
    }
    assert not {name for name in named if not exists(name)}


def test_the_api_describes_the_modules_that_pages_name():
    sources = "".join(source.read_text(encoding="utf-8") for source in (DOCS / "api").glob("*.rst"))
    described = set(re.findall(r"automodule:: (\S+)", sources))
    role = re.compile(r"\{py:(?:obj|mod)\}`[^`]*?~?(idcontrol[\w.]*)>?`")
    named = {name for page in PAGES.values() for name in role.findall(page)}
    assert named
    assert not {name for name in named if module_of(name) not in described}


def module_of(name: str) -> str:
    """Return the module of a dotted name."""
    try:
        importlib.import_module(name)
    except ImportError:
        return module_of(name.rpartition(".")[0])
    return name


def test_tests_that_pages_name_exist():
    sources = "".join(source.read_text(encoding="utf-8") for source in (ROOT / "tests").rglob("test_*.py"))
    named = {name for page in PAGES.values() for name in re.findall(r"`(test_\w+)`", page)}
    assert named
    assert not named - set(re.findall(r"def (test_\w+)", sources))


def exists(name: str) -> bool:
    """True if a dotted name is a module, or is defined in a module."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
        return True
    home, _, last = name.rpartition(".")
    return bool(home) and exists(home) and hasattr(pkgutil.resolve_name(home), last)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom_with_its_outputs(tmp_path):
    notebook = nbformat.read(DOCS / "howto" / "notebook.ipynb", as_version=4)
    kept = [shown(cell) for cell in notebook.cells]
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [shown(cell) for cell in notebook.cells] == kept
    assert [kinds.count("image/png") for kinds in kept].count(1) == 5
    text = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    for words in ("completed", "joint position error, mean [mrad]", "mine.py:Mine", "LF_Y_3"):
        assert words in text
    assert len(list((tmp_path / "runs").rglob("metrics.json"))) == 4


def shown(cell: nbformat.NotebookNode) -> list[str]:
    """Return the kinds of a cell's outputs, sorted."""
    return sorted(kind for output in cell.get("outputs", ()) for kind in output.get("data", ()))


@pytest.mark.slow
def test_the_pages_build_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    build = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-d", tmp_path / "trees"]
    done = subprocess.run([*build, DOCS, tmp_path / "pages"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert "https://" not in "".join(re.findall(r"<(?:script|link)[^>]*>", index))  # readable without a network


def test_tutorials_guides_and_examples_use_no_private_name():
    files = [*(DOCS / "tutorials").glob("*.md"), *(DOCS / "howto").glob("*.md")]
    files += (DOCS.parents[1] / "experiments" / "examples").glob("*.py")
    private = re.compile(r"(?<!\bself)\._[a-z]")
    assert not {file.name: names for file in files if (names := private.findall(file.read_text()))}
