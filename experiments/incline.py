"""A box slides down a ramp, or sticks: every forward model compared with the closed form.

Drumwright 2019, section 6.4; math.md, sections 10 and 11.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import coal
import msgspec
import numpy as np

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import BodyState, Surface, solid
from idcontrol.experiments.case import GRAVITY, Case, Progress, chosen, step_count, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import constraint, coulomb, dissipation, no_slip, sap, viscous
from idcontrol.models.constraint import printed
from idcontrol.models.sap.regularization import SIGMA
from idcontrol.models.step import ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.plants.bodies import FreeBodies, dense
from idcontrol.types import Array

MODULUS_PA, FOOT_RADIUS_M = 1e11, 0.01
"""Young's modulus of the ramp and radius of the box's round feet, for the constraint model."""

THRESHOLD_OFFSET = 1e-4
"""Distance of the tried friction coefficients below and above the value that just holds the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampModel:
    """A forward model and its expected motion on the ramp.

    Attributes:
        solve: The contact model.
        friction: Law along the tangents: Coulomb friction, no slip, or drag.
        creep: A sticking box may move at ``creep μ g h``, where h is the step.
    """

    solve: ContactModel
    friction: Literal["coulomb", "no slip", "drag"] = "coulomb"
    creep: float = 1e-9


MODELS: Mapping[str, RampModel] = {
    "coulomb-lcp": RampModel(solve=coulomb.solve),
    "dissipation": RampModel(solve=dissipation.solve),
    "noslip": RampModel(solve=no_slip.solve, friction="no slip"),
    "viscous": RampModel(solve=viscous.solve, friction="drag"),
    "sap": RampModel(solve=sap.solve, creep=SIGMA),
    # creep of 1e-6 of the free speed (math.md, section 11.3), shared by four corners
    "constraint": RampModel(solve=constraint.compliant(constraint.NEARLY_RIGID), creep=1e-5),
}
"""Forward models by the names of plants."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case.

    Attributes:
        plant: One of the models, or ``all``.
        frictions: Friction coefficients.
        slope_deg: Inclination of the ramp.
        drag_n_s_m: Viscous friction at each corner, for ``viscous``.
        mass_kg: Mass of the box.
        size_m: Sides of the box: along the slope, across it, height.
        duration_s: Length of a slide.
        step_s: Time step.
    """

    plant: str = "all"
    frictions: tuple[NotNegative, ...] = (0.0, 0.125, 0.25, 0.375)
    slope_deg: Annotated[float, msgspec.Meta(gt=0, lt=60)] = 15.0
    drag_n_s_m: Positive = 1.0
    mass_kg: Positive = 1.0
    size_m: tuple[Positive, Positive, Positive] = (0.2, 0.1, 0.05)
    duration_s: Duration = 1.0
    step_s: Positive = 0.01


def run(config: Config, progress: Progress) -> Results:
    """Let the box slide under each model and friction.

    Raises:
        UnknownName: The model does not exist.
    """
    models = chosen(MODELS, config.plant)
    findings: list[Finding] = []
    slides: dict[str, Array] = {}
    for done, (name, model) in enumerate(models.items()):
        frictions = config.frictions if model.friction == "coulomb" else (None,)
        for mu in frictions:
            slide = _slide(config, model, np.inf if mu is None else mu)
            key = _key("slide", name, mu) + "_m"
            slides[key] = slide.distance
            findings.append(_distance(config, model, mu, key, slide))
        if model.friction == "coulomb":
            findings.append(_corner_force(config, name, model))
            findings.append(_threshold(config, name, model))
        progress((done + 1) / len(models))
    if "constraint" in models:
        findings.append(_hertz_depth(config))
        if config.frictions == Config().frictions:
            findings.append(_ratio(slides))
        if importlib.util.find_spec("cvxpy") and importlib.util.find_spec("clarabel"):
            findings.append(_thrown(config))
    t = step_ends(config.step_s, step_count(config.duration_s, config.step_s))
    return Results(
        findings=findings,
        series={"t": Series(t, "s")} | {key: Series(distance, "m") for key, distance in slides.items()},
        drawings=[_drawing(config, models, t, slides)],
    )


experiment = Case(
    name="incline",
    summary="a box on a ramp: how far it slides, and when it sticks, with each contact model",
    presets={"default": Config(), "fine": Config(step_s=0.001)},
    simulate=run,
    rehearsals=lambda: [Config(duration_s=0.02)],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slide:
    """One slide.

    Attributes:
        distance: Distance along the ramp after each step, shape (steps,) [m].
        speed: Speed along the ramp at the end [m/s].
        corner_force: Mean normal force of the four corners at the end [N].
        depth: Mean depth of the corners in the ramp at the end [m].
        lift: Largest height of the box's middle above its start, along the normal [m].
    """

    distance: Array
    speed: float
    corner_force: float
    depth: float
    lift: float


def _slide(config: Config, model: RampModel, mu: float) -> _Slide:
    """Release the box at rest on the slope, and return its motion."""
    slope = np.deg2rad(config.slope_deg)
    normal, down = np.array([np.sin(slope), 0.0, np.cos(slope)]), np.array([np.cos(slope), 0.0, -np.sin(slope)])
    shape = coal.Box(*config.size_m)
    plant = FreeBodies(
        [solid("box", shape, config.mass_kg / shape.computeVolume(), Surface(mu=np.inf))],
        dense(_dragging(config.drag_n_s_m) if model.friction == "drag" else model.solve),
        terrain=plane(normal),
        ground=Surface(mu=mu),
        gravity=(0.0, 0.0, -GRAVITY),
    )
    turned = np.array([[0.0, np.sin(0.5 * slope), 0.0, np.cos(0.5 * slope)]])
    start = plant.reset(BodyState.at_rest(0.5 * config.size_m[2] * normal[None], turned))
    distance, lift = np.empty(step_count(config.duration_s, config.step_s)), 0.0
    for step in range(len(distance)):
        state = plant.step(config.step_s)
        distance[step] = down @ (state.position[0] - start.position[0])
        lift = max(lift, float(normal @ (state.position[0] - start.position[0])))
    forces = plant.contact_forces()
    return _Slide(
        distance=distance,
        speed=float(down @ state.velocity[0, :3]),
        corner_force=float(np.sum(forces.force * forces.normal) / 4.0),
        depth=float(0.5 * config.size_m[2] - normal @ state.position[0]),
        lift=lift,
    )


def _dragging(drag: float) -> ContactModel:
    """Return the viscous model with the same `drag` [N s/m] at every contact, passed as the contacts' damping."""

    def solve(problem: StepProblem, warm: WarmStart | None) -> StepSolution:
        contacts = problem.contacts
        return viscous.solve(replace(problem, contacts=replace(contacts, damping=np.full(len(contacts), drag))), warm)

    return solve


def _key(what: str, name: str, mu: float | None = None) -> str:
    """Return a finding's key: slide_coulomb_lcp_mu_0125 for ``slide``, ``coulomb-lcp``, 0.125."""
    friction = "" if mu is None else "_mu_" + f"{mu:g}".replace(".", "")
    return f"{what}_{name.replace('-', '_')}{friction}"


def closed_form(config: Config, model: RampModel, mu: float | None) -> float:
    """Return the distance that the box slides in `duration_s` [m], 0 if it sticks.

    With Coulomb friction the distance is ``½ g (sin α - μ cos α) t²``, at least 0. With drag, the box approaches a
    final speed exponentially. `mu` is None without Coulomb friction.
    """
    slope, t = np.deg2rad(config.slope_deg), config.duration_s
    if model.friction == "drag":
        decay = config.mass_kg / (4.0 * config.drag_n_s_m)
        return float(GRAVITY * np.sin(slope) * decay * (t - decay * (1.0 - np.exp(-t / decay))))
    if mu is None:
        return 0.0
    return float(0.5 * GRAVITY * max(0.0, np.sin(slope) - mu * np.cos(slope)) * t**2)


def _distance(config: Config, model: RampModel, mu: float | None, key: str, slide: _Slide) -> Finding:
    """Check the distance of a sliding box to first order in h, or the creep speed of a sticking box."""
    exact = closed_form(config, model, mu)
    value = float(slide.distance[-1])
    if exact > 0.0:
        # h t a / 2 is the first-order error of stepping; in convex models a sliding contact also lifts by h μ v
        holds = abs(value - exact) <= 1.5 * config.step_s / config.duration_s * exact
    else:
        holds = abs(slide.speed) <= model.creep * (1.0 if mu is None else mu) * GRAVITY * config.step_s
    return Finding(key, value, holds=holds)


def _corner_force(config: Config, name: str, model: RampModel) -> Finding:
    """Return the mean normal force of the corners while the box sticks."""
    slope = np.deg2rad(config.slope_deg)
    exact = config.mass_kg * GRAVITY * np.cos(slope) / 4.0
    value = _slide(config, model, 2.0 * np.tan(slope)).corner_force
    return Finding(
        f"{_key('corner_force', name)}_n",
        value,
        # transients last a few steps: afterwards they are below a thousandth
        holds=abs(value - exact) <= 1e-3 * exact,
        beside=name == "constraint" and config == Config(plant=config.plant),
    )


def _threshold(config: Config, name: str, model: RampModel) -> Finding:
    """Check that the box slides with friction just below tan α, and sticks just above."""
    slope = np.deg2rad(config.slope_deg)
    below, above = (_slide(config, model, float(np.tan(slope)) + sign * THRESHOLD_OFFSET).speed for sign in (-1.0, 1.0))
    missing = THRESHOLD_OFFSET * GRAVITY * np.cos(slope) * config.duration_s
    creep = model.creep * np.tan(slope) * GRAVITY * config.step_s
    return Finding(
        f"{_key('speed_at_threshold', name)}_m_s",
        below,
        holds=abs(below - missing) <= 0.1 * missing + creep and abs(above) <= creep,
    )


def _hertz_depth(config: Config) -> Finding:
    """Check the depth of round feet at rest on an elastic half-space, by the constraint model with Hertz' law."""
    slope = np.deg2rad(config.slope_deg)
    law = constraint.hertz(MODULUS_PA, FOOT_RADIUS_M, damping=1.0)
    value = _slide(config, RampModel(solve=constraint.compliant(law)), 2.0 * np.tan(slope)).depth
    load = config.mass_kg * GRAVITY * np.cos(slope) / 4.0
    exact = (load / (4.0 / 3.0 * MODULUS_PA * np.sqrt(FOOT_RADIUS_M))) ** (2.0 / 3.0)
    return Finding(
        "hertz_depth_m",
        value,
        # the two lower feet carry more load, and depth grows as the 2/3 power of the load: the mean differs a little
        holds=abs(value - exact) <= 0.01 * exact,
    )


AS_PRINTED_MU = 0.125
"""Friction coefficient of the slide with the printed program: low enough that the box must slide."""


def _thrown(config: Config) -> Finding:
    """Return how far a box that should slide is lifted by the printed cone program (Drumwright 2019, eqs. 109-120)."""
    coarse = msgspec.structs.replace(config, step_s=max(config.step_s, Config().step_s))  # each step takes milliseconds
    model = constraint.compliant(constraint.NEARLY_RIGID, printed.solve)
    slide = _slide(coarse, RampModel(solve=model), AS_PRINTED_MU)
    return Finding("lift_constraint_as_printed_m", slide.lift)


def _ratio(slides: Mapping[str, Array]) -> Finding:
    """Return the distance at μ = 0.125 divided by the distance at μ = 0.25, by the paper's model."""
    longer, shorter = (float(slides[_key("slide", "constraint", mu) + "_m"][-1]) for mu in (0.125, 0.25))
    return Finding("slide_ratio_constraint", longer / shorter)


def _drawing(config: Config, models: Mapping[str, RampModel], t: Array, slides: Mapping[str, Array]) -> Drawing:
    """Draw distance against time: a colour for each friction, a line for each model, dots for the closed form."""
    with axes() as plot:
        dots = slice(len(t) // 20, None, max(1, len(t) // 10))
        for mu in config.frictions:
            model = RampModel(solve=coulomb.solve)
            exact = [closed_form(msgspec.structs.replace(config, duration_s=float(at)), model, mu) for at in t[dots]]
            color = plot.plot(t[dots], exact, "o", label=f"μ = {mu:g}")[0].get_color()
            for name, other in models.items():
                if other.friction == "coulomb":
                    plot.plot(t, slides[_key("slide", name, mu) + "_m"], color=color, linewidth=0.8)
        for name, other in models.items():
            if other.friction != "coulomb":
                plot.plot(t, slides[_key("slide", name) + "_m"], "--", label=name)
        plot.set(xlabel="time [s]", ylabel="distance [m]")
        plot.legend()
    return Drawing("Distance of the box", plot.figure)
