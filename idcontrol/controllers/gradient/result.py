"""The result of `linearize`, of controllers (`InverseDynamics`) and of plants (`Stepping`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from idcontrol.errors import InputError, UnknownName
from idcontrol.types import Array, Integers

SINGULAR: Final = "the equations of the step are singular"
"""Reason of a step whose equations have no finite solution."""


class Active(NamedTuple):
    """The active set at which a step was linearized.

    Attributes:
        contacts: ``"stick"``, ``"slide"`` or ``"part"`` (open) for each contact in stance.
        joints: For each joint: ``"free"``; ``"bound"`` if it is tracked with its torque at a limit; ``"released"`` if
            its torque is at a limit and it is not tracked.
    """

    contacts: tuple[str, ...]
    joints: tuple[str, ...]


class Margin(NamedTuple):
    """Distances to the next change of the active set; inf if nothing of the kind can change.

    The active set stays the same while each force, velocity and torque changes by less than its distance, and active
    limits keep their multipliers. Changes of a contact's force and velocity are Euclidean norms. Distances are lower
    bounds: changes in other directions, or of other contacts, may be larger. If limits of friction and motors restrict
    the demand of tasks, its own forces, joint velocities, torques and multipliers count, too. Which contacts are in
    stance is constant, so no distance tells when a foot begins or ends to touch. All are 0 if the step has no
    derivative.

    Attributes:
        force: Smallest change of a contact force at which the force leaves its face of the friction cone [N].
        speed: Smallest change of a contact's velocity at which the contact closes, stops, slides along other edges of
            its pyramid, or passes a speed of the settings [m/s]; or smallest lag of a released joint, or change of a
            joint's desired velocity at which the joint's stop limits it [rad/s].
        torque: Smallest distance of a torque to its bounds, of joints that are free [N m].
        multiplier: Smallest multiplier of an active limit of stage II, relative to the largest term of the gradient.
    """

    force: float
    speed: float
    torque: float
    multiplier: float


class Part(NamedTuple):
    """Columns of the slopes through which a part of a parameter acts.

    Attributes:
        first: First entry of the parameter that the part belongs to.
        columns: Columns of the slopes: the k variables that the part acts through.
        factor: Derivative of these variables by the entries of the part, shape (k, entries); a number or shape (k,) if
            each entry acts through the variable of its column alone.
    """

    first: int
    columns: slice | Integers
    factor: Array | float = 1.0

    def of(self, slope: Array) -> Array:
        """Return the derivative by the entries, shape (…, entries), for a derivative by variables, shape (…, P)."""
        columns, factor = self.columns, self.factor
        own: Array = slope.take(columns, axis=-1) if isinstance(columns, np.ndarray) else slope[..., columns]
        if isinstance(factor, float):
            return own if factor == 1.0 else factor * own
        return own @ factor if factor.ndim == 2 else factor * own


@dataclass(frozen=True, slots=True, kw_only=True)
class Linearization:
    """The derivative of one step of a controller or of a plant.

    Estimated friction, the estimated load, the last torques and the choice of the contacts in stance count as constant.

    Attributes:
        identity: Identities of the n contacts in stance.
        tau: Torques, shape (a,) [N m].
        force: Forces of the ground that the torques assume, world axes, shape (n, 3) [N].
        v_next: Velocity at the end of the period, in Pinocchio's layout, shape (nv,).
        task: Desired minus demanded acceleration of each task row with a weight, in the order of the tasks, shape (p,)
            [m/s², rad/s², or N m for angular momentum].
        active: The active set.
        room: Returns `margin`, which takes longer than the derivative.
        reason: Empty if `slopes` is the derivative of the step; otherwise the reason why all or some of `slopes` are
            not derivatives.
        error: Relative error of the conditions that were differentiated, for each parameter. If the error for ``"mu"``
            is much larger than for other parameters, contacts slide in parallel, so forces jump when the friction of
            one contact changes. Only the sum of the columns is then a derivative, with respect to the friction of all
            contacts together. Such an error for ``"normal"`` means that the contacts cannot all slide on when one
            normal turns.
        slopes: Derivative of each output, with one column per variable of the step.
        sizes: Number of entries of each parameter.
        missing: What to do instead, for parameters of controllers that this step has no derivative by.
        parts: Returns how a parameter acts through the variables, by its name.
    """

    identity: Integers
    tau: Array
    force: Array
    v_next: Array
    task: Array
    active: Active
    room: Callable[[], Margin]
    reason: str
    error: Mapping[str, float]
    slopes: Mapping[str, Array]
    sizes: Mapping[str, int]
    missing: Mapping[str, str]
    parts: Callable[[str], tuple[Part, ...]]

    @property
    def margin(self) -> Margin:
        """Distances to the next change of the active set. If one is zero, the derivative holds on one side only."""
        return self.room()

    def jacobian(self, *, of: str, by: str) -> Array:
        """Return a Jacobian, shape (outputs, parameters).

        Args:
            of: ``"tau"``, a rows; ``"force"``, 3 n rows: x, y, z of the first contact, then of the second;
                ``"v_next"``, nv rows; ``"task"``, p rows; ``"q_next"``, nv rows: a tangent at the configuration after a
                plant's step.
            by: ``"q"``, nv columns: a tangent of the configuration as in ``pinocchio.integrate``; ``"v"``, nv columns;
                ``"reference"``, 3 a columns: q, v and a of the joints; ``"task"``, p columns: desired acceleration of
                each task row; ``"gains"``, 2 a columns: kp and kd of the joints [1/s², 1/s]; ``"limits"``, a columns:
                largest torques [N m]; ``"mu"``, n columns: friction of the contacts in stance;
                ``"load"``, nv columns: generalized external forces; ``"inertia"``: 10 columns per body, as in
                `pinocchio.computeJointTorqueRegressor`; ``"normal"``, 2 n columns: angles by which the normal of a
                contact in stance turns towards its first and its second tangent, at constant centre of its sphere and
                constant gap [rad]. Of a controller, the last three are on demand (`InverseDynamics.linearize`), and
                with tasks, id-sap or id-constraint there is no `inertia`. Only a plant's step has ``"tau"``, a columns:
                torques.

        Raises:
            UnknownName: There is no such output or parameter.
            InputError: `of` or `by` is not a string; or this step has no derivative by the parameter.
        """
        _require_name("output", of, self.slopes)
        self._require(by)
        slope, parts = self.slopes[of], self.parts(by)
        if len(parts) == 1 and isinstance(parts[0].columns, np.ndarray):
            return parts[0].of(slope)
        out = np.zeros((slope.shape[0], self.sizes[by]))
        for each in parts:
            part = each.of(slope)
            out[:, each.first : each.first + part.shape[1]] += part
        return out

    def jvp(self, **directions: Array) -> dict[str, Array]:
        """Return the changes of all outputs, by name, for changes of parameters by name.

        Raises:
            UnknownName: There is no such parameter.
            InputError: A change does not have the shape of its parameter, or is not finite; or this step has no
                derivative by the parameter.
        """
        changes: dict[str, Array] = {of: np.zeros(slope.shape[0]) for of, slope in self.slopes.items()}
        for by, direction in directions.items():
            self._require(by)
            change = _shaped(f"the change of {by}", direction, (self.sizes[by],))
            for of in changes:
                changes[of] += self.jacobian(of=of, by=by) @ change
        return changes | {"force": changes["force"].reshape(-1, 3)}

    def vjp(
        self,
        tau: Array | None = None,
        force: Array | None = None,
        v_next: Array | None = None,
        task: Array | None = None,
        q_next: Array | None = None,
    ) -> dict[str, Array]:
        """Return the gradient of a scalar with respect to each parameter, by name.

        The arguments are the gradients of the scalar with respect to the outputs; None for zero.

        Raises:
            UnknownName: A gradient belongs to an output without a derivative, as `q_next` of a controller.
            InputError: A gradient does not have the shape of its output, or is not finite.
        """
        gradient = np.zeros(self.slopes["v_next"].shape[1])
        for of, output, gradient_of in (
            ("tau", self.tau, tau),
            ("force", self.force, force),
            ("v_next", self.v_next, v_next),
            ("task", self.task, task),
            ("q_next", self.v_next, q_next),
        ):
            if gradient_of is not None:
                _require_name("output", of, self.slopes)
                gradient += _shaped(f"the gradient by {of}", gradient_of, output.shape).ravel() @ self.slopes[of]
        out = {by: np.zeros(size) for by, size in self.sizes.items()}
        for by in out:
            for each in self.parts(by):
                part = each.of(gradient)
                out[by][each.first : each.first + part.size] += part
        return out

    def _require(self, by: str) -> None:
        """Check that the step has a derivative by a parameter.

        Raises:
            UnknownName: There is no such parameter.
            InputError: The name is not a string, or the step has no derivative by the parameter.
        """
        if isinstance(by, str) and by in self.missing:
            raise InputError(f"no derivative by {by!r}: {self.missing[by]}")
        _require_name("parameter", by, self.sizes)


def _require_name(kind: str, name: object, known: Mapping[str, object]) -> None:
    """Check that `name` is one of the names of outputs or parameters.

    Raises:
        UnknownName: There is no such name.
        InputError: The name is not a string.
    """
    if not isinstance(name, str):
        raise InputError(f"{kind} {name!r} is not a string; ask for one of {', '.join(sorted(known))} at a time")
    if name not in known:
        raise UnknownName(kind, name, known)


def _shaped(name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return `value` as an array of this shape.

    Raises:
        InputError: It has another shape, or is not finite.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers; it needs shape {shape}") from None
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; it needs {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} is not finite at index {int(np.argmin(np.isfinite(array).ravel()))}")
    return array
