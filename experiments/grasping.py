"""The grasp of Zapolsky & Drumwright 2017, Fig. 18 and Table 6: ``idcontrol compare grasp --study grasping``."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np

from idcontrol.experiments.grasp import FIG_18, NO_SLIP_MU, PAPER_DROP_S, PAPER_ERROR
from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.claims import statement_table
from idcontrol.experiments.tables.printed import scored, scored_alike, verdicts
from idcontrol.experiments.tables.results import CHATTER, PAPER, PREDICTING, SENSING
from idcontrol.experiments.verdicts import Judged, compared, verdict
from idcontrol.record.drawing import STYLE, Picture, panels, picture
from idcontrol.record.recording import load
from idcontrol.show.comparison.figures import COLORS
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table
from idcontrol.types import Array

FRICTIONS = (math.inf, 1.0)
"""Friction coefficients of Fig. 18."""

CONTROLLERS = (*PREDICTING, "id-coulomb-smooth", "id-coulomb-qp-raw", "pid", *SENSING)
"""Controllers of the paper, first the controllers in its Table 6."""

TASKS = {4: math.inf, 5: 1.0}
"""Friction of the grasps in Table 6, by row number."""

DERIVED = {
    "id-noslip-lcp": "theory/no_slip.md",
    "id-noslip-qp": "theory/no_slip.md",
    "id-coulomb-lcp": "theory/index.md",
}
"""Pages that derive why some controllers pass here and fail in Table 6: no-slip controllers deviate if friction is too
low, and demands that are projected onto the contacts do not chatter."""

DROPS = ("id-coulomb-qp", "pid")
"""Controllers that drop the box at mu 1 in Fig. 18."""

JUDGED = ("held_s", "q_err_held_rad")
"""Metrics in Fig. 18: how long the box is held, and the arm's error in that time."""

MEASURED = ("box_pos_max_m", "friction_used", "tips_off", "dtau_mean_nm_s")
"""Further metrics of the table of Fig. 18."""

FRAMES = 150
"""Number of time averages in a curve."""


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Return the outcomes in the form of the paper's tables and figures."""
    return (verdicts(judged(outcomes)), _held(outcomes), _scores(outcomes), statement_table(tuple(_arms(outcomes))))


def judged(outcomes: Sequence[RunOutcome]) -> tuple[Judged, ...]:
    """Return the paper's numbers for grasps, compared with the runs."""
    return (*_numbers(outcomes), *scored(_scores(outcomes)), *_arms(outcomes))


def _numbers(outcomes: Sequence[RunOutcome]) -> Iterator[Judged]:
    """Yield the numbers of Fig. 18: when the box falls, and the error of the arm under pid."""
    for o in outcomes:
        controller, mu = o.setting("controller"), o.setting("mu")
        fell = PAPER_DROP_S if mu == 1.0 and controller in DROPS else None
        error = PAPER_ERROR[min(mu, NO_SLIP_MU)] if controller == "pid" else None
        for key, printed in zip(JUDGED, (fell, error), strict=True):
            if printed is not None and (said := compared(value := o.metric(key), printed)) is not None:
                yield Judged(FIG_18, f"{key}, {controller}, µ {mu:g}", printed, value, said)


def _at(outcomes: Sequence[RunOutcome], controller: str, mu: float) -> RunOutcome | None:
    return next((o for o in outcomes if o.setting("controller") == controller and o.setting("mu") == mu), None)


def _held(outcomes: Sequence[RunOutcome]) -> Table:
    """Return how long each controller held the box, and the arm's error."""
    rows = []
    for o in outcomes:
        of_it = {one.what.partition(",")[0]: one for one in _numbers([o])}
        printed = [(one.printed, one.verdict) if (one := of_it.get(key)) else (None, None) for key in JUDGED]
        held, error, *others = (o.metric(key) for key in (*JUDGED, *MEASURED))
        (fell, fell_says), (off, off_says) = printed
        rows.append((o.setting("controller"), o.setting("mu"), fell, held, off, error, *others, fell_says, off_says))
    return headed("fig18-grasp", rows)


def _scores(outcomes: Sequence[RunOutcome]) -> Table:
    """Return the grasping rows of Table 6, scored from the measurements."""
    rows: list[tuple[Any, ...]] = []
    for number, mu in TASKS.items():
        scored = PAPER["scores"]["rows"][number]
        baseline = _at(outcomes, "pid", mu)
        rate = None if baseline is None else baseline.metric("dtau_mean_nm_s")
        for controller, printed in zip(PAPER["scores"]["columns"], scored["result"], strict=True):
            score = _score(_at(outcomes, controller, mu), rate)
            derivation = DERIVED.get(controller, "") if score == "pass" else ""
            rows.append((scored["task"], controller, printed, score, scored_alike(score, printed, derivation)))
    return headed("table6-grasp", rows)


def _score(outcome: RunOutcome | None, baseline: float | None) -> str | None:
    if outcome is None:
        return None
    if outcome.metrics is None:
        return f"fail: {outcome.reason}"
    if outcome.metric("dropped_at_s") is not None:
        return f"fail: drops the box at {outcome.metric('dropped_at_s'):.2f} s"
    rate = outcome.metric("dtau_mean_nm_s")
    if baseline is not None and rate > CHATTER * baseline:
        return f"fail: torque chatter, {rate / baseline:.3g} times pid's"
    return "pass"


def _arms(outcomes: Sequence[RunOutcome]) -> Iterator[Judged]:
    """Yield a comparison at infinite friction: the arm's largest error over all controllers but `pid`, and under `pid`.

    Without these runs, yield nothing.
    """
    baseline = _at(outcomes, "pid", math.inf)
    error = None if baseline is None else baseline.metric("q_err_held_rad")
    aware = [o for o in outcomes if math.isinf(o.setting("mu")) and o.setting("controller") != "pid"]
    known = [o for o in aware if o.metric("q_err_held_rad") is not None]  # None if the box was dropped immediately
    if error is not None and known:
        worst = max(known, key=lambda o: o.metric("q_err_held_rad"))
        off = worst.metric("q_err_held_rad")
        yield Judged(
            source=FIG_18,
            what="at mu inf their arm is off by at most half of pid's",
            printed=f"pid {PAPER_ERROR[NO_SLIP_MU]:.2g} rad, recorded",
            found=f"worst {worst.setting('controller')} {off:.3g} rad, pid {error:.3g} rad",
            verdict=verdict(off <= 0.5 * error),
        )


def _curve(outcome: RunOutcome) -> tuple[Array, Array]:
    """Return the time and mean error of the joints of the arm, as `FRAMES` averages [s, rad]."""
    arrays = load(outcome.folder).arrays
    t, error = arrays["t"], arrays["q_err_arm"]
    first = np.unique(np.linspace(0, len(t), min(FRAMES, len(t)), endpoint=False).astype(np.int64))
    counts = np.diff(np.append(first, len(t)))
    return np.add.reduceat(t, first) / counts, np.add.reduceat(error, first) / counts


def pictures(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    """Draw Fig. 18."""
    drawn = [o for o in outcomes if o.metrics is not None]
    if not drawn:
        return ()
    with matplotlib.rc_context(STYLE):
        figure, axes = panels([2.6] * len(FRICTIONS), gap=0.6)
        for panel, mu in zip(axes[:, 0], FRICTIONS, strict=True):
            for number, controller in enumerate(CONTROLLERS):
                o = _at(drawn, controller, mu)
                if o is None:
                    continue
                # equal curves stay visible: thinner lines are drawn over wider ones
                panel.semilogy(*_curve(o), color=COLORS[number], linewidth=3.0 - 0.25 * number, label=controller)
                dropped = o.metric("dropped_at_s")
                if dropped is not None:
                    panel.axvline(dropped, linewidth=0.8, linestyle=":", color=COLORS[number])
            panel.axhline(
                PAPER_ERROR[min(mu, NO_SLIP_MU)], color="0.3", linewidth=0.8, linestyle="-.", label="pid, recorded"
            )
            panel.set(title=f"mu {mu:g}", ylabel="error of the arm's joints [rad]", ylim=(None, 30.0))
        axes[0, 0].legend(loc="upper center", ncols=5)  # in the empty space above the curves
        axes[-1, 0].set_xlabel("time [s]")
        return (
            picture(
                "Fig. 18: error of the arm that swings the box",
                "Mean over the seven joints; equal curves overlap. A dotted line is where the box "
                "is dropped, dash-dotted the mean error of the original's pid.",
                figure,
            ),
        )


study = Study(
    experiment="grasp",
    summary="Fig. 18 and Table 6 of Zapolsky & Drumwright 2017: which controllers hold the box at mu inf and 1",
    runs=tuple(product({"preset": ("default",), "controller": CONTROLLERS, "mu": FRICTIONS})),
    tables=tables,
    pictures=pictures,
)
