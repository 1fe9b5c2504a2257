"""Measured tosses of an acrylic cube, and the errors of every plant's simulation from the same state in flight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
import pinocchio as pin
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from idcontrol import plants
from idcontrol.bench.peers import installed
from idcontrol.config.configuration import Count
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.errors import Diverged, InputError
from idcontrol.experiments import cube as record
from idcontrol.experiments.case import Case, Progress, chosen
from idcontrol.experiments.cube import PERIOD, SIGNS, Cube, Impacts, Toss
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.record.scenery import DrawableBody, Scenery
from idcontrol.types import Array

POINT_M = 1e-4
"""Radius of the spheres at the corners, which third-party engines need [m]."""

RESTS, RESTING_ROWS = 1e-3, 3
"""Speed [m/s and rad/s] and number of rows: a cube slower than this for so many rows is at rest, and the simulation
stops."""

LOST_M = 1.0
"""Mean error that the fit assumes for parameters with which a simulation diverges [m]."""

FIRST_STEP: Final = 0.25
"""Side of the optimizer's first simplex, in logarithms of the parameters."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A plant and its fitted parameters.

    Attributes:
        plant: Name of the plant.
        fitted: Parameters by name, fitted to the even tosses of the record: ``mu``, fields of `plants.GroundSettings`,
            and for MuJoCo ``time_constant_s`` and ``damping_ratio`` of its contacts. All are positive; the fit begins
            with them.
        fixed: Parameters outside the fit.
    """

    plant: str
    fitted: Mapping[str, float]
    fixed: Mapping[str, float] | None = None

    @property
    def outside(self) -> bool:
        """True if the engine belongs to another package."""
        return self.plant in ("mujoco", "pybullet")


ENGINES: Final[Mapping[str, Engine]] = {
    "coulomb-cone": Engine("coulomb-cone", {"mu": 0.1785, "restitution": 0.1953}),
    "coulomb-cone-plastic": Engine("coulomb-cone", {"mu": 0.1734}),
    "coulomb-lcp": Engine("coulomb-lcp", {"mu": 0.2055, "restitution": 0.1573}),
    "dissipation": Engine("dissipation", {"mu": 0.2008, "restitution": 0.1714}),
    "sap": Engine("sap", {"mu": 0.1693, "stiffness_n_m": 12450.0, "damping_n_s_m": 24.63}),
    "constraint": Engine("constraint", {"mu": 0.2129, "stiffness_n_m": 10640.0, "damping_n_s_m": 41.47}),
    "penalty": Engine("penalty", {"mu": 0.1708, "stiffness_n_m": 7610.0, "damping_n_s_m": 47.88}),
    "viscous": Engine("viscous", {"drag_n_s_m": 1.284, "restitution": 0.2}),
    "noslip": Engine("noslip", {"restitution": 0.282}, {"mu": np.inf}),
    "mujoco": Engine("mujoco", {"mu": 0.1795, "time_constant_s": 0.009245, "damping_ratio": 0.6697}),
    "pybullet": Engine("pybullet", {"mu": 0.1787, "restitution": 0.1147}),
}
"""The contact laws of the comparison, each with its surface parameters."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the comparison.

    Attributes:
        data: Path of ``cube_tosses.npz``; required.
        plant: One of `ENGINES`, or ``all``.
        evaluations: Largest number of times that the fit of an engine simulates its tosses; 0 skips the fit and uses
            the parameters of `ENGINES` and `cube`.
        fit_tosses: Number of tosses for the fit, spread over the even half of the file.
        score: Scored tosses: the ``odd`` half, or ``all`` of a file that was not used for a fit.
        score_tosses: Number of scored tosses, spread over that half or file; 0 means all.
        substeps: Number of steps of each plant between two rows of the record.
        cube: The cube, if nothing is fitted; else it is calibrated on the even half.
    """

    data: str = ""
    plant: str = "all"
    evaluations: Annotated[int, msgspec.Meta(ge=0)] = 22
    fit_tosses: Count = 20
    score: Literal["odd", "all"] = "odd"
    score_tosses: Annotated[int, msgspec.Meta(ge=0)] = 0
    substeps: Count = 4
    cube: Cube = Cube(
        scale=1.02158, half_width_m=0.052324, inertia_kg_m2=0.0010968, centre_m=(0.00035, -0.00033, 0.00566)
    )


MISSING = (
    "tosses needs cube_tosses.npz, the tosses of github.com/DAIRLab/contact-nets (data/tosses_processed) in one file: "
    "rows (x y z qw qx qy qz ...) and offsets; give its path with --set data=PATH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors of a simulated toss, row by row, shape (rows,) each.

    Attributes:
        corner: Mean distance of the eight corners [m].
        position: Distance between the simulated and the measured middle of the cube [m].
        rotation: Angle between the orientations [rad].
        depth: Depth of the lowest simulated corner below the board, 0 above it [m].
    """

    corner: Array
    position: Array
    rotation: Array
    depth: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An engine with fitted parameters, and its errors on the scored tosses.

    Attributes:
        engine: The engine.
        parameters: Parameters of the plant by name.
        poses: Simulated poses of each toss, shape (rows, 7).
        errors: Errors of each toss.
    """

    engine: Engine
    parameters: Mapping[str, float]
    poses: Sequence[Array]
    errors: Sequence[Errors]

    def mean(self, what: str) -> float:
        """Return the mean of an error over the poses of a toss, averaged over the tosses."""
        return float(np.mean([getattr(each, what).mean() for each in self.errors]))

    def last(self, what: str) -> float:
        """Return an error in the last row, where the cube usually rests, averaged over the tosses."""
        return float(np.mean([getattr(each, what)[-1] for each in self.errors]))

    def metrics(self) -> dict[str, Any]:
        """Return the engine's errors by name, with their units in the names.

        ``corner_m``, ``position_m`` and ``rotation_rad`` are means over rows and tosses. ``rest_m`` and ``rest_rad``
        are the errors of position and rotation in the last row. ``corner_median_m`` is the median of the tosses' mean
        errors of corners. ``turned_share`` is the fraction of tosses whose last rotation error exceeds 45°.
        ``penetration_m`` is the mean of the tosses' largest depths. ``parameters`` are the plant's parameters.
        """
        return {
            "corner_m": self.mean("corner"),
            "position_m": self.mean("position"),
            "rotation_rad": self.mean("rotation"),
            "rest_m": self.last("position"),
            "rest_rad": self.last("rotation"),
            "corner_median_m": float(np.median([each.corner.mean() for each in self.errors])),
            "turned_share": float(np.mean([each.rotation[-1] > np.pi / 4 for each in self.errors])),
            "penetration_m": float(np.mean([each.depth.max() for each in self.errors])),
            "parameters": dict(self.parameters),
        }


def engine(entry: Engine, parameters: Mapping[str, float], cube: Cube, h: float) -> plants.SimulatedPlant:
    """Return the plant with the cube on the board.

    Args:
        entry: The plant.
        parameters: Parameters of the plant by name.
        cube: The cube.
        h: Longest step [s].

    Raises:
        InputError: The plant needs a package that is not installed, or a parameter is impossible.
    """
    options = {**(entry.fixed or {}), **parameters}
    contact = {name: options.pop(name) for name in ("time_constant_s", "damping_ratio") if name in options}
    mu = options.pop("mu", 0.0)
    system = System(_model(cube))
    offsets = (cube.half_width_m - POINT_M) * SIGNS
    contacts = SphereContacts(system, ["cube"] * 8, POINT_M, plane(), mu, offsets=offsets)
    settings = msgspec.convert(options, plants.GroundSettings)
    plant = plants.build(entry.plant, plants.Setup(system=system, contacts=contacts, dt=h, settings=settings))
    if contact:
        plant.model.geom_solref[:, :2] = contact["time_constant_s"], contact["damping_ratio"]  # type: ignore[attr-defined]
    return plant


def _model(cube: Cube) -> Any:
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "cube")
    inertia = pin.Inertia(cube.mass_kg, np.array(cube.centre_m), cube.inertia_kg_m2 * np.eye(3))
    model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    model.addJointFrame(joint)
    return model


def simulate(plant: plants.SimulatedPlant, toss: Toss) -> Array:
    """Return the simulated poses at the sample times of the measured toss, shape (rows, 7)."""
    poses, nothing, resting = np.empty_like(toss.pose), np.zeros(0), 0
    state = plant.reset(toss.start)
    poses[0] = state.q
    for row in range(1, len(poses)):
        state = plant.step(nothing, PERIOD)
        poses[row] = state.q
        resting = resting + 1 if np.abs(state.v).max() < RESTS else 0
        if resting == RESTING_ROWS:
            poses[row:] = state.q
            break
    return poses


def compare(toss: Toss, pose: Array, cube: Cube) -> Errors:
    """Return errors of simulated poses, shape (rows, 7)."""
    corners = record.corners_of(pose, cube)
    turned = Rotation.from_quat(pose[:, 3:]) * Rotation.from_quat(toss.pose[:, 3:]).inv()
    return Errors(
        corner=np.linalg.norm(corners - toss.corners, axis=2).mean(axis=1),
        position=np.linalg.norm(pose[:, :3] - toss.pose[:, :3], axis=1),
        rotation=turned.magnitude(),
        depth=np.maximum(-corners[:, :, 2].min(axis=1), 0.0),
    )


def fit(
    entry: Engine, tosses: Sequence[Toss], cube: Cube, config: Config, progress: Callable[[], None]
) -> dict[str, float]:
    """Fit the parameters in ``entry.fitted``: minimize the mean error of the corners over rows and tosses.

    The method is Nelder and Mead's on the logarithms of the parameters: tosses are chaotic, so gradients are useless.
    The result is the best of at most ``config.evaluations`` evaluations; `progress` is called at each.

    Raises:
        InputError: As for `engine`.
    """
    names, start = list(entry.fitted), np.log(list(entry.fitted.values()))

    def miss(logarithms: Array) -> float:
        progress()
        try:
            plant = engine(entry, _named(names, logarithms), cube, PERIOD / config.substeps)
            return float(np.mean([compare(toss, simulate(plant, toss), cube).corner.mean() for toss in tosses]))
        except Diverged:
            return LOST_M

    simplex = np.vstack((start, start + FIRST_STEP * np.eye(len(names))))
    optimum = minimize(
        miss,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": config.evaluations, "xatol": 5e-3, "fatol": 1e-5},
    )
    return _named(names, optimum.x)


def _named(names: Sequence[str], logarithms: Array) -> dict[str, float]:
    """Return parameters by name, with the restitution limited to 1."""
    values = np.exp(logarithms)
    return {
        name: float(min(value, 1.0) if name == "restitution" else value)
        for name, value in zip(names, values, strict=True)
    }


def score(entry: Engine, parameters: Mapping[str, float], tosses: Sequence[Toss], cube: Cube, substeps: int) -> Score:
    """Simulate the tosses with fixed parameters, and return the errors."""
    plant = engine(entry, parameters, cube, PERIOD / substeps)
    poses = [simulate(plant, toss) for toss in tosses]
    errors = [compare(toss, pose, cube) for toss, pose in zip(tosses, poses, strict=True)]
    return Score(engine=entry, parameters=parameters, poses=poses, errors=errors)


def run(config: Config, progress: Progress) -> Results:
    """Calibrate the cube and fit every engine, unless `evaluations` is 0; then score the engines.

    Engines of other packages are left out if they are not installed.

    Raises:
        InputError: `data` is missing, or is not a usable record of tosses; no engine is left.
        UnknownName: The engine does not exist.
    """
    if not config.data:
        raise InputError(MISSING)
    tracks = record.read(Path(config.data))
    fits = config.evaluations > 0
    cube = record.calibrate(tracks[::2]) if fits else config.cube
    fitted = _spread(_prepared(tracks[::2], cube), config.fit_tosses) if fits else []
    scored = _spread(_prepared(tracks[1::2] if config.score == "odd" else tracks, cube), config.score_tosses)
    if not scored:
        raise InputError(f"{config.data} has no toss that begins with two rows of flight; give another file")
    entries = {
        name: entry
        for name, entry in chosen(ENGINES, config.plant).items()
        if not entry.outside or installed(entry.plant)
    }
    if not entries:
        raise InputError(f"plant={config.plant}: its package is not installed; idcontrol doctor names it")
    steps, done = len(entries) * (config.evaluations + 1), 0

    def stepped() -> None:
        nonlocal done
        done += 1
        progress(min(1.0, done / steps))

    scores: dict[str, Score] = {}
    for name, entry in entries.items():
        parameters = fit(entry, fitted, cube, config, stepped) if fits else dict(entry.fitted)
        scores[name] = score(entry, parameters, scored, cube, config.substeps)
        stepped()
    hits = record.impacts(tracks[::2], cube)
    shown = min(scores, key=lambda name: (scores[name].engine.outside, scores[name].mean("corner")))
    order = np.argsort([each.corner.mean() for each in scores[shown].errors])
    median, worst = int(order[len(order) // 2]), int(order[-1])
    return Results(
        findings=[*_of_cube(cube, hits), *_of_engines(scores)],
        series=_replay(scored, scores[shown], (median, worst)),
        drawings=[_against_time(scored, scores)],
        extra={
            "engines": {name: each.metrics() for name, each in scores.items()},
            "tosses": len(scored),
            "cube": msgspec.to_builtins(cube),
        },
        scene=_scene(cube),
    )


experiment = Case(
    name="tosses",
    summary="measured tosses of a cube, compared with each contact law (--set data=PATH)",
    presets={"default": Config(), "fitted": Config(evaluations=0)},
    simulate=run,
)


def _prepared(tracks: Sequence[record.Track], cube: Cube) -> list[Toss]:
    return [toss for track in tracks if (toss := record.prepare(track, cube)) is not None]


def _spread(tosses: list[Toss], count: int) -> list[Toss]:
    """Return `count` items, spread over all; all items if `count` is 0, or if there are no more than `count`."""
    if not 0 < count < len(tosses):
        return tosses
    return [tosses[k] for k in np.linspace(0, len(tosses) - 1, count).round().astype(int)]


def _of_cube(cube: Cube, hits: Impacts) -> list[Finding]:
    """Return the findings about the cube and its impacts, which are independent of the engines."""
    findings = [
        Finding("scale", cube.scale),
        Finding("half_width_m", cube.half_width_m),
        Finding("centre_z_m", cube.centre_m[2]),
        Finding("inertia_kg_m2", cube.inertia_kg_m2),
    ]
    if hits.number.size:
        findings.append(Finding("impulse_delay_s", hits.delay))
        for what, values in (("friction", hits.friction), ("restitution", hits.restitution)):
            findings.append(Finding(f"{what}_in_impacts", np.percentile(values, 50)))
    return findings


def _of_engines(scores: Mapping[str, Score]) -> list[Finding]:
    findings = []
    for name, each in scores.items():
        key = name.replace("-", "_")
        findings += [
            Finding(f"corner_{key}_m", each.mean("corner")),
            Finding(f"rotation_{key}_rad", each.mean("rotation")),
            Finding(f"rest_{key}_m", each.last("position")),
        ]
    best = {
        outside: min((each.mean("corner") for each in scores.values() if each.engine.outside is outside), default=None)
        for outside in (False, True)
    }
    ours, others = best[False], best[True]
    if ours is not None and others is not None:
        findings.append(Finding("ours_over_outside", ours / others, holds=ours <= others))
    return findings


def _replay(tosses: Sequence[Toss], shown: Score, numbers: Sequence[int]) -> dict[str, Series]:
    """Return poses of the median and the worst toss, measured and simulated, side by side."""
    rows = max(len(tosses[k].pose) for k in numbers)
    series = {"t": Series(np.asarray(PERIOD * np.arange(rows)), "s")}
    for place, (what, k) in enumerate(zip(("median", "worst"), numbers, strict=True)):
        for kind, poses in (("measured", tosses[k].pose), ("simulated", shown.poses[k])):
            held = np.vstack((poses, np.repeat(poses[-1:], rows - len(poses), axis=0)))
            held[:, :2] += [0.0, APART_M * (place - 0.5)] - tosses[k].pose[:, :2].mean(axis=0)
            series[f"pose_{what}_{kind}"] = Series(held)
    return series


def _scene(cube: Cube) -> Scenery:
    size = (2.0 * cube.half_width_m,) * 3
    looks = {"measured": ((0.35, 0.37, 0.42), 0.45), "simulated": ((0.16, 0.45, 0.75), 1.0)}
    return Scenery(
        bodies=tuple(
            DrawableBody(name=f"{what}_{kind}", shape="box", size_m=size, colour=colour, opacity=opacity)
            for what in ("median", "worst")
            for kind, (colour, opacity) in looks.items()
        )
    )


def _against_time(tosses: Sequence[Toss], scores: Mapping[str, Score]) -> Drawing:
    """Draw medians over the tosses by time; a toss that has ended counts with its last error."""
    rows = int(np.median([len(toss.pose) for toss in tosses]))
    t = PERIOD * np.arange(rows)

    def median(each: Score, what: str) -> Array:
        held = [getattr(one, what)[np.minimum(np.arange(rows), len(one.corner) - 1)] for one in each.errors]
        return np.asarray(np.median(held, axis=0))

    with axes(columns=3, size=(11.0, 3.6)) as (position, rotation, depth):
        for name, each in scores.items():
            style = "--" if each.engine.outside else "-"
            position.plot(t, 1e3 * median(each, "position"), style, label=name)
            rotation.plot(t, np.degrees(median(each, "rotation")), style)
            depth.plot(t, 1e3 * median(each, "depth"), style)
        measured = [np.maximum(-toss.corners[:, :, 2].min(axis=1), 0.0) for toss in tosses]
        held = [one[np.minimum(np.arange(rows), one.size - 1)] for one in measured]
        depth.plot(t, 1e3 * np.median(held, axis=0), "k:", label="measured")
        depth.legend(fontsize="x-small")
        position.set(xlabel="time [s]", ylabel="error of the position [mm]")
        rotation.set(xlabel="time [s]", ylabel="error of the rotation [deg]")
        depth.set(xlabel="time [s]", ylabel="lowest corner below the board [mm]")
        position.legend(fontsize="x-small", ncols=2)
        position.figure.tight_layout()
    return Drawing("Errors against time", position.figure)


APART_M = 0.6
"""Distance of the two tosses of the replay [m]."""
