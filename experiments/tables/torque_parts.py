"""Parts of the torque rate of a run: contact switching, internal forces, necessary contact forces, feedback.

With the joints' accelerations w = q̈_des + feedback prescribed and the base free, the torques are linear in w and in
the contact forces f (math.md, section 3) of the feet in planned stance; b is the base, q the joints:

    τ = S w + C f + rest,   S = M_qq - M_qb M_bb⁻¹ M_bq,   C = M_qb M_bb⁻¹ J_bᵀ - J_qᵀ

f splits into P f, an indeterminate part that does not act on the base (J_bᵀ P f = 0), and the part that the base needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from idcontrol import robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.record.metrics import Layout
from idcontrol.record.recording import Run, load
from idcontrol.scenes.settings import FeedbackGains
from idcontrol.types import TOUCHING_N, Array, Booleans, Integers

SWITCH_S = 0.005
"""Torque changes within this time of a planned or real touchdown or liftoff count as contact switching [s]."""

SAMPLES = 1000
"""Largest number of changes outside contact switching that are split into parts; they are evenly spread."""

SENSED = {"id-sensed-1": 1, "id-sensed-2": 2}
"""Controllers that use sensed instead of predicted forces, and the age of the sensed forces in periods."""

RANK = 1e-6
"""Singular values below this share of the largest count as zero. J_b mixes units; its nonzero singular values are about
1."""

PARTS = ("switching", "internal", "borne", "feedback", "rest")
"""The parts of a torque rate: the attributes of `TorqueParts` that add up to it."""


@dataclass(frozen=True, slots=True)
class TorqueParts:
    """Parts of a run's torque changes.

    The first five add up to the mean |Δτ/Δt| [N m/s]. The sign of each part is relative to the whole change, so a part
    that counteracts the others is negative.

    Attributes:
        switching: Changes within `SWITCH_S` of a contact change.
        internal: Other changes by internal forces, which are indeterminate, as they do not act on the base.
        borne: Other changes by contact forces that act on the base. The demanded motion needs these forces, even if it
            is inconsistent with the contacts.
        feedback: Other changes by the error feedback, including noise of the state.
        rest: Other changes by planned motion, bias, and the projection of the demand.
        turning_back: Share of the other changes that the next tick reverses (chatter).
    """

    switching: float
    internal: float
    borne: float
    feedback: float
    rest: float
    turning_back: float

    @property
    def total(self) -> float:
        """Return the mean |Δτ/Δt| [N m/s]."""
        return self.switching + self.internal + self.borne + self.feedback + self.rest

    def share(self, part: str) -> float:
        """Return the share of the part with this attribute name in the total; 0 if the total is 0."""
        value: float = getattr(self, part)
        return value / self.total if self.total > 0.0 else 0.0


@lru_cache(maxsize=256)
def torques_of(folder: Path) -> TorqueParts | None:
    """Return the parts of the torque rate of the run in `folder`; None if the run has fewer than ten rows."""
    run = load(folder)
    if len(run.arrays["t"]) < 10:
        return None
    h = msgspec.convert(run.meta["layout"], Layout).period_s
    change = np.diff(run.arrays["tau"], axis=0)
    stance, force = run.arrays["stance"] > 0.5, run.arrays["force"]
    switches = rows_around_switches(stance, np.linalg.norm(force, axis=2) > TOUCHING_N, round(SWITCH_S / h))[1:]
    rate = np.abs(change) / h
    switching, quiet = float(rate[switches].sum() / rate.size), float(rate[~switches].sum() / rate.size)
    back = np.zeros(change.shape, dtype=bool)
    back[:-1] = change[1:] * change[:-1] < 0.0
    others: Integers = np.flatnonzero(~switches) + 1
    others = others[others > max(SENSED.values())]
    if others.size > SAMPLES:
        others = others[np.linspace(0, others.size - 1, SAMPLES).astype(np.int64)]
    internal, borne, feedback = _taken_apart(run, others)
    return TorqueParts(
        switching=switching,
        internal=internal * quiet,
        borne=borne * quiet,
        feedback=feedback * quiet,
        rest=(1.0 - internal - borne - feedback) * quiet,
        turning_back=float((rate * back)[~switches].sum() / rate[~switches].sum()) if rate[~switches].any() else 0.0,
    )


def rows_around_switches(stance: Booleans, touching: Booleans, reach: int) -> Booleans:
    """Return True for rows within `reach` rows of a change of a foot's planned stance or real contact.

    Args:
        stance: Planned stance, shape (rows, n_feet).
        touching: Real contact, shape (rows, n_feet).
        reach: Number of rows.
    """
    switched = np.zeros(len(stance), dtype=bool)
    for state in (stance, touching):
        switched[1:] |= (state[1:] != state[:-1]).any(axis=1)
    return np.convolve(switched, np.ones(2 * reach + 1), mode="same") > 0.5


def _taken_apart(run: Run, rows: Integers) -> tuple[float, float, float]:
    """Return the shares of internal forces, borne forces and feedback in the torque changes that lead to `rows`."""
    robot = robots.load(run.config["robot"])
    spheres = robot.contacts(1.0)
    controller, delay = run.config["controller"], SENSED.get(run.config["controller"], 0)
    force = run.arrays["force"] if delay else np.nan_to_num(run.arrays["force_pred"])
    gains = _gains(run, robot, spheres.system.actuated_names)
    signed, absolute = np.zeros(3), 0.0
    for k in rows.tolist():
        change = run.arrays["tau"][k] - run.arrays["tau"][k - 1]
        absolute += np.abs(change).sum()
        if controller == "pid":
            signed[2] += np.abs(change).sum()
            continue
        before, now = (_split(spheres, run, at, force[at - delay], gains) for at in (k - 1, k))
        signed += (now - before) @ np.sign(change)
    internal, borne, feedback = (signed / absolute).tolist() if absolute > 0.0 else (0.0, 0.0, 0.0)
    return internal, borne, feedback


class _Gains(NamedTuple):
    """Gains of the error feedback of inverse dynamics.

    Attributes:
        acceleration: Stiffness [1/s²] and damping [1/s].
        beside: Stiffness [N m/rad] and damping [N m s/rad] of additional joint feedback torques, shape (2, a); 0 for
            none.
    """

    acceleration: tuple[float, float]
    beside: Array


def _gains(run: Run, robot: robots.Robot, joints: Sequence[str]) -> _Gains:
    """Return the gains with which a run was made."""
    gains = msgspec.convert(run.config.get("gains", {}), FeedbackGains).of(run.config["controller"])
    known = robot.description.gains.acceleration
    beside = np.array(robot.torque_gains(joints))
    for row, gain in zip(beside, (gains.kp_nm_rad, gains.kd_nm_s_rad), strict=True):
        row[:] = row if gain is None else gain
    return _Gains(
        acceleration=(
            known.kp_1_s2 if gains.kp_1_s2 is None else gains.kp_1_s2,
            known.kd_1_s if gains.kd_1_s is None else gains.kd_1_s,
        ),
        beside=beside * gains.beside,
    )


def _split(spheres: SphereContacts, run: Run, k: int, force: Array, gains: _Gains) -> Array:
    """Return torques of internal forces, borne forces and feedback in row `k`, shape (3, a) [N m].

    `force` are the contact forces, shape (n_feet, 3) [N].
    """
    system, arrays = spheres.system, run.arrays
    u = system.n_unactuated
    system.update(arrays["q"][k], arrays["v"][k])
    contacts = spheres.detect(np.inf)
    n, m = len(contacts), system.n_velocities
    rows = contacts.jacobian.reshape(3, n, m).transpose(1, 0, 2)
    standing = arrays["stance"][k] > 0.5
    J = (contacts.axes.transpose(0, 2, 1) @ rows)[standing].reshape(-1, m)
    f = force[standing].ravel()
    M = system.M
    onto_base = np.linalg.solve(M[:u, :u], M[:u, u:]).T
    borne = J[:, :u] @ np.linalg.pinv(J[:, :u], rcond=RANK) @ f
    C = onto_base @ J[:, :u].T - J[:, u:].T
    q, v = system.joint_positions(arrays["q"][k]), system.joint_velocities(arrays["v"][k])
    error = np.array([arrays["q_des"][k] - q, arrays["v_des"][k] - v])
    S = M[u:, u:] - onto_base @ M[:u, u:]
    feedback = S @ np.dot(gains.acceleration, error) + (gains.beside * error).sum(axis=0)
    return np.array([C @ (f - borne), C @ borne, feedback])
