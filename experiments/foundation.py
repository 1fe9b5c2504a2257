"""A cube on a bed of springs, pressed down by a force whose point of application moves in a circle: times and errors.

Drumwright 2019, section 5.5, Tables 1 and 2.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.contact.contacts import Contacts
from idcontrol.experiments.case import GRAVITY, Case, Progress, step_count, step_ends, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, table
from idcontrol.kernels.jit import njit
from idcontrol.models import constraint
from idcontrol.models.constraint import printed
from idcontrol.models.step import StepProblem
from idcontrol.types import Array, Status

Integrator = Literal["BDF", "Radau", "LSODA", "RK45", "DOP853"]

SIDE_M, DENSITY_KG_M3, DEPTH_M = 1.0, 8.0, 1.0
"""Side and density of the cube, depth of the bed. At 8 kg/m³ 50 N lift one side of the cube and 5 N do not, as in the
paper."""

MASS_KG = DENSITY_KG_M3 * SIDE_M**3
INERTIA_KG_M2 = MASS_KG * SIDE_M**2 / 6.0
CIRCLING_RAD_S = 10.0


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case.

    Attributes:
        elements: Numbers of springs under the cube, squares of whole numbers.
        moduli_pa: Young's moduli of the bed.
        loads_n: Magnitudes of the circling force.
        damping_n_s_m: Damping of each spring.
        step_s: Step of the solver.
        duration_s: Length of each run.
        integrators: SciPy integrators to time, at their default tolerances.
        time_limit_s: An integrator that takes longer is stopped, and its time is extrapolated from its progress.
        form: ``symmetric`` for `idcontrol.models.constraint`, ``as-printed`` for the QP of Drumwright 2019, eqs. 83-85.
    """

    elements: tuple[Annotated[int, msgspec.Meta(gt=0)], ...] = (100, 900)
    moduli_pa: tuple[Positive, ...] = (1e7, 1e11)
    loads_n: tuple[Positive, ...] = (5.0, 50.0)
    damping_n_s_m: NotNegative = 1.0
    step_s: Positive = 0.01
    duration_s: Duration = 1.0
    integrators: tuple[Integrator, ...] = ("BDF", "LSODA", "RK45")
    time_limit_s: Positive = 5.0
    form: Literal["symmetric", "as-printed"] = "symmetric"


def run(config: Config, progress: Progress) -> Results:
    """Settle the cube on each bed and time the solver and the integrators."""
    cases = [(n, E, load) for n in config.elements for E in config.moduli_pa for load in config.loads_n]
    findings: list[Finding] = []
    errors: dict[str, Array] = {}
    for done, case in enumerate(cases):
        bed = Bed(
            points=_grid(case[0]),
            stiffness=case[1] * SIDE_M**2 / case[0] / DEPTH_M,
            damping=config.damping_n_s_m,
            load=case[2],
        )
        exact = reference(bed, config.duration_s, step_count(config.duration_s, config.step_s))
        path, seconds = timed(partial(settle, bed, config))
        error = np.linalg.norm(path - exact, axis=1)
        errors[f"error_{_key(case)}"] = error
        findings += _of_solver(config, case, float(seconds[0]), float(error[-1]), float(np.linalg.norm(exact[-1])))
        findings += [_of_integrator(config, case, bed, name) for name in config.integrators]
        progress((done + 1) / len(cases))
    t = step_ends(config.step_s, step_count(config.duration_s, config.step_s))
    return Results(
        findings=findings,
        series={"t": Series(t, "s")} | {key: Series(error) for key, error in errors.items()},
        drawings=[_drawing(t, errors)],
    )


experiment = Case(
    name="foundation",
    summary="a cube on 100 and 900 stiff springs: time and error, compared with stiff integrators (Drumwright 2019)",
    presets={
        "default": Config(),
        "fine": Config(step_s=1e-3),
        "as-printed": Config(form="as-printed", elements=(100,), integrators=()),
    },
    simulate=run,
    rehearsals=lambda: [Config(elements=(100,), moduli_pa=(1e5,), loads_n=(5.0,), duration_s=0.02)],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """The springs and the load.

    Attributes:
        points: Points where the springs meet the cube's lower face, cube axes, shape (n, 3) [m].
        stiffness: Stiffness K of each spring [N/m].
        damping: Damping B of each spring [N s/m].
        load: Downward force at ``side/2 (cos 10 t, sin 10 t, 1)`` in the cube's axes [N].
    """

    points: Array
    stiffness: float
    damping: float
    load: float


def settle(bed: Bed, config: Config) -> Array:
    """Return the pose (position, quaternion) after each step, from rest on the unloaded bed, shape (steps, 7)."""
    h, n = config.step_s, len(bed.points)
    M = np.diag([MASS_KG] * 3 + [INERTIA_KG_M2] * 3)
    fixed = {
        "identity": np.arange(n),
        "point": np.zeros((n, 3)),
        "axes": np.tile(np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), (n, 1, 1)),
        "mu": np.zeros(n),
        "stiffness": np.full(n, bed.stiffness),
        "damping": np.full(n, bed.damping),
    }
    place, turn, v = np.array([0.0, 0.0, 0.5 * SIDE_M]), Rotation.identity(), np.zeros(6)
    out = np.empty((step_count(config.duration_s, config.step_s), 7))
    for step in range(len(out)):
        arm = turn.apply(bed.points)
        angle = CIRCLING_RAD_S * step * h
        at = turn.apply(0.5 * SIDE_M * np.array([np.cos(angle), np.sin(angle), 1.0]))
        push = np.array([0.0, 0.0, -MASS_KG * GRAVITY - bed.load, -at[1] * bed.load, at[0] * bed.load, 0.0])
        jacobian = np.zeros((3 * n, 6))
        jacobian[:n, 2], jacobian[:n, 3], jacobian[:n, 4] = 1.0, arm[:, 1], -arm[:, 0]
        contacts = Contacts(gap=place[2] + arm[:, 2], jacobian=jacobian, **fixed)
        if config.form == "symmetric":
            problem = StepProblem(h=h, M=M, kappa=-M @ v - h * push, contacts=contacts)
            solution = constraint.solve(problem)
            assert solution.status is Status.SOLVED  # compliant contacts always have a solution
            v = solution.v_plus
        else:
            v = v + h * np.linalg.solve(M, push)
            v = v + h * np.linalg.solve(M, contacts.N.T @ _printed_forces(contacts, M, v, h))
        place = place + h * v[:3]
        turn = Rotation.from_rotvec(h * v[3:]) * turn
        out[step] = np.concatenate((place, turn.as_quat(canonical=True)))
    return out


def _printed_forces(contacts: Contacts, M: Array, v_free: Array, h: float) -> Array:
    """Return the forces of Drumwright 2019, eqs. 83-85, over the springs that may close within the step."""
    N = contacts.N
    touching = contacts.gap + h * np.minimum(0.0, N @ v_free) <= 0.0
    force = np.zeros(len(contacts))
    rows = N[touching]
    force[touching] = printed.unilateral_forces(
        rows @ np.linalg.solve(M, rows.T),
        contacts.gap[touching],
        rows @ v_free,
        h,
        contacts.stiffness[touching],
        contacts.damping[touching],
    )
    return force


STEP_TIMES_FREQUENCY = 0.2
"""Step of the reference solution, times the frequency of the vibration [rad]. After a second the phase error is a
radian on the stiffest bed and 0.02 rad on the softest; their vibrations have then decayed to 1e-12 m and 1e-8 m."""


def reference(bed: Bed, duration: float, samples: int) -> Array:
    """Return the pose at equal intervals by the classical Runge-Kutta method, in steps that resolve the springs.

    Returns:
        Shape (samples, 7): x, y, z and the quaternion.
    """
    heaving = np.sqrt(len(bed.points) * bed.stiffness / MASS_KG)  # faster than rocking, by √2
    substeps = max(1, int(np.ceil(duration / samples * heaving / STEP_TIMES_FREQUENCY)))
    state = _start()
    out = np.empty((samples, 7))
    for sample in range(samples):
        begin = duration / samples * sample
        _runge_kutta(state, begin, duration / samples / substeps, substeps, *_arguments(bed))
        out[sample] = state[:7]
    out[:, 3:] *= np.where(out[:, 6:] < 0.0, -1.0, 1.0)
    return out


def _start() -> Array:
    """Return position, quaternion (x, y, z, w), velocity and angular velocity at the start, world axes, shape (13,)."""
    state = np.zeros(13)
    state[2], state[6] = 0.5 * SIDE_M, 1.0
    return state


def _arguments(bed: Bed) -> tuple[Array, float, float, float]:
    return bed.points, bed.stiffness, bed.damping, bed.load


@njit(cache=True)
def _rate(t: float, y: Array, points: Array, K: float, B: float, load: float, out: Array) -> None:
    """Write the time derivative of the state: each spring pushes up with max(0, -K φ - B φ̇) where φ < 0."""
    qx, qy, qz, qw = y[3], y[4], y[5], y[6]
    s = 2.0 / (qx * qx + qy * qy + qz * qz + qw * qw)
    xx, xy, xz = 1.0 - s * (qy * qy + qz * qz), s * (qx * qy - qz * qw), s * (qx * qz + qy * qw)
    yx, yy, yz = s * (qx * qy + qz * qw), 1.0 - s * (qx * qx + qz * qz), s * (qy * qz - qx * qw)
    zx, zy, zz = s * (qx * qz - qy * qw), s * (qy * qz + qx * qw), 1.0 - s * (qx * qx + qy * qy)
    wx, wy, wz = y[10], y[11], y[12]
    ax, ay, az = 0.5 * np.cos(10.0 * t), 0.5 * np.sin(10.0 * t), 0.5
    # gap and -K φ - B φ̇ are linear over the lower face
    down = points[0, 2]
    gap, gap_x, gap_y = y[2] + zz * down, zx, zy
    rate_x, rate_y = wx * yx - wy * xx, wx * yy - wy * xy
    push = -K * gap - B * (y[9] + (wx * yz - wy * xz) * down)
    push_x, push_y = -K * gap_x - B * rate_x, -K * gap_y - B * rate_y
    total, moment_x, moment_y = 0.0, 0.0, 0.0
    for i in range(points.shape[0]):
        px, py = points[i, 0], points[i, 1]
        here = push + push_x * px + push_y * py
        if here > 0.0 and gap + gap_x * px + gap_y * py < 0.0:
            total += here
            moment_x += px * here
            moment_y += py * here
    force = total - MASS_KG * GRAVITY - load
    torque_x = yx * moment_x + yy * moment_y + yz * down * total - (yx * ax + yy * ay + yz * az) * load
    torque_y = (xx * ax + xy * ay + xz * az) * load - (xx * moment_x + xy * moment_y + xz * down * total)
    out[0], out[1], out[2] = y[7], y[8], y[9]
    out[3] = 0.5 * (wx * qw + wy * qz - wz * qy)
    out[4] = 0.5 * (wy * qw + wz * qx - wx * qz)
    out[5] = 0.5 * (wz * qw + wx * qy - wy * qx)
    out[6] = -0.5 * (wx * qx + wy * qy + wz * qz)
    out[7], out[8], out[9] = 0.0, 0.0, force / MASS_KG
    out[10], out[11], out[12] = torque_x / INERTIA_KG_M2, torque_y / INERTIA_KG_M2, 0.0


@njit(cache=True)
def _runge_kutta(
    y: Array, t: float, h: float, steps: int, points: Array, K: float, B: float, load: float
) -> None:  # pragma: no cover - compiled
    """Advance the state `y` in place by `steps` steps of length `h` [s] from the time `t` [s]."""
    a, b, c, d, at = np.empty(13), np.empty(13), np.empty(13), np.empty(13), np.empty(13)
    for step in range(steps):
        now = t + step * h
        _rate(now, y, points, K, B, load, a)
        for i in range(13):
            at[i] = y[i] + 0.5 * h * a[i]
        _rate(now + 0.5 * h, at, points, K, B, load, b)
        for i in range(13):
            at[i] = y[i] + 0.5 * h * b[i]
        _rate(now + 0.5 * h, at, points, K, B, load, c)
        for i in range(13):
            at[i] = y[i] + h * c[i]
        _rate(now + h, at, points, K, B, load, d)
        for i in range(13):
            y[i] += h / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i])


class _OutOfTimeError(Exception):
    """An integrator has used up its time."""


class Integrated(NamedTuple):
    """Time of an integrator.

    Attributes:
        wall_s: Wall time [s]; of a stopped integrator, extrapolated to the whole duration.
        done: Share of the duration that was integrated, 0 to 1.
    """

    wall_s: float
    done: float


def integrate(bed: Bed, duration: float, method: Integrator, time_limit: float) -> Integrated:
    """Time a SciPy integrator at its default tolerances; if stopped after `time_limit` [s], extrapolate its time."""
    arguments, out = _arguments(bed), np.empty(13)
    reached = 0.0
    begin = time.perf_counter()

    def rate(t: float, y: Array) -> Array:
        nonlocal reached
        if time.perf_counter() - begin > time_limit:
            raise _OutOfTimeError
        reached = max(reached, t)
        _rate(t, y, *arguments, out)
        return out.copy()

    try:
        solve_ivp(rate, (0.0, duration), _start(), method=method)
    except _OutOfTimeError:
        took = time.perf_counter() - begin
        return Integrated(took * duration / reached if reached > 0.0 else np.inf, reached / duration)
    return Integrated(time.perf_counter() - begin, 1.0)


def _grid(n: int) -> Array:
    """Return centres of n equal squares of the lower face, shape (k², 3) with k = √n, rounded."""
    k = max(1, round(np.sqrt(n)))
    centre = SIDE_M * ((np.arange(k) + 0.5) / k - 0.5)
    return np.array([[x, y, -0.5 * SIDE_M] for x in centre for y in centre])


def _key(case: tuple[int, float, float]) -> str:
    """Return the case's part of a finding's key: n100_e1e07_f50 for (100, 1e7, 50)."""
    return f"n{case[0]}_e{case[1]:.0e}_f{case[2]:g}".replace("+", "")


def _of_solver(config: Config, case: tuple[int, float, float], took: float, error: float, size: float) -> list[Finding]:
    """Return the time and error of the constraint solver, compared with Tables 1 and 2."""
    key, same = _key(case), config.step_s == Config().step_s and config.duration_s == Config().duration_s
    printed = table("foundation")["error_*"]["paper"].get(f"error_{key}")
    better = None if printed is None or not same or config.form == "as-printed" else error <= printed
    return [
        Finding(f"time_{key}_s", took, beside=same),
        Finding(f"error_{key}", error, holds=better, beside=same),
        Finding(f"relative_error_{key}", error / size, beside=same),
    ]


def _of_integrator(config: Config, case: tuple[int, float, float], bed: Bed, name: Integrator) -> Finding:
    """Return the time of a SciPy integrator, compared with the MATLAB integrators of Table 1."""
    motion = integrate(bed, config.duration_s, name, config.time_limit_s)
    return Finding(f"time_{name.lower()}_{_key(case)}_s", motion.wall_s)


def _drawing(t: Array, errors: Mapping[str, Array]) -> Drawing:
    with axes() as plot:
        for key, error in errors.items():
            plot.semilogy(t, np.maximum(error, 1e-16), label=key.removeprefix("error_").replace("_", " "))
        plot.set(xlabel="time [s]", ylabel="error of position and quaternion")
        plot.legend(fontsize="x-small", ncols=2)
    return Drawing("Distance from the exact path", plot.figure)
