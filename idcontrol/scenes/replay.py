"""Replay a recorded walk: the torques that a controller commands in the recorded states.

The planner of the run plans again in the recorded states, and the controller computes torques for each state and
reference. The torques move no robot, so different controllers are compared in equal states.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from idcontrol import controllers
from idcontrol.config.changes import with_infinities
from idcontrol.controllers.answer import check_command, check_finite
from idcontrol.errors import InputError
from idcontrol.loop.life import MIX_S
from idcontrol.loop.record import working
from idcontrol.record.files import checked
from idcontrol.record.recording import Run
from idcontrol.scenes.disturbances import SensorNoise
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.types import Array, ContactForces, State


class Replayed(NamedTuple):
    """The torques of a replay, and the recorded torques; n ticks, a joints.

    Attributes:
        t: Times, shape (n,) [s].
        tau: Torques of the controller, shape (n, a) [N m].
        recorded: Torques that the controller of the run commanded, shape (n, a) [N m].
        plan_diff_rad: Largest difference between newly planned and recorded reference positions of a joint [rad]; zero
            if the planner repeated its plan.
    """

    t: Array
    tau: Array
    recorded: Array
    plan_diff_rad: float


def replay(run: Run, controller: str) -> Replayed:
    """Return the torques of a controller in the recorded states of a walk.

    Args:
        run: A walk of ``idcontrol run`` or ``idcontrol loop``.
        controller: Name of the controller, or ``file.py:Class``.

    Raises:
        UnknownName: The controller does not exist.
        InputError: The run is not a walk or is too short, its record is damaged or lacks something that a replay needs,
            or the controller returns no usable torques.
    """
    config, loops = _configuration(run)
    scene = WalkScene.of(msgspec.structs.replace(config, controller=controller))
    rows = working(run.arrays) if loops else slice(None)
    states, arrays = _states(run, rows), {name: values[rows] for name, values in run.arrays.items()}
    # for MIX_S after standing up, a loop mixes the controller's torques with the torques of the path; the margin is for
    # late ticks
    since = int(np.searchsorted(arrays["t"] - arrays["t"][:1], 1.1 * MIX_S)) if loops else 0
    if since >= len(states):
        raise InputError(f"{run.folder} has no tick to compare; replay a longer run")
    observer, recorded = scene.observer(), arrays["tau_wanted" if "tau_wanted" in arrays else "tau"]
    shapes = states[0].q.shape, states[0].v.shape, recorded.shape, arrays["q_des"].shape
    model, expected = observer.system.model, (len(states), observer.system.n_actuated)
    if shapes != ((model.nq,), (model.nv,), expected, expected) or not (np.diff(arrays["t"]) > 0.0).all():
        raise InputError(
            f"{run.folder} is damaged: its channels do not fit {scene.robot.name}, or its times do not rise"
        )
    planner = scene.planner(scene.guide())
    planner.reset(_first(run, states[0]))
    plan, ask = scene.plan(planner), controllers.build(controller, scene.controller_setup())
    tau, off, patch = np.empty_like(recorded), 0.0, observer.sole_patch
    for row, state in enumerate(states):
        reference = plan(state)
        command = ask(state.sealed(), reference)
        check_command(command, ask, state, tau.shape[1], len(reference.stance) if patch is None else len(patch))
        check_finite(command, ask, state)
        tau[row] = command.tau
        off = max(off, float(np.abs(reference.q - arrays["q_des"][row]).max()))
    return Replayed(arrays["t"][since:] - arrays["t"][0], tau[since:], recorded[since:], off)


def _configuration(run: Run) -> tuple[WalkConfig, bool]:
    """Return the configuration of a recorded walk, and True if a loop recorded it.

    Raises:
        InputError: The run is not a walk, or its record is damaged or lacks something that a replay needs.
    """
    file, loop = str(run.folder / "config.json"), run.config.get("loop") or {}
    settings = {name: value for name, value in run.config.items() if name != "loop"}
    if run.layout is None or not settings or not settings.keys() <= set(WalkConfig.__struct_fields__):
        raise InputError(f"{run.folder} is not a walk; replay takes runs of trot and rough, and of idcontrol loop")
    if not isinstance(loop, dict) or (loop and not {"mode", "phase", "t_machine", "tau_wanted"} <= run.arrays.keys()):
        raise InputError(f"{run.folder} is damaged: its channels are not of a loop")
    config = checked(with_infinities(settings), WalkConfig, file)
    sensing = checked(loop.get("sensing") or {}, Sensing, file) if loop else config.sensing
    senses = not loop and (config.noise != SensorNoise() or sensing != Sensing())
    unknown = {
        "command.ahead_s": config.command.ahead_s != 0.0,
        "path.kind=joystick": config.path.kind == "joystick",
        # the age of delayed states, and modified forces of a run, are not recorded
        "sensing.delay_ticks": sensing.delay_ticks > 0,
        "sensing.noise.force_n": not loop and sensing.noise.force_n > 0.0,
        "sensing.forces=estimated": not loop and sensing.forces == "estimated",
        "sensed states": senses and not {"q_sensed", "v_sensed"} <= run.arrays.keys(),
        "loop.planner": loop.get("planner") is not None,
        f"sensing.contacts={sensing.contacts}": sensing.contacts != "planned",
    }
    for setting in (name for name, used in unknown.items() if used):
        raise InputError(f"{run.folder} was made with {setting}, which the record does not contain; replay another run")
    return config, bool(loop)


def _first(run: Run, state: State) -> State:
    """Return the state at which the run's planner began: from the run's `meta` if it is there, else `state`."""
    seen = run.meta.get("planned_from")
    if seen is None:
        return state
    try:
        q, v = np.array(seen["q"], dtype=np.float64), np.array(seen["v"], dtype=np.float64)
    except (TypeError, KeyError, ValueError):
        q = v = np.zeros(0)
    if (q.shape, v.shape) != (state.q.shape, state.v.shape):
        raise InputError(f"{run.folder / 'run.json'} is damaged: planned_from is not a state of this robot")
    return State(t=0.0, q=q, v=v)


def _states(run: Run, rows: slice) -> list[State]:
    """Return the sensed states in `rows` of a record.

    Their contact forces are means over the previous period, and the normals are vertical. The first row of a record has
    no forces.
    """
    arrays = run.arrays
    t = arrays["t_machine" if "t_machine" in arrays else "t"]
    q, v = (arrays[f"{name}_sensed" if f"{name}_sensed" in arrays else name] for name in ("q", "v"))
    states = []
    for row in range(*rows.indices(len(t))):
        forces = None
        if row > 0:
            force = arrays["force"][row - 1]
            feet = np.flatnonzero(force.any(axis=1))
            forces = ContactForces(identity=feet, force=force[feet], normal=np.tile((0.0, 0.0, 1.0), (feet.size, 1)))
        states.append(State(t=float(t[row] - t[rows][0]), q=q[row], v=v[row], forces=forces))
    return states
