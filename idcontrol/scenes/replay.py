"""Replay a recorded walk: the torques that a controller commands in the recorded states.

The planner of the run plans again in these states, and the controller computes torques for each state and reference.
These torques do not move the robot, so different controllers are compared in equal states.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from idcontrol import controllers
from idcontrol.config.changes import with_infinities
from idcontrol.errors import InputError
from idcontrol.loop.life import MIX_S
from idcontrol.loop.record import working
from idcontrol.record.recording import Run
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import Array, ContactForces, State


class Replayed(NamedTuple):
    """The torques of a replay, and the recorded torques; n ticks, a joints.

    Attributes:
        t: Times, shape (n,) [s].
        tau: Torques of the controller, shape (n, a) [N m].
        recorded: Recorded torques, shape (n, a) [N m].
        plan_diff_rad: Largest difference between planned and recorded joint positions [rad]; zero if the planner
            repeated its plan.
    """

    t: Array
    tau: Array
    recorded: Array
    plan_diff_rad: float


def replay(run: Run, controller: str) -> Replayed:
    """Ask a controller for its torques in the recorded states of a walk.

    Args:
        run: A walk of ``idcontrol run`` or ``idcontrol loop``.
        controller: Name of the controller, or ``file.py:Class``.

    Raises:
        UnknownName: The controller does not exist.
        InputError: The run is not a walk, or its record lacks the sensed states.
    """
    settings = {name: value for name, value in run.config.items() if name != "loop"}
    loop = run.config.get("loop") or {}
    if run.layout is None or not settings.keys() <= set(WalkConfig.__struct_fields__):
        raise InputError(f"{run.folder} is not a walk; replay takes runs of trot and rough, and of idcontrol loop")
    config = msgspec.convert(with_infinities(settings), WalkConfig)
    contacts = (loop.get("sensing") or {"contacts": config.sensing.contacts})["contacts"]
    unknown = {
        "command.ahead_s": config.command.ahead_s != 0.0,
        "path.kind=joystick": config.path.kind == "joystick",
        "loop.planner": loop.get("planner") is not None,
        f"sensing.contacts={contacts}": contacts != "planned",
    }
    for setting in (name for name, used in unknown.items() if used):
        raise InputError(f"{run.folder} was made with {setting}, which the record does not contain; replay another run")
    scene = WalkScene.of(msgspec.structs.replace(config, controller=controller))
    rows = working(run.arrays) if loop else slice(None)
    states, arrays = _states(run, rows), {name: values[rows] for name, values in run.arrays.items()}
    if not states:
        raise InputError(f"{run.folder} has no tick in which its controller was called")
    planner = scene.planner(scene.guide())
    seen = run.meta.get("planned_from")
    planner.reset(states[0] if seen is None else State(t=0.0, q=np.array(seen["q"]), v=np.array(seen["v"])))
    plan, ask = scene.plan(planner), controllers.build(controller, scene.controller_setup())
    tau, off = np.empty_like(arrays["q_des"]), 0.0
    for row, state in enumerate(states):
        reference = plan(state)
        tau[row] = ask(state.sealed(), reference).tau
        off = max(off, float(np.abs(reference.q - arrays["q_des"][row]).max()))
    recorded, t = arrays["tau_wanted" if "tau_wanted" in arrays else "tau"], arrays["t"] - arrays["t"][0]
    # at the handover after standing up, a loop mixes the controller's torques with the torques of the path; its ticks
    # may be late
    since = int(np.searchsorted(t, 1.1 * MIX_S)) if loop else 0
    return Replayed(t[since:], tau[since:], recorded[since:], off)


def _states(run: Run, rows: slice) -> list[State]:
    """Return the sensed states of these rows; forces are means over the previous period, with vertical normals."""
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
