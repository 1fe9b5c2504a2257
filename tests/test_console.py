"""Tables of the command line fit the terminal and cut no word."""

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from idcontrol.cli.console import FOLDED, Grid

WORD = st.text("aqzμ²059-_.", min_size=1, max_size=FOLDED)
TEXT = st.lists(WORD, max_size=6).map(" ".join)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Draw tables of one to eight columns, some with text, some spare."""
    headings = draw(st.lists(TEXT.filter(bool), min_size=1, max_size=8, unique=True))
    some = st.lists(st.sampled_from(headings), unique=True)
    grid = Grid(*headings, words=draw(some), spare=draw(some))
    for row in draw(st.lists(st.tuples(*[TEXT] * len(headings)), max_size=4)):
        grid.add(*row)
    return grid


@settings(deadline=None)
@given(grids(), st.integers(FOLDED, 200))
def test_a_table_fits_its_width_without_cutting_words(grid, width):
    table, dropped = grid.fit(width)
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    shown = capture.get()
    assert max(map(len, shown.splitlines()), default=0) <= width
    assert "…" not in shown
    kept = [i for i, name in enumerate(grid.headings) if name not in dropped and any(row[i] for row in grid.rows)]
    for i in kept:
        for text in (grid.headings[i], *(row[i] for row in grid.rows)):
            assert set(text.split()) <= set(shown.split())


def test_the_comparison_of_controllers_is_whole_at_80_columns():
    heads = (
        "joint position error, mean [mrad]",
        "torque rate, mean [N m/s]",
        "predicted total normal force, relative error [%]",
    )
    grid = Grid("controller", "plant", *heads, "slip [mm/s]", words=("controller", "plant"), spare=("slip [mm/s]",))
    grid.add("id-coulomb-smooth", "coulomb-cone", "1.12", "14", "0.00344", "0.02")
    assert grid.fit(80)[1] == []
    assert grid.fit(65)[1] == ["slip [mm/s]"]
