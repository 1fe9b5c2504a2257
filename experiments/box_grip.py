"""Two grippers press a row of boxes together and gravity pulls: no slip against Coulomb friction.

Drumwright 2015, section VII-A.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import coal
import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.config.configuration import Count, Positive
from idcontrol.contact.collision import CollisionContacts
from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System
from idcontrol.experiments.case import GRAVITY, Case, Progress, chosen, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import coulomb, dissipation, no_slip
from idcontrol.models.step import ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.plants.stepping import Stepping
from idcontrol.types import Array, State, Status

TRIAL_STEPS = 10
"""Number of steps of a timed trial, as in the paper."""

SHARED = "theory/no_slip.md#what-a-simulation-gains"
"""Section of the documentation that derives why the ratios of simulation times differ from the paper's: a simulation
also spends time outside the contact model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GripModel:
    """A contact model, and the results of the corresponding model in the paper.

    Attributes:
        solve: The contact model.
        variables: Number of LCP variables of each contact.
        trial_s: The paper's mean time of ten steps, with collision detection [s].
        steps_held: Number of steps for which the boxes were held in the paper.
    """

    solve: ContactModel
    variables: int
    trial_s: float
    steps_held: int


MODELS: Mapping[str, GripModel] = {
    "noslip": GripModel(solve=no_slip.solve, variables=1, trial_s=1.6680, steps_held=100),
    "noslip-qp": GripModel(solve=dissipation.no_slip_qp, variables=1, trial_s=1.9892, steps_held=100),
    "coulomb-lcp": GripModel(solve=coulomb.solve, variables=6, trial_s=10.9681, steps_held=10),
}
"""Contact models by name; in the paper they are solved by modified principal pivoting, by an active set, and (the model
of Stewart and Trinkle) by Lemke's method."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case; the paper prints neither sizes nor forces.

    Attributes:
        plant: One of the models, or ``all``.
        boxes: Number of boxes between the two grippers.
        side_m: Side of every box; grippers are boxes of the same size.
        density_kg_m3: Density of the boxes.
        squeeze_n: Force of each gripper.
        copies: Number of times that each corner of a face is listed, always as the same contact. The paper's simulator
            lists a corner with three normals.
        mu: Friction coefficient of ``coulomb-lcp``, as in the paper; the no-slip models have none.
        steps: Number of steps of a run.
        step_s: Time step.
        trials: Number of timed runs.
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
        """Return the detector's contacts, `copies` times each, with separate identities."""
        once = self._detector.detect(margin)
        many = once.take(np.tile(np.arange(len(once)), self._copies))
        number = np.repeat(np.arange(self._copies), len(once))
        return replace(many, identity=many.identity * self._copies + number)


def run(config: Config, progress: Progress) -> Results:
    """Grip the boxes under each model, then time the model.

    Raises:
        UnknownName: The model does not exist.
    """
    models = chosen(MODELS, config.plant)
    findings: list[Finding] = []
    series = {"t": Series(step_ends(config.step_s, config.steps), "s")}
    trials: dict[str, Array] = {}
    warm: dict[str, Array] = {}
    solving: dict[str, float] = {}
    for done, (name, model) in enumerate(models.items()):
        grip = _grip(config, model.solve, config.steps)
        series[f"drop_{_word(name)}_m"] = Series(grip.drop, "m")
        cold = [_grip(config, _cold(model.solve), TRIAL_STEPS) for _ in range(config.trials)]
        trials[name] = np.array([trial.spent for trial in cold])
        solving[name] = float(np.mean([trial.solving for trial in cold]))
        warm[name] = np.array([_grip(config, model.solve, TRIAL_STEPS).spent for _ in range(config.trials)])
        findings.extend(_findings(config, name, model, grip, trials[name], cold[0].pivots))
        progress((done + 1) / len(models))
    for name, model in models.items():
        if name == "coulomb-lcp" or "coulomb-lcp" not in models:
            continue
        printed = MODELS["coulomb-lcp"].trial_s / model.trial_s
        factor = solving["coulomb-lcp"] / solving[name]
        findings += [
            Finding(
                f"speedup_{_word(name)}",
                trials["coulomb-lcp"].mean() / trials[name].mean(),
                paper=round(printed, 2),
                derivation=SHARED if factor > printed else "",
            ),
            Finding(f"speedup_solving_{_word(name)}", factor),
            Finding(f"speedup_warm_{_word(name)}", warm["coulomb-lcp"].mean() / warm[name].mean()),
        ]
    return Results(findings=findings, series=series, drawings=[_drawing(trials)])


experiment = Case(
    name="box-grip",
    summary="boxes between two grippers: accuracy and computing time of no-slip and Coulomb models",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(steps=2, trials=1)],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grip:
    """One run.

    Attributes:
        contacts: Mean number of contacts that were listed.
        drop: Drop of the lowest box after each step, shape (steps,) [m].
        held: Number of steps until a box had dropped by a hundredth of its side, or a step had no solution; all steps
            if neither happened.
        pivots: Number of pivots of the solver in each step, shape (steps,).
        loaded: Number of contacts with a normal force on each face, mean over steps and faces.
        spent: Processor time of the run, which is its wall time on an idle machine [s].
        solving: Processor time of the contact model alone [s].
    """

    contacts: float
    drop: Array
    held: int
    pivots: Array
    loaded: float
    spent: float
    solving: float


def _machine(config: Config) -> tuple[System, Any]:
    """Return grippers on rails along x with free boxes between them, and their geometry with the pairs that touch."""
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
    for i in range(count + 1):
        geometry.addCollisionPair(pin.CollisionPair(i, i + 1))
    model.gravity.linear = np.array([0.0, 0.0, -GRAVITY])
    return System(model, actuated=("left", "right")), geometry


def _grip(config: Config, solve: ContactModel, steps: int) -> _Grip:
    """Grip the boxes for `steps` steps, and measure the run."""
    system, geometry = _machine(config)
    detector = Copies(CollisionContacts(system, geometry, config.mu), config.copies)
    solving = 0.0

    def timed(problem: StepProblem, warm: WarmStart | None) -> StepSolution:
        nonlocal solving
        entered = time.thread_time()
        solution = solve(problem, warm)
        solving += time.thread_time() - entered
        return solution

    plant = Stepping(system, detector, timed, config.step_s)
    q = np.array(pin.neutral(system.model))
    free = [joint.idx_q for joint in system.model.joints if joint.nq == 7]
    for place, at in enumerate(free):
        q[at] = (place - 0.5 * (config.boxes - 1)) * config.side_m
    state = plant.reset(State(t=0.0, q=q, v=np.zeros(system.n_velocities)))
    forces = np.array([config.squeeze_n, -config.squeeze_n])
    drop, pivots, listed, loaded = (np.zeros(steps) for _ in range(4))
    held, limit = steps, 0.01 * config.side_m
    began = time.thread_time()
    for step in range(steps):
        state = plant.step(forces, config.step_s)
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
        solving=solving,
    )


def _cold(solve: ContactModel) -> ContactModel:
    """Return the model without warm starts."""
    return lambda problem, warm: solve(problem, None)


def _word(name: str) -> str:
    return name.replace("-", "_")


def _findings(
    config: Config, name: str, model: GripModel, grip: _Grip, trials: Array, cold_pivots: Array
) -> list[Finding]:
    """Return findings about one model."""
    word, usual = _word(name), config == Config(plant=config.plant)
    return [
        Finding(
            f"steps_held_{word}", grip.held, paper=model.steps_held if usual else None, holds=grip.held == config.steps
        ),
        Finding(f"drop_{word}_m", grip.drop[-1]),
        Finding(f"trial_{word}_s", trials.mean(), paper=model.trial_s if usual else None),
        Finding(
            f"variables_{word}", int(model.variables * grip.contacts), paper=model.variables * 36 if usual else None
        ),
        Finding(f"pivots_mean_{word}", cold_pivots.mean(), beside=usual and name == "noslip"),
        Finding(f"loaded_contacts_{word}", grip.loaded, beside=usual and name == "noslip"),
    ]


def _drawing(trials: Mapping[str, Array]) -> Drawing:
    """Draw the times of the trials and of the paper."""
    with axes(size=(6.0, 3.5)) as plot:
        place = np.arange(len(trials))
        plot.bar(place - 0.2, [MODELS[name].trial_s for name in trials], 0.4, label="paper")
        plot.bar(
            place + 0.2,
            [times.mean() for times in trials.values()],
            0.4,
            yerr=[times.std() for times in trials.values()],
            label="here",
        )
        plot.set(yscale="log", ylabel="ten steps [s]")
        plot.set_xticks(place, list(trials))
        plot.legend()
    return Drawing("Time of ten steps", plot.figure)
