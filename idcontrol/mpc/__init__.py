"""Socket for a planner or MPC that sends whole-body targets at a lower rate than the control loop.

A `Socket` turns targets into the tasks and the joint reference of inverse dynamics, tick by tick::

    socket = idc.mpc.Socket(robot)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=socket.tasks)
    socket.set_target(q, v, a, contacts, forces, t=0.01)  # at any time, at any rate
    command = controller(state, socket(state))  # every period

Exactly one feedback law acts: the acceleration gains of the robot file, or the matrix `K` if the target has one. So `a`
must be the planned acceleration, without feedback by the planner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.mpc import sticking
from idcontrol.robots import Robot
from idcontrol.tasks import Force, Frame, Posture, Task
from idcontrol.types import Array, Booleans, Event, Reference, State

if TYPE_CHECKING:
    from scipy.interpolate import BPoly

__all__ = ["Socket", "Target"]

REST_S: Final = 0.1
"""Time in which the reference comes to rest after the last target [s]."""
ROUNDING_S: Final = 1e-9
"""Times that differ by less than this count as equal [s]. Otherwise rounding errors could keep targets of older plans.
"""
JOIN_S: Final = 0.1
"""Time in which a foot that lifts off joins its planned path, unless it lands earlier [s]."""
JOINT_WEIGHT: Final = 1e-4
"""Weight of the joints' posture task; the tasks of base and swinging feet have the weight 1."""


def __dir__() -> list[str]:
    return __all__


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A whole-body target at one instant.

    Attributes:
        t: Time at which the robot should reach the target [s], on the clock of `State.t`.
        q: Configuration, Pinocchio's layout, shape (nq,).
        v: Velocity, Pinocchio's layout, shape (nv,).
        a: Acceleration, Pinocchio's layout, shape (nv,).
        contacts: True for feet that stand from `t` to the next target, shape (n_feet,).
        forces: Forces of the ground on the feet, world axes, shape (n_feet, 3) [N]; None for no force targets.
        K: Feedback matrix that acts from `t` until the next target: ``τ = τ_ff + K (x ⊖ x0)``, shape
            (n_actuated, 2 nv). x is the measured state (q, v), and τ_ff are the torques of the target's motion and
            forces. Rows are in the order of `System.actuated_names`; columns are for the tangent of q, then for v.
            Gains that reduce the error are negative. If `K` is None, the gains of tasks and joints act instead.
        x0: State (q, v) from which `K` measures the error, shape (nq + nv,); None for the interpolated reference.
    """

    t: float
    q: Array
    v: Array
    a: Array
    contacts: Booleans
    forces: Array | None = None
    K: Array | None = None
    x0: Array | None = None


class Socket:
    """A planner that interpolates the targets of another program. It has the interface of all planners.

    Between two targets, positions follow a quintic polynomial in the tangent space that matches position, velocity and
    acceleration of both targets. Forces are interpolated linearly if both targets have forces; otherwise the later
    target's `forces` hold. A new target with a time replaces all targets at the same or a later time, and positions
    continue from their present reference without a jump. A foot that lifts off starts from its measured pose, and joins
    its planned path within `JOIN_S` or by its touchdown, whichever comes first. While a matrix `K` acts, its torques
    move the foot instead.

    Attributes:
        tasks: Tasks for the controller: pose of the base, feet in the air, posture of the joints, force targets.
        events: Events of the stream: ``"targets stale"`` and ``"targets resumed"``.
    """

    def __init__(
        self, robot: Robot, *, rate_hz: float = 1000.0, stale: Literal["hold", "damp", "stop"] = "hold"
    ) -> None:
        """Prepare a socket without targets, which holds the standing pose.

        Args:
            robot: The robot, with a floating base.
            rate_hz: Rate of the control loop [Hz].
            stale: Reaction if the last target is reached and none follows. ``hold`` brings the reference to rest within
                `REST_S`, with the last contacts and force targets. ``damp`` only damps the joints' motion, with the
                last contacts. ``stop`` raises `InputError`; a loop then brakes.

        Raises:
            InputError: The robot has no floating base, or `stale` is none of these words.
        """
        contacts = robot.contacts(0.0)
        system = contacts.system
        if not system.floats:
            raise InputError(f"robot {robot.name!r} has no floating base; idcontrol.mpc.Socket needs one")
        if stale not in ("hold", "damp", "stop"):
            raise InputError(f"stale={stale!r} is unknown; it is hold, damp or stop")
        self._contacts, self._system, self._n = contacts, system, contacts.n_feet
        self._h, self._policy = 1.0 / rate_hz, stale
        bodies = [frame for frame in system.model.frames if frame.type == pin.BODY and frame.parentJoint == 1]
        feet = [contacts.frames[contacts.patch.tolist().index(foot)] for foot in range(self._n)]
        kp, kd = robot.acceleration_gains()
        # a leg with a point foot does not control the orientation of its foot
        part: Literal["pose", "position"] = "position" if contacts.sole_patch is None else "pose"
        body = str(bodies[0].name)
        self._frames = [Frame(body, kp=kp, kd=kd), *(Frame(foot, part, kp=kp, kd=kd) for foot in feet)]
        self._places = [system.frame(name) for name in (body, *feet)]
        self._forces = [Force(foot) for foot in feet]
        self.tasks: tuple[Task, ...] = (*self._frames, *self._forces, Posture(weight=JOINT_WEIGHT))
        self.events: list[Event] = []
        from scipy.interpolate import BPoly  # here, since loops without targets need not wait half a second for SciPy

        self._polynomial = BPoly.from_derivatives
        self.reset(robot.standing_state(system))

    def reset(self, state: State) -> None:
        """Forget all targets, and hold the pose of `state` with all feet on the ground."""
        self._queue: list[Target] = []
        self._path: BPoly | None = None
        self._stale = self._begun = False
        still, stands = np.zeros(self._system.model.nv), np.ones(self._n, dtype=np.bool_)
        self._start = self._last = Target(t=state.t, q=state.q.copy(), v=still, a=still, contacts=stands)
        self._touchdown, self._joining = np.full(self._n, -np.inf), dict[int, "BPoly"]()
        self.events.clear()

    def set_target(
        self,
        q: npt.ArrayLike,
        v: npt.ArrayLike,
        a: npt.ArrayLike,
        contacts: npt.ArrayLike,
        forces: npt.ArrayLike | None = None,
        K: npt.ArrayLike | None = None,
        x0: npt.ArrayLike | None = None,
        *,
        t: float | None = None,
    ) -> None:
        """Add a target; fields as in `Target`.

        Add the targets of a horizon in the order of their times: each target replaces all targets at the same or a
        later time. A target without a time replaces all others. In the next tick the reference jumps to this target,
        holds it, and never becomes stale.

        Raises:
            InputError: An array is unusable, or `t` is not after the last tick.
        """
        model, n = self._system.model, self._n
        shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,), "a": (model.nv,), "contacts": (n,)}
        values: dict[str, npt.ArrayLike] = {"q": q, "v": v, "a": a, "contacts": contacts}
        optional = {"forces": (forces, (n, 3)), "x0": (x0, (model.nq + model.nv,))}
        optional["K"] = K, (self._system.n_actuated, 2 * model.nv)
        for name, (value, shape) in optional.items():
            if value is not None:
                values[name], shapes[name] = value, shape
        arrays = {name: np.array(value, dtype=np.float64) for name, value in values.items()}
        for name, array in arrays.items():
            if array.shape != shapes[name] or not np.isfinite(array).all():
                raise InputError(f"{name} of a target must be finite and of shape {shapes[name]}: {array.tolist()}")
        if misfit := self._system.misfit(arrays["q"], arrays["v"]):
            raise InputError(f"target: {misfit}")
        now = self._last
        if t is not None and not t > now.t:
            raise InputError(f"the target is for t={t:g} s, but the loop is at {now.t:g} s; send it earlier")
        if self._stale:
            self.events.append(Event(t=now.t, what="targets resumed"))
        target = Target(t=now.t if t is None else t, contacts=arrays.pop("contacts") > 0.5, **arrays)
        ahead = [] if self._stale or t is None else [other for other in self._queue if other.t < target.t - ROUNDING_S]
        if not ahead:  # the end of the present path is replaced
            self._start, self._path = now, None
        self._queue, self._stale, self._begun = [*ahead, target], False, t is not None

    def __call__(self, state: State) -> Reference:
        """Set the tasks for ``state.t``, and return the reference of the joints.

        Raises:
            InputError: The last target is reached, none follows, and `stale` is ``stop``. Later calls do not raise it
                again before new targets have arrived and run out.
        """
        before = self._start.contacts
        while self._queue and self._queue[0].t <= state.t + ROUNDING_S:
            end = self._queue.pop(0)
            self._touchdown[end.contacts & ~self._start.contacts] = end.t
            self._start, self._path = end, None
        if not self._queue and self._begun and not self._stale:
            self._run_out(state.t)
        last, system = self._at(state.t), self._system
        damps = self._stale and self._policy == "damp"
        if damps:
            still = np.zeros_like(last.v)
            last = msgspec.structs.replace(last, q=state.q.copy(), v=still, a=still, forces=None)
        self._last = last
        for foot in np.flatnonzero(before & ~last.contacts):
            self._joining[int(foot)] = self._join(int(foot), last, state)
        q, v, a = self._set_tasks(last, state, damps=damps)
        base = pin.XYZQUATToSE3(last.q[:7]) * system.model.frames[self._places[0]].placement
        liftoff = np.full(self._n, np.inf)
        for target in reversed(self._queue):
            liftoff[~target.contacts & last.contacts] = target.t - state.t
        return Reference(
            q=system.joint_positions(q),
            v=system.joint_velocities(v),
            a=system.joint_velocities(a),
            stance=last.contacts.copy(),
            since_touchdown=np.where(last.contacts, state.t - self._touchdown, np.inf),
            to_liftoff=liftoff,
            base_position=base.translation.copy(),
            base_yaw=math.atan2(base.rotation[1, 0], base.rotation[0, 0]),
            feet=np.full((self._n, 3), np.nan),
        )

    def _run_out(self, t: float) -> None:
        """Add a target at rest after the last one; if `stale` is ``stop``, raise `InputError` instead."""
        self._stale, end = True, self._start
        self.events.append(Event(t=t, what="targets stale", detail={"policy": self._policy}))
        if self._policy == "stop":
            raise InputError(f"no target after t={end.t:g} s; send targets ahead of the loop")
        still = np.zeros_like(end.v)
        q = pin.integrate(self._system.model, end.q, 0.5 * REST_S * end.v)
        # a late planner's gains are not trusted
        self._start = end = msgspec.structs.replace(end, K=None, x0=None)
        self._queue = [msgspec.structs.replace(end, t=max(t, end.t) + REST_S, q=q, v=still, a=still)]

    def _at(self, t: float) -> Target:
        """Return the target at time `t`, interpolated between the last target and the next.

        If there is no next target, the result is the last target.
        """
        start = self._start
        if not self._queue:
            return msgspec.structs.replace(start, t=t)
        model, end = self._system.model, self._queue[0]
        if self._path is None:
            way = pin.difference(model, start.q, end.q)
            ends = [[np.zeros_like(way), start.v, start.a], [way, end.v, end.a]]
            self._path = self._polynomial([start.t, end.t], ends)
        forces, share = end.forces, (t - start.t) / (end.t - start.t)
        if forces is not None and start.forces is not None:
            forces = start.forces + share * (forces - start.forces)
        path = self._path
        q = pin.integrate(model, start.q, path(t))
        now = Target(t=t, q=q, v=path(t, 1), a=path(t, 2), contacts=start.contacts, forces=forces)
        return now if start.K is None else msgspec.structs.replace(now, K=start.K, x0=start.x0)

    def _join(self, foot: int, last: Target, state: State) -> BPoly:
        """Return the motion by which a foot that lifts off joins its planned path.

        The result is a polynomial in `State.t`. Its values are displacements from the planned path, linear, then
        angular, world axes, shape (6,) [m, rad].
        """
        # A standing foot follows no task: it rolls, and it may have landed beside its target. If its task began on the
        # planned path, the foot would still be moving towards this path when it lands.
        model, data, axes = self._system.model, self._system.scratch, pin.LOCAL_WORLD_ALIGNED
        frame = self._places[foot + 1]
        at = []
        for q, v in ((last.q, last.v), (state.q, state.v)):
            pin.forwardKinematics(model, data, q, v)
            place = pin.updateFramePlacement(model, data, frame).copy()
            at.append((place, pin.getFrameVelocity(model, data, frame, axes).vector))
        (plan, planned), (place, velocity) = at
        way = np.r_[place.translation - plan.translation, pin.log3(place.rotation @ plan.rotation.T)]
        lands = next((target.t for target in self._queue if target.contacts[foot]), np.inf)
        still = np.zeros(6)
        ends = [[way, velocity - planned, still], [still, still, still]]
        return self._polynomial([state.t, min(state.t + JOIN_S, lands)], ends)

    def _set_tasks(self, last: Target, state: State, *, damps: bool) -> tuple[Array, Array, Array]:
        """Set the tasks to the motion and forces that the target `last` demands.

        If `damps` is True, base and feet have no task; `last` then has no forces.

        Returns:
            Configuration, velocity and acceleration for the joints' reference, Pinocchio's layout.
        """
        model, data, axes = self._system.model, self._system.scratch, pin.LOCAL_WORLD_ALIGNED
        if last.K is None or damps:
            # mean velocity of the period (`Reference.v`)
            q, v, a, forces = last.q, last.v - 0.5 * self._h * last.a, last.a, last.forces
        else:  # a reference at the measured state makes the errors of tasks and joints zero
            q, v, (a, forces) = state.q, state.v, self._fed_back(last, state)
        pin.forwardKinematics(model, data, q, v, a)
        stands = [damps, *(last.contacts | damps)]  # feet on the ground have no task
        for foot, (task, frame, rests) in enumerate(zip(self._frames, self._places, stands, strict=True), -1):
            _weigh(task, 0.0 if rests else 1.0)
            if not rests:
                place, rows = pin.updateFramePlacement(model, data, frame), slice(0, 6 if task.kind == "pose" else 3)
                velocity = pin.getFrameVelocity(model, data, frame, axes).vector
                acceleration = pin.getFrameClassicalAcceleration(model, data, frame, axes).vector
                if last.K is None and (joining := self._joining.get(foot)) is not None and last.t < joining.x[-1]:
                    way, speed, change = (joining(last.t, k) for k in range(3))
                    place = pin.SE3(pin.exp3(way[3:]) @ place.rotation, place.translation + way[:3])
                    velocity, acceleration = velocity + speed - 0.5 * self._h * change, acceleration + change
                task.set(place, velocity[rows], acceleration[rows])
        for foot, force in enumerate(self._forces):
            if forces is not None:
                force.set(forces[foot])
            _weigh(force, 0.0 if forces is None else 1.0)
        return q, v, a

    def _fed_back(self, last: Target, state: State) -> tuple[Array, Array]:
        """Return the robot's acceleration and the forces on its feet under the torques ``τ_ff + K (x ⊖ x0)``."""
        model, x0 = self._system.model, np.r_[last.q, last.v] if last.x0 is None else last.x0
        tau = sticking.torques(self._contacts, last.contacts, (last.q, last.v, last.a), last.forces)
        error = np.r_[pin.difference(model, x0[: model.nq], state.q), state.v - x0[model.nq :]]
        return sticking.motion(self._contacts, last.contacts, state.q, state.v, tau + last.K @ error)


def _weigh(task: Frame | Force, weight: float) -> None:
    """Set the weight of all rows of `task`."""
    if (task.weight != weight).any():  # reading takes a fraction of the time of writing, which checks the numbers
        task.weight = weight
