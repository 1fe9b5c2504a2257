"""Limits of each controller: the largest speed, push, load and error that its robot survives, by bisection.

A walk survives if it completes its task (`completed`). Every limit is bracketed by an easy and a hard case, and the
bracket is halved `HALVINGS` times. Bisection assumes that a failing robot also fails in every harder case. A controller
that survives the hard case has no limit within the bracket.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import matplotlib.ticker
from matplotlib.artist import setp

from idcontrol.experiments.headings import HEADINGS, headed
from idcontrol.experiments.studies import DURATION_S
from idcontrol.record.drawing import COLORS, STYLE, Picture, panels, picture
from idcontrol.show.report import plain
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import NOT_RUN, RunOutcome
from idcontrol.sweeps.study import Study, Table

CONTROLLERS = ("id-coulomb-qp", "id-noslip-qp", "id-sap", "pid")
"""One controller for each kind of contact model, and `pid`, which has none."""

HALVINGS = 5
"""Bisections of a bracket: to 1/32 of its width."""

ROUGH_MU = 0.8
"""Friction coefficient of the ground, unless friction is the hardship [-]."""

TRUE_MU = 0.3
"""Friction coefficient of the ground in runs with a wrong friction estimate [-]."""


class Hardship(NamedTuple):
    """A setting that is made harder until a robot fails.

    Attributes:
        name: Name, with its unit.
        easy: Value at which the search begins.
        hard: Value at which the search ends; less than `easy` if less is harder.
        settings: Returns the settings of a run for a value.
        value: Returns the value of a run from its settings; None for a run of another hardship.
        geometric: True if the middle of a bracket is the geometric mean.
    """

    name: str
    easy: float
    hard: float
    settings: Callable[[float], Mapping[str, Any]]
    value: Callable[[RunOutcome], float | None]
    geometric: bool = False

    def between(self, a: float, b: float) -> float:
        """Return the arithmetic mean of `a` and `b`, or their geometric mean if `geometric`; rounded to four digits."""
        return float(f"{math.sqrt(a * b) if self.geometric else 0.5 * (a + b):.4g}")


def _by_setting(name: str, key: str, easy: float, hard: float, *, geometric: bool = False, **more: Any) -> Hardship:
    """Return a hardship that varies one setting, with further fixed settings."""

    def value(o: RunOutcome) -> float | None:
        value = o.setting(key)
        alike = all(o.setting(other) == wanted for other, wanted in more.items())
        return None if not value or not alike else float(value)

    return Hardship(name, easy, hard, lambda x: {key: x, **more}, value, geometric)


def _speed(o: RunOutcome) -> float | None:
    return float(o.setting("path.command")[0][1]) if o.setting("path.kind") == "command" else None


def _friction(o: RunOutcome) -> float | None:
    mu = float(o.setting("mu"))
    return None if mu == ROUGH_MU or o.setting("friction.estimate") is not None else mu


def _kick(o: RunOutcome) -> float | None:
    return float(o.setting("kick.velocity_m_s")[1]) if o.setting("kick.at_s") is not None else None


HARDSHIPS = (
    Hardship(
        "speed ahead [m/s]",
        0.1,
        3.1,
        lambda v: {"path.kind": "command", "path.command": ((0.0, v, 0.0, 0.0),)},
        _speed,
    ),
    Hardship("friction of the ground", 0.64, 0.005, lambda mu: {"mu": mu}, _friction, geometric=True),
    Hardship(
        "kick to the side [m/s]", 0.05, 2.05, lambda v: {"kick.at_s": 2.0, "kick.velocity_m_s": (0.0, v, 0.0)}, _kick
    ),
    _by_setting("unknown payload, share of the mass", "disturbance.payload_share", 0.05, 1.65),
    _by_setting("delay [s]", "disturbance.delay_s", 0.001, 0.033),
    _by_setting("noise of angles [rad]", "noise.angle_rad", 1e-4, 0.1, geometric=True),
    _by_setting("constant error of the attitude [rad]", "sensing.bias.attitude_rad", 0.01, 0.4, geometric=True),
    _by_setting("lean of the true normals [rad]", "disturbance.normal_error_rad", 0.02, 0.98),
    _by_setting("assumed friction, true is 0.3", "friction.estimate", 0.33, 9.0, geometric=True, mu=TRUE_MU),
)


def _of(outcomes: Sequence[RunOutcome], hardship: Hardship, controller: Any) -> dict[float, bool | None]:
    """Map each value of the hardship to None if a run is missing, True if all runs completed, else False."""
    survival: dict[float, bool | None] = {}
    for o in outcomes:
        value = hardship.value(o)
        if value is None or o.setting("controller") != controller:
            continue
        done = None if o.reason == NOT_RUN else o.done
        before = survival.get(value, True)
        survival[value] = None if done is None or before is None else done and before
    return survival


def limits(outcomes: Sequence[RunOutcome], hardship: Hardship, controller: Any) -> tuple[float | None, float | None]:
    """Return the hardest value survived before the first failure, and the easiest failure; None for a missing value."""
    harder = 1.0 if hardship.hard > hardship.easy else -1.0
    survived = None
    for value, done in sorted(_of(outcomes, hardship, controller).items(), key=lambda item: harder * item[0]):
        if done is False:
            return survived, value
        survived = value if done else survived
    return survived, None


def _controllers(outcomes: Sequence[RunOutcome]) -> list[Any]:
    return list(dict.fromkeys(o.setting("controller") for o in outcomes))


def further(outcomes: Sequence[RunOutcome]) -> list[dict[str, Any]]:
    """Return the runs that halve each bracket that is too wide; none if all are narrow enough."""
    runs = []
    for hardship in HARDSHIPS:
        for controller in _controllers(outcomes):
            tried = _of(outcomes, hardship, controller)
            survived, lost = limits(outcomes, hardship, controller)
            if survived is None or lost is None or None in tried.values() or len(tried) >= HALVINGS + 2:
                continue
            value = hardship.between(survived, lost)
            if hardship.name.startswith("delay"):
                value = round(value, 3)  # whole periods of 1 ms
            if value not in tried:
                runs.append({"duration_s": DURATION_S, "controller": controller, **hardship.settings(value)})
    return runs


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Tabulate the hardest value of each hardship that each controller survives."""
    controllers = _controllers(outcomes)
    rows = []
    for hardship in HARDSHIPS:
        pairs = [limits(outcomes, hardship, controller) for controller in controllers]
        if any(pair != (None, None) for pair in pairs):
            rows.append((hardship.name, *(_in_words(*pair) for pair in pairs)))
    return (headed("envelope", rows, controllers),)


def _in_words(survived: float | None, lost: float | None) -> str:
    if survived is None:
        return "none" if lost is None else f"none ({plain(lost)})"
    return plain(survived) + ("" if lost is None else f" ({plain(lost)})")


def pictures(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    """Draw bars up to the hardest value that each controller survives, with the remaining bracket."""
    controllers = _controllers(outcomes)
    shown = [h for h in HARDSHIPS if any(limits(outcomes, h, c)[0] is not None for c in controllers)]
    if not shown:
        return ()
    with matplotlib.rc_context(STYLE):
        figure, axes = panels([0.28 * len(controllers) + 0.3] * -(-len(shown) // 2), 2, gap=0.75)
        for axis, hardship in zip(axes.flat, shown, strict=False):
            for place, controller in enumerate(controllers):
                survived, lost = limits(outcomes, hardship, controller)
                if survived is not None:
                    axis.barh(place, survived, color=COLORS[place % len(COLORS)], height=0.7, alpha=0.6)
                    axis.plot([survived, survived if lost is None else lost], [place, place], "|-", color="0.3", lw=0.8)
                    axis.text(survived, place, f" {plain(survived)}", va="bottom", fontsize=7)
                axis.text(0.01, place, controller, transform=axis.get_yaxis_transform(), va="center", fontsize=8)
            axis.set_yticks([])
            axis.set_ylim(len(controllers) - 0.5, -0.5)  # includes controllers that survive nothing
            axis.set_title(hardship.name + (": less is harder" if hardship.hard < hardship.easy else ""))
            if hardship.geometric:
                axis.set_xscale("log")
                axis.set_xlim(*sorted((hardship.easy, hardship.hard)))
                axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        setp(axes.flat[len(shown) :], visible=False)
        return (picture("Hardest survived values", HEADINGS["envelope"].sentence, figure),)


study = Study(
    experiment="trot",
    summary="the fastest, most slippery, heaviest, latest and noisiest walk of each controller, by bisection",
    runs=tuple(
        {"duration_s": DURATION_S, **of, **hardship.settings(value)}
        for of in product({"controller": CONTROLLERS})
        for hardship in HARDSHIPS
        for value in (hardship.easy, hardship.hard)
    ),
    tables=tables,
    pictures=pictures,
    further=further,
)
