"""Two grippers squeeze a row of boxes and gravity pulls: no slip against Coulomb friction (000 section VII-A)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import coal
import matplotlib
import msgspec
import numpy as np
import pinocchio as pin
from matplotlib.figure import Figure

from idcontrol.contact.collision import CollisionContacts
from idcontrol.contact.contacts import Contacts
from idcontrol.errors import UnknownName
from idcontrol.experiments.findings import STYLE, Drawing, Finding, save
from idcontrol.models import coulomb, dissipation, no_slip
from idcontrol.models.step import ContactModel
from idcontrol.plants.stepping import Stepping
from idcontrol.system import System
from idcontrol.types import Array, State, Status

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]

GRAVITY = 9.81
TRIAL_STEPS = 10
"""Steps that the paper times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A contact model and what the paper found with its own.

    Attributes:
        solve: The contact model.
        variables: LCP variables of each contact.
        trial_s: Mean time of ten steps there, with collision detection [s].
        steps_held: How long it held the boxes there.
    """

    solve: ContactModel
    variables: int
    trial_s: float
    steps_held: int


MODELS: Mapping[str, Model] = {
    "noslip": Model(solve=no_slip.solve, variables=1, trial_s=1.6680, steps_held=100),
    "noslip-qp": Model(solve=dissipation.no_slip_qp, variables=1, trial_s=1.9892, steps_held=100),
    "coulomb-lcp": Model(solve=coulomb.solve, variables=6, trial_s=10.9681, steps_held=10),
}
"""Modified principal pivoting, active set, and Stewart-Trinkle by Lemke's method."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides the case. The paper gives neither sizes nor forces.

    Attributes:
        plant: One of the models, or ``all``.
        boxes: How many boxes are held between the two grippers.
        side_m: Of every box; a gripper is one too.
        density_kg_m3: Of the boxes.
        squeeze_n: Force of each gripper.
        copies: How often each corner of a face is listed; the paper's simulator lists it once for each of three
            normals, here it is the same contact each time.
        mu: Friction where it counts, as in the paper; no slip is without.
        steps: Length of a run.
        step_s: Of the integration.
        trials: Runs that are timed.
    """

    plant: str = "all"
    boxes: Count = 2
    side_m: Positive = 0.1
    density_kg_m3: Positive = 1000.0
    squeeze_n: Positive = 50.0
    copies: Annotated[int, msgspec.Meta(ge=1, le=8)] = 3
    mu: Positive = 100.0
    steps: Count = 100
    step_s: Positive = 0.01
    trials: Count = 10


class Copies:
    """A detector that lists each contact several times."""

    def __init__(self, detector: CollisionContacts, copies: int) -> None:
        self._detector, self._copies = detector, copies

    def detect(self, margin: float) -> Contacts:
        """See `idcontrol.contact.contacts.Detector`."""
        once = self._detector.detect(margin)
        many = once.take(np.tile(np.arange(len(once)), self._copies))
        number = np.repeat(np.arange(self._copies), len(once))
        return replace(many, identity=many.identity * self._copies + number)


class BoxGrip:
    """The experiment, as the command line finds it."""

    name = "box-grip"
    summary = "boxes held by squeezing: no slip against Coulomb friction, how long and at what cost"
    presets: Mapping[str, Config] = {"default": Config()}

    def run(self, config: Config, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run it, record it into `out`, and return its metrics.

        Raises:
            UnknownName: There is no such model.
        """
        began = time.perf_counter()
        if config.plant != "all" and config.plant not in MODELS:
            raise UnknownName("plant", config.plant, [*MODELS, "all"])
        chosen = {name: model for name, model in MODELS.items() if config.plant in ("all", name)}
        findings: list[Finding] = []
        series: dict[str, Array] = {}
        trials: dict[str, Array] = {}
        for done, (name, model) in enumerate(chosen.items()):
            grip = _grip(config, model.solve, config.steps)
            series[f"drop_{_word(name)}_m"] = grip.drop
            trials[name] = np.array([_grip(config, model.solve, TRIAL_STEPS).spent for _ in range(config.trials)])
            findings.extend(_found(config, name, model, grip, trials[name]))
            progress((done + 1) / len(chosen))
        if "coulomb-lcp" in chosen:
            findings.extend(
                Finding(
                    f"speedup_{_word(name)}",
                    float(trials["coulomb-lcp"].mean() / trials[name].mean()),
                    paper=round(MODELS["coulomb-lcp"].trial_s / model.trial_s, 2),
                    note="mean time of ten steps with Coulomb friction over that without slip",
                )
                for name, model in chosen.items()
                if name != "coulomb-lcp"
            )
        times: Array = config.step_s * np.arange(1.0, config.steps + 1.0)
        return save(
            out,
            experiment=self.name,
            config=config,
            findings=findings,
            arrays={"t": times, **series},
            units={"t": "s", **dict.fromkeys(series, "m")},
            drawings=[_drawing(trials)],
            began=began,
        )

    def warmup(self, out: Path) -> None:
        """Two steps with each model: every kernel is compiled and cached."""
        self.run(Config(steps=2, trials=1), out, lambda share: None)


experiment = BoxGrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grip:
    """What happened in a run.

    Attributes:
        contacts: How many contacts were listed, in the mean.
        drop: Of the lowest box after each step, shape (steps,) [m].
        held: Steps until a box had dropped by a hundredth of its side, or a step had no solution.
        pivots: Of the solver in each step, shape (steps,).
        loaded: Contacts with a normal force, in the mean over steps and faces.
        spent: Processor time of the run: its wall time on a machine that does nothing else [s].
    """

    contacts: float
    drop: Array
    held: int
    pivots: Array
    loaded: float
    spent: float


def _machine(config: Config) -> tuple[System, Any]:
    """Grippers on rails along x, boxes free between them; their geometry with the pairs that touch."""
    side, count = config.side_m, config.boxes
    mass = config.density_kg_m3 * side**3
    inertia = pin.Inertia(mass, np.zeros(3), mass * side**2 / 6.0 * np.eye(3))
    model, geometry = pin.Model(), pin.GeometryModel()
    names = ["left", *(f"box{i}" for i in range(count)), "right"]
    for place, name in enumerate(names):
        joint_model = pin.JointModelPX() if name in ("left", "right") else pin.JointModelFreeFlyer()
        at = (place - 0.5 * (count + 1)) * side
        origin = pin.SE3(np.eye(3), np.array([at, 0.0, 0.0])) if joint_model.nv == 1 else pin.SE3.Identity()
        joint = model.addJoint(0, joint_model, origin, name)
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
        geometry.addGeometryObject(pin.GeometryObject(name, joint, pin.SE3.Identity(), coal.Box(side, side, side)))
    for left in range(count + 1):
        geometry.addCollisionPair(pin.CollisionPair(left, left + 1))
    model.gravity.linear = np.array([0.0, 0.0, -GRAVITY])
    return System(model, actuated=("left", "right")), geometry


def _grip(config: Config, solve: ContactModel, steps: int) -> _Grip:
    """Squeeze for `steps` steps."""
    system, geometry = _machine(config)
    detector = Copies(CollisionContacts(system, geometry, config.mu), config.copies)
    plant = Stepping(system, detector, solve, config.step_s)
    q = np.array(pin.neutral(system.model))
    free = [joint.idx_q for joint in system.model.joints if joint.nq == 7]
    for place, at in enumerate(free):
        q[at] = (place - 0.5 * (config.boxes - 1)) * config.side_m
    state = plant.reset(State(t=0.0, q=q, v=np.zeros(system.n_velocities)))
    squeeze = np.array([config.squeeze_n, -config.squeeze_n])
    drop, pivots, listed, loaded = (np.zeros(steps) for _ in range(4))
    held, limit = steps, 0.01 * config.side_m
    began = time.thread_time()
    for step in range(steps):
        state = plant.step(squeeze, config.step_s)
        assert plant.last is not None
        drop[step] = max(-state.q[at + 2] for at in free)
        pivots[step], listed[step] = plant.last.iterations, len(plant.last.impulses)
        loaded[step] = np.count_nonzero(plant.last.impulses[:, 0] > 0.0) / (config.boxes + 1)
        if held == steps and (drop[step] > limit or plant.last.status >= Status.FALLBACK):
            held = step
    spent = time.thread_time() - began
    return _Grip(
        contacts=float(listed.mean()),
        drop=drop,
        held=held,
        pivots=pivots,
        loaded=float(loaded.mean()),
        spent=spent,
    )


def _word(name: str) -> str:
    return name.replace("-", "_")


def _found(config: Config, name: str, model: Model, grip: _Grip, trials: Array) -> list[Finding]:
    """The numbers of one model."""
    word, usual = _word(name), config == Config(plant=config.plant)
    return [
        Finding(
            f"steps_held_{word}",
            grip.held,
            paper=model.steps_held if usual else None,
            holds=grip.held == config.steps,
            note="until a box has dropped by a hundredth of its side; the paper's are the longest runs it reports, "
            "and with Lemke's method the boxes fell there after about ten",
        ),
        Finding(f"drop_{word}_m", float(grip.drop[-1]), "m", note="of the lowest box at the end of the run"),
        Finding(
            f"trial_{word}_s",
            float(trials.mean()),
            "s",
            paper=model.trial_s if usual else None,
            note=f"mean of {len(trials)} trials of ten steps, collision detection included; their deviation is "
            f"{trials.std():.1e} s. The paper's machine: MATLAB, 1.8 GHz Core i5",
        ),
        Finding(
            f"variables_{word}",
            int(model.variables * grip.contacts),
            paper=model.variables * 36 if usual else None,
            note="of the LCP",
        ),
        Finding(
            f"pivots_mean_{word}",
            float(grip.pivots.mean()),
            paper=5.5 if usual and name == "noslip" else None,
            note=f"at most {grip.pivots.max():.0f}" + ("; at most 7 in the paper" if name == "noslip" else ""),
        ),
        Finding(
            f"loaded_contacts_{word}",
            grip.loaded,
            paper=2.0 if usual and name == "noslip" else None,
            note="contacts of each face pair that have a normal force",
        ),
    ]


def _drawing(trials: Mapping[str, Array]) -> Drawing:
    """Times of the trials, the paper's beside them."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.0, 3.5))
        axes = figure.subplots()
        place = np.arange(len(trials))
        axes.bar(place - 0.2, [MODELS[name].trial_s for name in trials], 0.4, label="paper")
        axes.bar(
            place + 0.2,
            [times.mean() for times in trials.values()],
            0.4,
            yerr=[times.std() for times in trials.values()],
            label="here",
        )
        axes.set_yscale("log")
        axes.set_ylabel("ten steps [s]")
        axes.set_xticks(place, list(trials))
        axes.legend()
    return Drawing(
        "What ten steps cost",
        "Collision detection included; without slip there is one LCP variable for each contact, with friction six.",
        figure,
    )
