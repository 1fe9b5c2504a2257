"""Whole-body tasks of humanoids, quadrupeds and arms, such as swaying, walking, reaching and taking a push.

All experiments are presets of one scene (`idcontrol.scenes.whole_body`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from idcontrol import robots
from idcontrol.bench.problems.machines import task_controllers
from idcontrol.contact.soles import Soles
from idcontrol.controllers.settings import InverseSettings
from idcontrol.controllers.tasks import DEMANDS
from idcontrol.experiments import pressing, teleop
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, axes, histories
from idcontrol.loop.simulated import Tick
from idcontrol.planners.dcm import Steps
from idcontrol.planners.route import Route, Way
from idcontrol.record import metrics
from idcontrol.scenes.motions import Oscillation, Reach, Walk
from idcontrol.scenes.press import Press, Wall
from idcontrol.scenes.whole_body import Punches, Push, WholeBodyConfig, WholeBodyScene
from idcontrol.tasks import CoM, Frame, gather, write_errors
from idcontrol.types import TOUCHING_N, Array, Booleans, ContactForces

FALLEN_SHARE: Final = 0.6
"""Height of the base, as a fraction of its reference height, below which a machine has fallen."""
JUMP_SHARE: Final = 0.25
"""Largest jump of a torque from tick to tick, relative to its limit, except while a push is absorbed."""
ABSORBS_S: Final = 0.005
"""Time from a push in which torques may jump, since the push changes the velocity in one tick [s]."""
SLIPPED_M: Final = 0.02
"""A standing foot has slipped if a corner moves farther than this along the ground [m]. Rolling is no slip."""
DRAWN_EVERY: Final = 20
"""Number of rows of the record per drawn point."""
LANDING_S: Final = 0.03
"""Time after touchdown in which a foot comes to rest [s]."""
FOLLOWED_M: Final = 0.02
"""Largest error of centre of mass and hand in a completed run [m]; if the machine is pushed, the centre of
mass only has to end within it."""

FOLLOWS: Final = f"limit {1e3 * FOLLOWED_M:g} mm"

RAMPED: Final = InverseSettings(ramp_s=0.25)
"""A sole takes and gives up its load as slowly as the zero-moment point moves between the feet."""
SWAY: Final = WholeBodyConfig(sway=Oscillation(amplitude_m=(0.0, 0.02, 0.0)))
SQUAT: Final = WholeBodyConfig(sway=Oscillation(amplitude_m=(0.0, 0.0, 0.05), centre_m=(0.0, 0.0, -0.05)))
LIFT: Final = WholeBodyConfig(
    # one step on the spot
    walk=Steps(count=1, length_m=0.0, single_s=3.0, double_s=1.0, height_m=0.08, touchdown_m_s=0.01),
    begin_s=2.0,
    inverse=RAMPED,
)
WALK: Final = WholeBodyConfig(walk=Steps(count=10, reach_m=0.4), lower_m=0.02, com_kp_1_s2=60.0, inverse=RAMPED)
TROT: Final = WholeBodyConfig(
    robot="go1",
    walk=Steps(
        count=20, together=(("LF", "RH"), ("RF", "LH")), length_m=0.09, single_s=0.25, double_s=0.05, height_m=0.06
    ),
    com_kp_1_s2=200.0,
    foot_kp_1_s2=600.0,
    trunk_kp_1_s2=400.0,
)
REACH: Final = WholeBodyConfig(reach=Reach(frame="gripper_left_base_link"), duration_s=4.0)
WALL: Final = WholeBodyConfig(
    reach=Reach(
        frame="gripper_left_base_link", through_m=((0.0, 0.0, 0.05), (0.0, 0.05, 0.09), (0.0, -0.04, 0.05)), each_s=1.5
    ),
    wall=Wall(distance_m=0.08),
    duration_s=7.0,
)
ARM: Final = WholeBodyConfig(
    robot="panda",
    reach=Reach(frame="panda_hand", through_m=((0.1, 0.1, 0.0), (0.1, -0.1, 0.1), (0.0, 0.0, 0.0))),
    duration_s=4.0,
)
ARM_WALL: Final = WholeBodyConfig(
    robot="panda",
    reach=Reach(frame="panda_hand", through_m=((0.0, 0.0, 0.25), (0.0, 0.1, 0.3), (0.0, -0.05, 0.2)), each_s=1.5),
    wall=Wall(distance_m=0.2, faces=True),
    duration_s=7.0,
)
PUSH: Final = WholeBodyConfig(
    push=Push(at_s=1.0),
    duration_s=5.0,
    com_kp_1_s2=30.0,
    trunk_kp_1_s2=300.0,
    walk=Steps(single_s=0.35, double_s=0.1, reach_m=0.6),
    lower_m=0.05,
)
TELEOP: Final = WholeBodyConfig(
    robot="g1",
    plant="mujoco",
    walk=Steps(single_s=0.4, double_s=0.1, reach_m=0.4),
    route=Route(count=18),
    arms_rad=0.3,
    begin_s=3.0,
    lower_m=0.02,
    com_kp_1_s2=60.0,
    inverse=RAMPED,
)
PUNCHED: Final = msgspec.structs.replace(
    TELEOP,
    walk=Steps(single_s=0.3, double_s=0.1, reach_m=0.6),
    lower_m=0.05,  # short legs reach no far step from a high pelvis
    punches=Punches(force_n=(50.0, 500.0)),
)

UNITS: Final = {
    **dict.fromkeys(("com", "com_err", "hand_err", "feet", "gap", "cop", "cop_pred"), "m"),
    **dict.fromkeys(("tau", "moment", "moment_pred"), "N m"),
    **dict.fromkeys(("force", "force_pred"), "N"),
    "press_n": "N",
    **{"t": "s", "trunk_err": "rad", "slip": "m/s", "slide": "m/s", "step_us": "us", "tick_us": "us"},
}
"""Units of the channels that have one."""


class Row:
    """Makes the record of a tick."""

    def __init__(self, scene: WholeBodyScene) -> None:
        self._body, self._motion, self._observer = scene.body, scene.motion, scene.true.contacts(scene.config.mu)
        body = scene.body
        com, hand = [body.com] if body.floats else [], [] if body.hand is None else [body.hand]
        self._tasks: list[CoM | Frame] = [*com, *body.trunk, *hand]
        self._targets, _ = gather(self._tasks, body.system, body.home.q)

    def __call__(self, tick: Tick) -> dict[str, Any]:
        """Return all channels at the beginning of a tick; forces are means over its period."""
        body, observer, state, command = self._body, self._observer, tick.state, tick.command
        observer.system.update(state.q, state.v)
        observer.detect(np.inf)
        patch, n = observer.patch, len(body.names)
        touching = np.zeros(patch.size, dtype=np.bool_)
        touching[tick.forces.identity] = np.linalg.norm(tick.forces.force, axis=1) > TOUCHING_N
        slip, gap, slide = np.zeros(n), np.full(n, np.inf), np.where(touching[:, None], self._slide(state.v), 0.0)
        np.maximum.at(slip, patch, np.linalg.norm(slide, axis=1))
        np.minimum.at(gap, patch, observer.gap)
        soles = observer.soles(state.q)
        # of the true motion and masses; `task.error` is of those that the controller knows, if it writes it at all
        write_errors(self._targets, self._tasks, observer.system, state.q)
        error = dict(zip(self._tasks, self._targets.error.copy(), strict=True))
        return {
            "t": state.t,
            "q": state.q,
            "v": state.v,
            "tau": command.tau,
            "com": observer.system.com(state.q),
            "com_err": error[body.com][:3] if body.floats else np.zeros(3),
            "hand_err": self._hand_error(error),
            **({"press_n": self._motion.target_n} if isinstance(self._motion, Press) else {}),
            **({"trunk_err": [np.linalg.norm(error[task][3:]) for task in body.trunk]} if body.trunk else {}),
            "stance": tick.reference.stance,
            "feet": [observer.point[patch == foot].mean(axis=0) for foot in range(n)],
            "gap": gap,
            "slip": slip,
            "slide": slide,
            **wrenches("", tick.forces, soles),
            **wrenches("_pred", command.predicted, soles),
            "demand": DEMANDS.index(command.demand) if command.demand else np.nan,
            "status": command.status,
            "rate_off": "rate" in command.dropped,
            "solved_by": metrics.solver_number(command.solved_by),
            "step_us": 1e6 * tick.controller_s,
            "tick_us": 1e6 * (tick.planner_s + tick.controller_s),
        }

    def _hand_error(self, error: Mapping[CoM | Frame, Array]) -> Array:
        """Return the position error of the hand, shape (3,) [m]; zeros without a hand.

        If the hand presses against a wall, this is only the part along the wall.
        """
        if isinstance(self._motion, Press):
            return self._motion.error
        return np.zeros(3) if self._body.hand is None else error[self._body.hand][:3]

    def _slide(self, v: Array) -> Array:
        """Return the velocities of all contact points along ground and walls, world axes, shape (k, 3) [m/s]."""
        corners, k = self._observer.first(self._observer.patch.size), self._observer.patch.size
        along = (corners.jacobian @ self._observer.system.from_pinocchio(v))[k:].reshape(2, k)
        return np.asarray(np.einsum("ak,kai->ki", along, corners.axes[:, 1:]))


def wrenches(suffix: str, forces: ContactForces | None, soles: Soles) -> dict[str, Array]:
    """Return force, moment and centre of pressure of each foot as channels; NaN without a prediction."""
    wrench = np.full((len(soles.frames), 6), np.nan) if forces is None else soles.wrenches(forces)
    cop = soles.pressure_centres(wrench)
    return {f"force{suffix}": wrench[:, :3], f"moment{suffix}": wrench[:, 3:], f"cop{suffix}": cop}


def zero_moment_points(force: Array, cop: Array) -> Array:
    """Return the centre of pressure of all feet together, shape (rows, 2) [m]; NaN in flight.

    Args:
        force: Forces on the feet, shape (rows, n, 3) [N].
        cop: Centres of pressure of the feet on level ground, shape (rows, n, 3) [m].
    """
    load = np.where((total := force[:, :, 2].sum(axis=1)) > TOUCHING_N, total, np.nan)
    return np.asarray(np.einsum("tn,tni->ti", force[:, :, 2], cop[:, :, :2]) / load[:, None])


def run(config: WholeBodyConfig, progress: Progress) -> Results:
    """Run until the end or a fall, and measure the run.

    Raises:
        UnknownName: The robot, controller, plant or foot does not exist.
        InputError: The settings do not fit together.
    """
    scene = WholeBodyScene(config)
    row, body = Row(scene), scene.body
    base, com = body.home.q[2], body.system.com(body.home.q)[2]
    rows: list[dict[str, Any]] = []
    steps = scene.duration_s * config.rate_hz
    for tick in scene.ticks():
        rows.append(row(tick))
        if len(rows) % 100 == 0:
            progress(len(rows) / steps)
        asked = rows[-1]["com"][2] + rows[-1]["com_err"][2] - com
        if body.floats and not tick.after.q[2] > FALLEN_SHARE * (base + asked):  # also true for NaN
            break
    progress(1.0)
    arrays = {key: np.array([each[key] for each in rows], dtype=np.float64) for key in rows[0]}
    return Results(
        findings=findings(scene, arrays),
        series=histories(arrays, UNITS),
        drawings=drawings(scene, arrays),
        extra={
            **scene.friction,
            **metrics.torques(arrays["tau"], 1.0 / config.rate_hz),
            "solver": metrics.statuses(arrays["status"], arrays["solved_by"]),
            **{key: metrics.percentiles(arrays[key]) for key in ("step_us", "tick_us")},
        },
        scene=scene.scenery(),
    )


def findings(scene: WholeBodyScene, arrays: Mapping[str, Array]) -> list[Finding]:
    """Measure a run; its checks include that the machine stays upright, does not slip and follows its reference."""
    config, body, motion = scene.config, scene.body, scene.motion
    ended = len(arrays["t"]) >= scene.duration_s * config.rate_hz - 1.5
    share = np.abs(arrays["tau"]) / body.system.effort_limit
    jumps = np.abs(np.diff(arrays["tau"], axis=0)) / body.system.effort_limit
    pushes = [at_s for at_s, _ in scene.punches()] + ([] if config.push.at_s is None else [config.push.at_s])
    since = arrays["t"][1:, None] - np.array(pushes)
    jump = float(jumps[((since < 0.0) | (since > ABSORBS_S)).all(axis=1)].max(initial=0.0))
    hand = float(np.linalg.norm(arrays["hand_err"], axis=1).max())
    moves = body.hand is not None or isinstance(motion, Press)
    return [
        Finding("fell_at_s", None if ended else float(arrays["t"][-1]), holds=ended),
        *(_balance(scene, arrays) if body.floats else []),
        *([Finding("hand_err_max_m", hand, holds=hand < FOLLOWED_M, note=FOLLOWS)] if moves else []),
        *(pressing.findings(motion, arrays) if isinstance(motion, Press) else []),
        *(Finding(key, value) for key, value in metrics.sole_wrenches(arrays).items()),
        _ends(scene, arrays),
        Finding("torque_share_max", share.max()),
        Finding("torque_jump_share_max", jump, holds=jump < JUMP_SHARE, note=f"limit {JUMP_SHARE}"),
        *(Finding(f"demand_{name}_share", np.mean(arrays["demand"] == number)) for number, name in enumerate(DEMANDS)),
        *(_landings(scene, motion, arrays) if isinstance(motion, Walk) else []),
        *([] if scene.way is None else teleop.findings(scene.way, arrays)),
    ]


def _ends(scene: WholeBodyScene, arrays: Mapping[str, Array]) -> Finding:
    """Count the steps with a joint at a position limit, and name the joints: they explain most missed references."""
    system = scene.body.system
    ends = metrics.at_ends(arrays["q"][:, system.joint_q], system.limits.lower, system.limits.upper)
    names = [name for name, share in zip(system.actuated_names, ends.mean(axis=0), strict=True) if share > 0.0]
    return Finding("position_limit_steps", int(ends.any(axis=1).sum()), note=", ".join(names))


def _balance(scene: WholeBodyScene, arrays: Mapping[str, Array]) -> list[Finding]:
    """Measure the errors of centre of mass and trunk, and the slip of feet; a hand on a wall slips on purpose."""
    config, patch = scene.config, scene.body.contacts.patch
    pushed = config.push.at_s is not None or config.punches.force_n is not None
    error, feet = np.linalg.norm(arrays["com_err"], axis=1), len(scene.body.names) - len(scene.robot.hands)
    stands = arrays["stance"][:, :feet] > 0.5
    corners = np.flatnonzero(patch < feet)
    steady = settled(stands, round(LANDING_S * config.rate_hz))[:, patch[corners], None]
    slid = arrays["slide"][:, corners] / config.rate_hz * steady
    slipped = max(_moved(slid[:, k], stands[:, patch[k]]) for k in corners)
    return [
        Finding("com_err_rms_m", np.sqrt(np.mean(error**2))),
        Finding(
            "com_err_max_m",
            error.max(),
            holds=None if pushed else bool(error.max() < FOLLOWED_M),
            note="" if pushed else FOLLOWS,
        ),
        Finding("com_err_end_m", error[-1], holds=error[-1] < FOLLOWED_M, note=FOLLOWS),
        Finding("trunk_err_max_rad", arrays["trunk_err"].max()),
        Finding("slip_mean_m_s", arrays["slip"][:, :feet][stands].mean()),
        Finding("slipped_m", slipped, holds=slipped < SLIPPED_M, note=f"limit {1e3 * SLIPPED_M:g} mm"),
    ]


def settled(stands: Booleans, settles: int) -> Booleans:
    """True where a foot has stood for more than `settles` rows, or since the first row; shape (rows, n)."""
    out = stands.copy()
    for k in range(1, settles + 1):
        out[k:] &= stands[:-k]
    return out


def _moved(steps: Array, stands: Booleans) -> float:
    """Return the largest distance of a point from its touchdown [m]; `steps` are its motions by row, (rows, 3) [m]."""
    begins = np.flatnonzero(np.diff(stands, prepend=False) & stands)
    ways = (np.cumsum(stance, axis=0) for stance in np.split(steps, begins))
    return max((float(np.linalg.norm(way, axis=1).max()) for way in ways if len(way)), default=0.0)


def _landings(scene: WholeBodyScene, walk: Walk, arrays: Mapping[str, Array]) -> list[Finding]:
    """Count touchdowns and new plans; measure the errors of the footholds and the heights of the swings."""
    asked, used = scene.config.walk, walk.walk
    low = f"assumed friction {scene.mu_controller:.3g} is too low for it"
    slower = (
        ("single_max_s", used.single_s, f"walk.single_s is {asked.single_s:g} s", used.single_s > asked.single_s),
        ("double_max_s", used.double_s, f"walk.double_s is {asked.double_s:g} s", used.double_s > asked.double_s),
        ("turn_rad", used.turn_rad, f"walk.turn_rad is {asked.turn_rad:g} rad", used.turn_rad != asked.turn_rad),
    )
    landings, swings = walk.landings, arrays["stance"] < 0.5
    way = arrays["feet"][-1].mean(axis=0) - arrays["feet"][0].mean(axis=0)
    planned = sum(len(step.feet) for step in walk.steps)
    short = f"; the run ends at {scene.duration_s:g} s, the walk at {walk.end_s:g} s"
    note = f"planned {planned}{short if len(landings) < planned and scene.duration_s < walk.end_s else ''}"
    return [
        Finding("touchdowns", len(landings), holds=len(landings) == planned, note=note),
        Finding("replans", walk.caught),
        *(Finding(key, value, note=f"{what}; {low}") for key, value, what, changed in slower if changed),
        Finding("distance_m", np.hypot(*way[:2])),
        Finding("landing_late_max_s", max((abs(one.late_s) for one in landings), default=None)),
        Finding("landing_off_max_m", max((one.off_m for one in landings), default=None)),
        Finding("clearance_m", arrays["gap"][swings].max(initial=0.0)),
    ]


def drawings(scene: WholeBodyScene, arrays: Mapping[str, Array]) -> list[Drawing]:
    """Draw the hand on its wall, the path over the soles, forces and heights of the feet, the error and the torque."""
    arrays = {key: values[::DRAWN_EVERY] for key, values in arrays.items()}
    drawn = [pressing.drawing(scene.motion, arrays)] if isinstance(scene.motion, Press) else []
    if scene.body.floats:
        feet = len(scene.body.names) - len(scene.robot.hands)
        standing = {key: arrays[key][:, :feet] for key in ("feet", "stance", "force", "force_pred", "cop", "gap")}
        drawn += [_from_above(arrays["com"], standing, scene.way), _feet(arrays["t"], standing, scene.body.names)]
    what = "centre of mass" if scene.body.floats else "hand"
    errors = arrays["com_err" if scene.body.floats else "hand_err"]
    with axes(2, size=(7.0, 4.5), sharex=True) as (error, torque):
        err_mm = 1e3 * np.maximum(np.linalg.norm(errors, axis=1), 1e-10)
        # the range comes first, since a logarithmic axis cannot scale itself to one repeated value
        error.set(ylabel=f"{what} error [mm]", yscale="log", ylim=(1e-7, max(1.0, 2.0 * err_mm.max())))
        error.plot(arrays["t"], err_mm)
        torque.plot(arrays["t"], np.abs(arrays["tau"] / scene.body.system.effort_limit).max(axis=1))
        torque.set(xlabel="time [s]", ylabel="largest torque / its limit", ylim=(0.0, 1.05))
    return [*drawn, Drawing("Tracking", error.figure)]


def _from_above(com: Array, feet: Mapping[str, Array], way: Way | None) -> Drawing:
    with axes(size=(7.0, 3.0)) as above:
        for i in range(feet["stance"].shape[1]):
            stood = np.unique(feet["feet"][feet["stance"][:, i] > 0.5, i, :2].round(3), axis=0)
            above.plot(*stood.T, "s", color="0.75", markersize=9, label="feet" if i == 0 else None)
        zmp = zero_moment_points(feet["force"], feet["cop"])
        above.plot(*zmp.T, color="C1", linewidth=0.8, label="zero-moment point")
        above.plot(*com[:, :2].T, color="C0", label="centre of mass")
        if way is not None:
            above.plot(*way.poses[:, :2].T, "k+", markersize=9, label="waypoints", zorder=3)
        above.set(xlabel="x [m]", ylabel="y [m]")
        above.set_aspect("equal", adjustable="datalim")  # a body that stays in place fills the picture, too
        above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return Drawing("From above", above.figure)


def _feet(t: Array, feet: Mapping[str, Array], names: Sequence[str]) -> Drawing:
    with axes(2, size=(7.0, 4.5), sharex=True) as (load, height):
        for i in range(feet["stance"].shape[1]):
            (line,) = load.plot(t, feet["force"][:, i, 2], label=names[i])
            load.plot(t, feet["force_pred"][:, i, 2], ":", color=line.get_color())
            height.plot(t, 1e3 * feet["gap"][:, i], color=line.get_color())
        load.set(ylabel="load [N], dotted: predicted")
        load.legend()
        height.set(xlabel="time [s]", ylabel="lowest corner [mm]")
    return Drawing("Feet", load.figure)


def _rehearsals(preset: WholeBodyConfig) -> Callable[[], Sequence[WholeBodyConfig]]:
    """Return a function that returns short runs, one with each controller that takes tasks."""
    return lambda: [msgspec.structs.replace(preset, controller=name, duration_s=0.01) for name in task_controllers()]


def by_feet(config: WholeBodyConfig) -> WholeBodyConfig:
    """Let a robot on four feet trot: settings that equal `WALK` get the values of `TROT`."""
    return config if len(robots.load(config.robot).patches) <= 2 else _exchanged(config, WALK, TROT)


def by_base(config: WholeBodyConfig) -> WholeBodyConfig:
    """Let an arm on a fixed base reach: settings that equal `WALL` or `REACH` get the values of `ARM_WALL` or `ARM`."""
    if robots.load(config.robot).description.base == "free-flyer":
        return config
    return _exchanged(config, REACH, ARM) if config.wall.distance_m is None else _exchanged(config, WALL, ARM_WALL)


def _exchanged(config: Any, old: Any, new: Any) -> Any:
    """Replace every value that a configuration has in common with `old` by the value in `new`, except the robot."""
    if not isinstance(config, msgspec.Struct):
        return new if config == old else config
    names = [name for name in config.__struct_fields__ if name != "robot"]
    parts = {name: _exchanged(*(getattr(each, name) for each in (config, old, new))) for name in names}
    return msgspec.structs.replace(config, **parts)


_case = partial(Case, simulate=run)
sway = _case(
    name="sway",
    summary="a humanoid or a quadruped sways over its feet",
    presets={"default": SWAY},
    rehearsals=_rehearsals(SWAY),
)
squat = _case(name="squat", summary="a humanoid or a quadruped squats", presets={"default": SQUAT})
lift = _case(
    name="lift",
    summary="a humanoid or a quadruped lifts a foot",
    presets={"default": LIFT},
    rehearsals=_rehearsals(LIFT),
)
walk = _case(
    name="walk",
    summary="a humanoid walks, or a quadruped trots, with whole-body tasks",
    presets={"default": WALK, "trot": TROT},
    adapt=by_feet,
)
push = _case(
    name="push",
    summary="a humanoid or quadruped is pushed and keeps its balance, with steps if necessary",
    presets={"default": PUSH},
)
teleop_walk = _case(
    name="teleop-walk",
    summary="a humanoid walks along waypoints, moves its arms at random, and is punched (--preset punched)",
    presets={"default": TELEOP, "punched": PUNCHED},
)
reach = _case(
    name="reach",
    summary="a standing humanoid or an arm moves a hand through points, or along a wall with a target force",
    presets={"default": REACH, "wall": WALL},
    adapt=by_base,
)
