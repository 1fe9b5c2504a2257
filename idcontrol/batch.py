"""Controllers for n robots of one kind, e.g. thousands of simulated robots, stepped in one call.

Input and output arrays have one row per robot. For each row, a compiled loop computes the multibody terms
(`idcontrol.dynamics.multibody`), detects the contacts and takes the control step. It releases the interpreter's lock,
so threads share the rows. Python code runs only for rows for which compiled code finds no accurate solution, and for
rows of `id-coulomb-qp-1` and `id-constraint` with infinite friction.

The result of a row is bitwise equal to the result of `Controllers.single`, a controller for one robot.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from idcontrol import filter
from idcontrol.config.configuration import period
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain
from idcontrol.controllers import Gains, InverseSettings, Setup, build
from idcontrol.controllers.friction import MOST_FEET
from idcontrol.controllers.gradient import Linearization
from idcontrol.controllers.inputs import copy_inputs
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.step import SOLVED
from idcontrol.controllers.whole import whole_step
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.robots.robot import Robot
from idcontrol.tasks import Task
from idcontrol.types import Array, Booleans, Command, Integers, Reference, State, Status

FAILED: Final = int(Status.FAILED)
FALLBACK: Final = int(Status.FALLBACK)
REPAIRED: Final = int(Status.REPAIRED)
"""Statuses as integers, for kernels."""


class References(NamedTuple):
    """References of n robots, one row per robot, with the field names of `idcontrol.types.Reference`.

    Attributes:
        q: Joint positions, shape (n, a) [rad].
        v: Joint velocities, shape (n, a) [rad/s].
        a: Joint accelerations, shape (n, a) [rad/s²].
        stance: True for feet in planned stance, shape (n, n_feet).
        since_touchdown: Time since each foot's planned touchdown, shape (n, n_feet) [s].
        to_liftoff: Time to the planned lift-off of each foot, shape (n, n_feet) [s].
    """

    q: Array
    v: Array
    a: Array
    stance: Booleans
    since_touchdown: Array
    to_liftoff: Array

    @staticmethod
    def standing(q: Array, feet: int) -> References:
        """Return references that hold joint positions `q`, shape (n, a) [rad], with all `feet` feet on the ground."""
        shape = (len(q), feet)
        never = np.full(shape, np.inf)
        return References(q, np.zeros_like(q), np.zeros_like(q), np.ones(shape, dtype=np.bool_), never, never)

    def row(self, i: int) -> Reference:
        """Return the reference of robot i."""
        return structs.replace(
            Reference.standing(self.q[i], self.stance.shape[1]),
            v=self.v[i],
            a=self.a[i],
            stance=self.stance[i],
            since_touchdown=self.since_touchdown[i],
            to_liftoff=self.to_liftoff[i],
        )


class Commands(NamedTuple):
    """Commands of n robots for one period, one row per robot, with the field names of `idcontrol.types.Command`.

    Attributes:
        tau: Joint torques, shape (n, a) [N m]; zeros if state or reference is unusable.
        force: Predicted force on each foot, or on each corner of soles, world axes, shape (n, k, 3) [N]; zeros without
            contact.
        status: `idcontrol.types.Status` of each step, shape (n,).
        residual: Relative residual of each contact problem, shape (n,).
        clipped: True if a torque is at its limit, shape (n,).
    """

    tau: Array
    force: Array
    status: Integers
    residual: Array
    clipped: Booleans


class Linearizations(NamedTuple):
    """Derivatives of the steps of n robots.

    Attributes:
        rows: The derivative of each robot's step.
        contacts: Number k of feet, or of corners of soles.
    """

    rows: tuple[Linearization, ...]
    contacts: int

    def jacobian(self, *, of: str, by: str) -> Array:
        """Return the Jacobians of all rows, shape (n, outputs, parameters), as `Linearization.jacobian`.

        Forces, friction and normals have entries for all k contacts; they are zero for contacts that are not in stance.

        Raises:
            UnknownName: There is no such output or parameter.
        """
        return np.stack([self._whole(row, row.jacobian(of=of, by=by), of, by) for row in self.rows])

    def _whole(self, row: Linearization, slope: Array, of: str, by: str) -> Array:
        """Return the Jacobian `slope` of a row, with zeros for entries of contacts that are not in stance."""
        if of == "force":
            slope = _scattered(slope, row.identity, self.contacts, 3)
        each = {"mu": 1, "normal": 2}.get(by, 0)
        return _scattered(slope.T, row.identity, self.contacts, each).T if each else slope


def _scattered(rows: Array, used: Integers, count: int, each: int) -> Array:
    """Return `count` blocks of `each` rows: block ``used[i]`` is block i of `rows`, and all others are zero."""
    out = np.zeros((count, each, rows.shape[1]))
    out[used] = rows.reshape(-1, each, rows.shape[1])
    return out.reshape(-1, rows.shape[1])


class _Rows(NamedTuple):
    """The memory of n `InverseDynamics` controllers between steps, one row per controller.

    `_take_row` copies a row to a controller before its step, `_keep_row` back.
    """

    identity: Integers
    active: Integers
    used: Integers
    tau: Array
    releases: Integers
    lifted: Integers
    friction_t: Array
    friction_v: Array
    slip: Array
    impulse: Array
    balance: Array
    shown: Array
    load_t: Array
    load_v: Array
    carried: Integers
    load: Array
    pressed: Integers
    force: Array

    @staticmethod
    def forgotten(n: int, m: int, a: int, k: int, corners: int) -> _Rows:
        """Return the memory of n controllers before their first step."""
        whole = np.int64
        return _Rows(
            identity=np.zeros((n, k), dtype=whole),
            active=np.zeros((n, k), dtype=whole),
            used=np.zeros((n, 1), dtype=whole),
            tau=np.full((n, a), np.nan),
            releases=np.zeros((n, 1), dtype=whole),
            lifted=np.zeros((n, corners), dtype=whole),
            friction_t=np.full((n, 1), -np.inf),
            friction_v=np.zeros((n, m)),
            slip=np.zeros((n, k, 2)),
            impulse=np.zeros((n, 2)),
            balance=np.zeros((n, 4)),
            shown=np.full((n, 1), np.inf),
            load_t=np.full((n, 1), -np.inf),
            load_v=np.zeros((n, m)),
            carried=np.zeros((n, 1), dtype=whole),
            load=np.zeros((n, 3)),
            pressed=np.zeros((n, k), dtype=whole),
            force=np.zeros((n, k, 3)),
        )


class _Worker(NamedTuple):
    """One thread's controller, in the form that kernels accept.

    Attributes:
        whole: The controller's `idcontrol.controllers.whole.Whole`.
        intake: Buffer into which `copy_inputs` writes state and reference.
    """

    whole: Bound
    intake: Bound


class _Call(NamedTuple):
    """Times, states, references and assumed friction of all rows."""

    t: Array
    q: Array
    v: Array
    references: References
    mu: Array


class Controllers:
    """Controllers for n robots of one kind, which all stand on the same terrain."""

    def __init__(
        self,
        name: str,
        robot: Robot,
        n: int,
        *,
        mu: npt.ArrayLike,
        rate_hz: float = 1000.0,
        terrain: Terrain | None = None,
        settings: InverseSettings | None = None,
        threads: int | None = None,
        tasks: Sequence[Task] = (),
    ) -> None:
        """Make n controllers.

        Args:
            name: A controller of inverse dynamics that predicts its contact forces, e.g. ``"id-coulomb-qp"``; or
                ``"filter"`` (`idcontrol.filter`). References of a filter are joint targets, and their field `a` has
                torques [N m] instead of accelerations.
            robot: A robot from `idcontrol.robots.load`.
            n: Number of controllers.
            mu: Assumed friction coefficient of each row, one number or shape (n,); inf means no slip, which a filter
                does not support.
            rate_hz: Rate of the calls [Hz].
            terrain: The ground; None means the plane z = 0.
            settings: Settings of the steps; None for the defaults, which for a filter have no limit of torque rates.
                Impacts are never predicted, even if the settings ask for it.
            threads: Number of threads that share the rows; None means one per processor that this process may use.
            tasks: Whole-body tasks (`idcontrol.tasks`); all rows share their gains, weights and references. Their
                errors are undefined: only some rows update them. A filter has no tasks.

        Raises:
            UnknownName: No controller has that name, or the frame of a task does not exist.
            InputError: The controller has no compiled step, the robot or a task is unusable, or an argument is not a
                valid number.
        """
        if n < 1:
            raise InputError(f"a batch of {n} controllers: give 1 or more")
        settings = settings or InverseSettings(rate_limit_nm_s=None if name == "filter" else "robot")
        self._settings = name, robot, period(rate_hz), terrain, replace(settings, impacts=False)
        self._tasks = tuple(tasks)
        friction = np.asarray(mu, dtype=np.float64)
        if friction.shape not in ((), (n,)) or not (friction >= 0.0).all():
            raise InputError(f"mu must be one number from 0 to inf, or {n} of them")
        if name == "filter" and (tasks or not np.isfinite(friction).all()):
            raise InputError("a batch of filters needs finite friction, and has no tasks")
        count = _processors() if threads is None else threads
        if count < 1:
            raise InputError(f"threads is {threads}; it must be 1 or more")
        self._singles = [self.single(0.0) for _ in range(min(count, n))]
        workers = [_worker(single) for single in self._singles]
        first = self._singles[0]
        system, contacts = first._system, first._contacts
        assert isinstance(contacts, SphereContacts)
        k = contacts.radius.size
        self.n, self.contacts, self.model = n, k, system.model
        m, a, nq, corners = system.n_velocities, system.n_actuated, system.model.nq, first._machine.lifted.size
        self._shape = {"q": (n, nq), "v": (n, m), "joint": (n, a), "foot": (n, contacts.n_feet)}
        self._shape |= {"contact": (n, k), "corner": (n, corners)}
        self._mu: Array = np.repeat(np.broadcast_to(friction, (n,))[:, None], k, axis=1)
        self._rows = _Rows.forgotten(n, m, a, k, corners)
        bounds = np.linspace(0, n, len(workers) + 1).astype(np.int64)
        self._shares = [
            (worker, int(begin), int(end)) for worker, begin, end in zip(workers, bounds, bounds[1:], strict=False)
        ]
        nothing = References.standing(np.zeros((n, a)), contacts.n_feet)
        call = _Call(np.zeros(n), np.zeros((n, nq)), np.zeros((n, m)), nothing, self._mu)
        worker, out = workers[0], self._commands()
        self._run = entry(_steps, worker, self._rows, call, out, 0, 0)
        self._take, self._keep = entry(_take_row, worker, self._rows, call, 0), entry(_keep_row, worker, self._rows, 0)
        self._pool = ThreadPoolExecutor(len(workers)) if len(workers) > 1 else None
        self._busy = Lock()

    def single(self, mu: float) -> InverseDynamics:
        """Return a controller for one robot; its commands are exactly the commands of a row with friction `mu`.

        Raises:
            UnknownName: No controller has the name of this batch.
            InputError: The controller has no compiled step, or the robot has no feet or too many.
        """
        name, robot, h, terrain, settings = self._settings
        contacts = robot.contacts(mu, terrain, CompiledSystem.of(robot.system()))
        if not 0 < contacts.radius.size <= MOST_FEET:
            raise InputError(f"batches are for robots with 1 to {MOST_FEET} point feet or corners of soles")
        kp, kd = robot.acceleration_gains()
        stiffness, damping = robot.torque_gains(contacts.system.actuated_names)
        if name == "filter":
            gains = Gains(kp=stiffness, kd=damping)
            return filter.step(contacts, gains, h, filter.no_cut(len(stiffness)), settings)
        setup = Setup(
            system=contacts.system,
            contacts=contacts,
            h=h,
            acceleration_gains=Gains(kp=kp, kd=kd),
            torque_gains=Gains(kp=stiffness, kd=damping),
            settings=settings,
            robot=robot,
            tasks=self._tasks,
        )
        controller = build(name, setup)
        if not isinstance(controller, InverseDynamics) or controller._scheme.solve is None:
            raise InputError(f"{name} has no compiled step; choose another, e.g. id-coulomb-qp or id-noslip-lcp")
        return controller

    def reset(self, which: Booleans | None = None) -> None:
        """Forget the last steps of the robots selected by `which`, booleans of shape (n,); None means all.

        Raises:
            InputError: `which` is no such array; an array of zeros and ones would choose rows 0 and 1.
        """
        if which is not None and not (np.shape(which) == (self.n,) and np.asarray(which).dtype == np.bool_):
            raise InputError(f"reset needs {self.n} booleans, one for each robot")
        fresh = _Rows.forgotten(1, *(self._shape[key][1] for key in ("v", "joint", "contact", "corner")))
        for mine, new in zip(self._rows, fresh, strict=True):
            mine[slice(None) if which is None else which] = new

    def __call__(self, t: npt.ArrayLike, q: Array, v: Array, references: References) -> Commands:
        """Return torques for the periods that begin at `t`; an unusable row does not affect other rows.

        Args:
            t: Time of all rows, or time of each row, shape (n,) [s].
            q: Configurations in Pinocchio's layout, shape (n, nq).
            v: Velocities in Pinocchio's layout, shape (n, nv).
            references: Motion of the joints.

        Raises:
            InputError: An array has a wrong shape.
        """
        call, out = self._call(t, q, v, references), self._commands()
        run = [(worker, self._rows, call, out, begin, end) for worker, begin, end in self._shares]
        with self._busy:  # only one call at a time may use the workers and the robots' memories
            if self._pool is None:
                self._run(*run[0])
            else:
                list(self._pool.map(lambda arguments: self._run(*arguments), run))
            for i in np.flatnonzero(out.status == Status.FALLBACK).tolist():
                self._step_in_python(i, call, out)
        return out

    def linearize(
        self, t: npt.ArrayLike, q: Array, v: Array, references: References, *, loads: bool = False
    ) -> tuple[Commands, Linearizations]:
        """Return the commands that a call would return, and the derivatives of the steps.

        Rows are stepped one by one, and much slower than in a call. Arguments and effects are as for a call; `loads` is
        as in `InverseDynamics.linearize`.

        Raises:
            InputError: An array has a wrong shape, a row is unusable, or the steps have no derivative
                (`InverseDynamics.linearize`).
        """
        call, out, rows = self._call(t, q, v, references), self._commands(), []
        single, (worker, _, _) = self._singles[0], self._shares[0]
        with self._busy:
            for i in range(self.n):
                self._take(worker, self._rows, call, i)
                state = State(t=float(call.t[i]), q=call.q[i], v=call.v[i])
                try:
                    command, derivative = single.linearize(state, call.references.row(i), loads=loads)
                except InputError as error:
                    raise InputError(f"row {i}: {error}") from None
                self._keep(worker, self._rows, i)
                _write(out, i, command)
                rows.append(derivative)
        return out, Linearizations(tuple(rows), self.contacts)

    def _step_in_python(self, i: int, call: _Call, out: Commands) -> None:
        """Step row i by a controller in Python."""
        single, (worker, _, _) = self._singles[0], self._shares[0]
        self._take(worker, self._rows, call, i)
        state = State(t=float(call.t[i]), q=call.q[i], v=call.v[i])
        command: Command = single(state, call.references.row(i))
        self._keep(worker, self._rows, i)
        _write(out, i, command)

    def _call(self, t: npt.ArrayLike, q: Array, v: Array, references: References) -> _Call:
        """Return the arguments of a call in the form that kernels accept.

        Raises:
            InputError: An array has a wrong shape.
        """
        times = _rows_of("t", np.full(self.n, t) if np.ndim(t) == 0 else t, (self.n,), np.float64)
        return _Call(times, self._real("q", q, "q"), self._real("v", v, "v"), self._asked(references), self._mu)

    def _commands(self) -> Commands:
        (n, a), k = self._shape["joint"], self.contacts
        return Commands(
            tau=np.zeros((n, a)),
            force=np.zeros((n, k, 3)),
            status=np.zeros(n, dtype=np.int64),
            residual=np.zeros(n),
            clipped=np.zeros(n, dtype=np.bool_),
        )

    def _real(self, what: str, values: Array, kind: str) -> Array:
        return _rows_of(what, values, self._shape[kind], np.float64)

    def _asked(self, references: References) -> References:
        def real(name: str, kind: str) -> Array:
            return self._real(f"references.{name}", getattr(references, name), kind)

        return References(
            q=real("q", "joint"),
            v=real("v", "joint"),
            a=real("a", "joint"),
            stance=_rows_of("references.stance", references.stance, self._shape["foot"], np.bool_),
            since_touchdown=real("since_touchdown", "foot"),
            to_liftoff=real("to_liftoff", "foot"),
        )


def _write(out: Commands, i: int, command: Command) -> None:
    """Write the command of robot i into row i of `out`."""
    out.tau[i], out.residual[i], out.clipped[i] = command.tau, command.residual, command.clipped
    out.status[i] = command.status
    out.force[i] = 0.0
    if command.predicted is not None:
        out.force[i, command.predicted.identity] = command.predicted.force


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _rows_of(what: str, values: Any, shape: tuple[int, ...], kind: Any) -> Any:
    """Return values as a contiguous array of type `kind`; `what` is their name in the error message.

    Raises:
        InputError: The values do not have this `shape`.
    """
    array = np.ascontiguousarray(values, dtype=kind)
    if array.shape != shape:
        raise InputError(f"{what} has shape {array.shape}; it needs {shape}")
    return array


def _worker(single: InverseDynamics) -> _Worker:
    """Return a controller as an argument of kernels; no other thread may use it at the same time."""
    system, contacts = single._system, single._contacts
    assert isinstance(contacts, SphereContacts)
    # the first call allocates references for this number of feet
    single(State(t=0.0, q=_neutral(system), v=np.zeros(system.n_velocities)), _standing(system, contacts.n_feet))
    single.reset()
    assert single._parts is not None
    terms = single._machine.tasks
    # controllers with the same tasks share the array of their errors, in which every step writes
    errors = terms.targets._replace(error=np.zeros_like(terms.targets.error))
    machine = bind(single._machine._replace(tasks=terms._replace(targets=errors)))
    return _Worker(whole=bind(single._parts._replace(machine=machine)), intake=single._intake.room)


def _neutral(system: System) -> Array:
    return system.configuration(np.zeros(system.n_actuated))


def _standing(system: System, feet: int) -> Reference:
    return Reference.standing(np.zeros(system.n_actuated), feet)


@njit(cache=True, nogil=True, error_model="numpy")
def _take_row(worker: _Worker, rows: _Rows, call: _Call, i: int) -> None:
    """Copy row i and the friction of robot i to the worker."""
    whole = worker.whole.borrowed
    machine, friction, load = whole.machine.borrowed, whole.friction.borrowed, whole.load.borrowed
    assign(whole.spheres.borrowed.mounted.mu, call.mu[i])
    assign(machine.memory.identity, rows.identity[i])
    assign(machine.memory.active, rows.active[i])
    assign(machine.memory.used, rows.used[i])
    assign(machine.result.tau, rows.tau[i])
    assign(machine.result.identity, rows.pressed[i])
    assign_rows(machine.result.force, rows.force[i])
    assign(machine.releases, rows.releases[i])
    assign(machine.lifted, rows.lifted[i])
    assign(friction.t, rows.friction_t[i])
    assign(friction.v, rows.friction_v[i])
    assign_rows(friction.slip, rows.slip[i])
    assign(friction.impulse, rows.impulse[i])
    assign(friction.balance, rows.balance[i])
    assign(friction.mu, rows.shown[i])
    assign(load.t, rows.load_t[i])
    assign(load.v, rows.load_v[i])
    assign(load.contacts, rows.carried[i])
    assign(load.force, rows.load[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _keep_row(worker: _Worker, rows: _Rows, i: int) -> None:
    """Copy the worker's memory to row i."""
    whole = worker.whole.borrowed
    machine, friction, load = whole.machine.borrowed, whole.friction.borrowed, whole.load.borrowed
    k = rows.identity.shape[1]
    assign(rows.identity[i], machine.memory.identity[:k])
    assign(rows.active[i], machine.memory.active[:k])
    assign(rows.used[i], machine.memory.used)
    assign(rows.tau[i], machine.result.tau)
    assign(rows.pressed[i], machine.result.identity[:k])
    assign_rows(rows.force[i], machine.result.force[:k])
    assign(rows.releases[i], machine.releases)
    assign(rows.lifted[i], machine.lifted)
    assign(rows.friction_t[i], friction.t)
    assign(rows.friction_v[i], friction.v)
    assign_rows(rows.slip[i], friction.slip[:k])
    assign(rows.impulse[i], friction.impulse)
    assign(rows.balance[i], friction.balance)
    assign(rows.shown[i], friction.mu)
    assign(rows.load_t[i], load.t)
    assign(rows.load_v[i], load.v)
    assign(rows.carried[i], load.contacts)
    assign(rows.load[i], load.force)


@njit(cache=True, nogil=True, error_model="numpy")
def _steps(worker: _Worker, rows: _Rows, call: _Call, out: Commands, begin: int, end: int) -> None:
    """Step the rows from `begin` to `end`.

    A row that compiled code does not solve stays unchanged and gets the status FALLBACK. A row with unusable inputs
    gets the status FAILED.
    """
    references, machine = call.references, worker.whole.borrowed.machine.borrowed
    for i in range(begin, end):
        row = (
            call.q[i],
            call.v[i],
            references.q[i],
            references.v[i],
            references.a[i],
            references.stance[i],
            references.since_touchdown[i],
            references.to_liftoff[i],
        )
        if not copy_inputs(worker.intake, row):
            out.status[i] = FAILED
            continue
        _take_row(worker, rows, call, i)
        ended, _ = whole_step(worker.whole, call.t[i])
        if ended.ending < 0:
            out.status[i] = FALLBACK
            continue
        if ended.ending != SOLVED:
            out.status[i] = REPAIRED
        _keep_row(worker, rows, i)
        out.residual[i], out.clipped[i] = ended.residual, ended.clipped
        assign(out.tau[i], machine.result.tau)
        for c in range(ended.stands):
            assign(out.force[i, machine.result.identity[c]], machine.result.force[c])
