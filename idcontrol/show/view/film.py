"""Playback of a recorded run: the row at each time, and the poses and arrows of each row."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.record.files import checked
from idcontrol.record.recording import Run
from idcontrol.record.scenery import of_run
from idcontrol.robots.robot import Robot
from idcontrol.show.view.stage import Shot, Stage
from idcontrol.types import Array

PATH_POINTS = 1500
"""Largest number of points in the drawn path of the base."""
STRAYS = 0.3
"""Distance from the start, as a share of the stage's size, at which a robot leaves the middle of the picture."""


class _Way(msgspec.Struct, frozen=True):
    """The drawn part of a walk's layout (`idcontrol.record.metrics.Layout`)."""

    waypoints: tuple[tuple[float, float], ...] = ()
    joints: tuple[str, ...] = ()
    feet: tuple[str, ...] = ()
    joint_q: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()


class Film:
    """A run and its stage. Rows with a NaN in a time, configuration or pose are left out; n rows remain.

    Attributes:
        run: The run.
        stage: The stage that shows the run.
        times: Times of the rows, shape (n,) [s].
        waypoints: Waypoints of the walk, x and y, shape (k, 2) [m].
        path: Positions of the base in some rows, shape (up to `PATH_POINTS`, 3) [m]; (0, 3) without a floating base.
        references: Reference configurations of each row, shape (n, nq); None if not recorded.
        curves: Curves over the times by title; each has a name and values, shape (n,).
        torque_rate: Mean |Δτ/Δt| over the joints in each row [N m/s], shape (n,); None if torques are not recorded.
    """

    def __init__(self, run: Run, find_robot: Callable[[str], Robot]) -> None:
        """Set up the stage for `run`.

        Raises:
            UnknownName: The robot of the run is unknown.
            InputError: The record has nothing to show, or is damaged.
        """
        scenery = of_run(run)
        self.run = run
        moving = (["q"] if scenery.robot else []) + [f"pose_{body.name}" for body in scenery.bodies]
        known = np.isfinite(run.arrays["t"])
        for name in moving:
            if name in run.arrays:
                known &= np.isfinite(run.arrays[name].reshape(len(known), -1)).all(axis=1)
        self._rows = np.flatnonzero(known)
        if not len(self._rows):
            raise InputError(f"{run.folder}: every pose is NaN, so there is nothing to play; record the run again")
        first = run.arrays["q"][self._rows[0]] if scenery.robot else None
        self.stage = Stage(scenery, find_robot, first)
        if not self.stage.floating and (largest := np.nanmax(np.abs(run.arrays.get("force", 0.0)), initial=0.0)) > 0.0:
            longest = self.stage.size / largest  # scale arrows for grip forces, which exceed the arm's weight
            self.stage.metres_per_newton = min(self.stage.metres_per_newton, longest)
        self.times: Array = run.arrays["t"][self._rows]
        if (np.diff(self.times) < 0.0).any():
            raise InputError(f"{run.folder} is damaged: its times are not in order; record the run again")
        way = checked(run.meta.get("layout") or {}, _Way, f"{run.folder}: meta.layout")
        self.waypoints: Array = np.array(way.waypoints, dtype=float).reshape(-1, 2)
        self.path: Array = self._path()
        self.torque_rate = self._torque_rate()
        self.references = self._references(way)
        self.curves = self._curves(way)

    def row(self, t: float) -> int:
        """Return the index of the row shown at time `t` [s]: the last row up to `t`, or the first row."""
        return max(int(np.searchsorted(self.times, t, side="right")) - 1, 0)

    def shot(self, row: int) -> Shot:
        """Return poses, contacts and forces in a row."""
        at = self._rows[row]
        wanted = {} if self.references is None else {"q_ref": self.references[row]}
        return self.stage.at({name: values[at] for name, values in self.run.arrays.items()} | wanted)

    def strays(self) -> bool:
        """True if a robot with a floating base leaves the middle of a fixed camera's picture."""
        way = self.path[:, :2] - self.path[:1, :2]
        return bool(np.linalg.norm(way, axis=1).max(initial=0.0) > STRAYS * self.stage.size)

    def _path(self) -> Array:
        """Return the base's positions in evenly spaced rows from first to last; empty without a floating base."""
        q = self.run.arrays.get("q")
        if q is None or not self.stage.floating:
            return np.zeros((0, 3))
        chosen = np.unique(np.linspace(0, len(self._rows) - 1, PATH_POINTS).astype(np.int64))
        return q[self._rows[chosen], :3]

    def _references(self, way: _Way) -> Array | None:
        """Return the configurations with the references of the joints and, if recorded, of the base.

        A configuration whose reference has a NaN is the measured configuration. Return None without references.
        """
        q, q_des, base = (self.run.arrays.get(name) for name in ("q", "q_des", "base_ref"))
        if q is None or q_des is None or q_des.shape[1:] != (len(way.joint_q),) or max(way.joint_q) >= q.shape[1]:
            return None
        wanted = q[self._rows].copy()
        wanted[:, list(way.joint_q)] = q_des[self._rows]
        if base is not None and base.shape[1:] == (4,) and self.stage.floating:
            half = 0.5 * base[self._rows, 3]
            upright = np.column_stack([0.0 * half, 0.0 * half, np.sin(half), np.cos(half)])
            wanted[:, :7] = np.column_stack([base[self._rows, :3], upright])
        known = np.isfinite(wanted).all(axis=1)
        wanted[~known] = q[self._rows][~known]
        return wanted

    def _curves(self, way: _Way) -> dict[str, list[tuple[str, Array]]]:
        arrays = {name: values[self._rows] for name, values in self.run.arrays.items()}
        curves: dict[str, list[tuple[str, Array]]] = {}
        if "tau" in arrays and arrays["tau"].shape[1:] == (len(way.joints),):
            curves["torques [N m]"] = list(zip(way.joints, arrays["tau"].T, strict=True))
        if "force" in arrays and arrays["force"].shape[1:] == (len(way.feet), 3):
            curves["vertical forces [N]"] = list(zip(way.feet, arrays["force"][:, :, 2].T, strict=True))
        if self.references is not None:
            columns = list(way.joint_q)
            error = 1e3 * np.abs(arrays["q"][:, columns] - self.references[:, columns])
            curves["joint errors [mrad]"] = [("largest", error.max(axis=1)), ("mean", error.mean(axis=1))]
        return curves

    def _torque_rate(self) -> Array | None:
        tau = self.run.arrays.get("tau")
        if tau is None or tau.ndim != 2 or not tau.shape[1]:
            return None
        rate = np.zeros(len(self._rows))
        span = np.diff(self.times)
        change = np.abs(np.diff(tau[self._rows], axis=0)).mean(axis=1)
        np.divide(change, span, out=rate[1:], where=span > 0.0)
        return np.nan_to_num(rate)
