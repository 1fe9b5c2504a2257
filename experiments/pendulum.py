"""A pendulum whose joint is a spring of 10¹⁵ N/m (Drumwright 2019, section 4.4, Fig. 4; math.md, section 11.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.contact.contacts import Contacts
from idcontrol.experiments.case import GRAVITY, Case, Progress, order, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import constraint
from idcontrol.models.constraint import printed
from idcontrol.models.step import StepProblem
from idcontrol.types import Array


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case; the paper prints neither mass nor length of the pendulum.

    Attributes:
        stiffness_n_m: Stiffness K of the joint.
        damping_n_s_m: Damping B of the joint.
        steps_s: Step sizes, from coarse to fine.
        duration_s: Length of each run.
        mass_kg: Mass of the bob.
        length_m: Distance from the joint to the bob's centre of mass.
        inertia_kg_m2: Moment of inertia of the bob about its centre of mass.
        form: Equations of the compliant joint: ``compliance`` as in the solver, or ``as-printed`` as in Drumwright
            2019, eqs. 53, 61, 62.
    """

    stiffness_n_m: Positive = 1e15
    damping_n_s_m: NotNegative = 1.0
    steps_s: tuple[Positive, ...] = (1e-1, 1e-2, 1e-3, 1e-4)
    duration_s: Duration = 1.0
    mass_kg: Positive = 1.0
    length_m: Positive = 1.0
    inertia_kg_m2: Positive = 0.1
    form: Literal["compliance", "as-printed"] = "compliance"


def run(config: Config, progress: Progress) -> Results:
    """Let the pendulum swing with each step size."""
    swings: dict[float, Swing] = {}
    for done, h in enumerate(config.steps_s):
        swings[h] = swing(config, h)
        progress((done + 1) / len(config.steps_s))
    finest = swings[min(swings)]
    findings = [finding for h, one in swings.items() for finding in _of_one(config, h, one)]
    return Results(
        findings=findings + (_orders(swings) if len(swings) > 1 else []),
        series={
            "t": Series(finest.t, "s"),
            "joint_error_m": Series(finest.joint_error, "m"),
            "energy_j": Series(finest.energy, "J"),
        },
        drawings=[_drawing(swings)],
    )


experiment = Case(
    name="pendulum",
    summary="a pendulum on a joint of 1e15 N/m: position error and energy drift (Drumwright 2019)",
    presets={"default": Config(), "as-printed": Config(form="as-printed")},
    simulate=run,
    rehearsals=lambda: [Config(steps_s=(0.1,))],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """The motion with one step size.

    Attributes:
        t: Ends of the steps, shape (steps,) [s].
        joint_error: Distance between the joint's two points, shape (steps,) [m].
        energy: Kinetic plus potential energy, zero at the start, shape (steps,) [J].
    """

    t: Array
    joint_error: Array
    energy: Array


def swing(config: Config, h: float) -> Swing:
    """Release the pendulum, horizontal and at rest; coordinates x, y, θ of the bob, the joint at the origin."""
    m = config.mass_kg
    M = np.diag([m, m, config.inertia_kg_m2])
    weight = np.array([0.0, -m * GRAVITY, 0.0])
    to_joint = np.array([0.0, config.length_m])  # u of Drumwright 2019, eq. 64, in the bob's axes
    q, v = np.array([config.length_m, 0.0, 0.5 * np.pi]), np.zeros(3)
    steps = max(1, round(config.duration_s / h))
    opened, energy = np.empty(steps), np.empty(steps)
    nothing = Contacts.none(3)
    for step in range(steps):
        arm = _turn(q[2]) @ to_joint
        G = np.array([[1.0, 0.0, -arm[1]], [0.0, 1.0, arm[0]]])
        phi = q[:2] + arm
        if config.form == "compliance":
            joint = constraint.spring_rows(G, phi, h, config.stiffness_n_m, config.damping_n_s_m)
            v = constraint.solve(
                StepProblem(h=h, M=M, kappa=-M @ v - h * weight, contacts=nothing, bilateral=joint)
            ).v_plus
        else:
            force = printed.bilateral_force(
                G @ np.linalg.solve(M, G.T),
                phi,
                G @ v,
                G @ np.linalg.solve(M, weight),
                -arm * v[2] ** 2,  # Ġ v
                h,
                config.stiffness_n_m,
                config.damping_n_s_m,
            )
            v = v + h * np.linalg.solve(M, G.T @ force + weight)
        q = q + h * v
        opened[step] = np.linalg.norm(q[:2] + _turn(q[2]) @ to_joint)
        energy[step] = 0.5 * v @ M @ v + m * GRAVITY * q[1]
    return Swing(t=step_ends(h, steps), joint_error=opened, energy=energy)


def _turn(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def _of_one(config: Config, h: float, swing: Swing) -> list[Finding]:
    """Return the findings about joint and energy at one step size."""
    # The step linearizes the joint: a rotation by ω h opens it by (ω h)² / 2 of the pendulum's length, where ω² is at
    # most 2 g / length.
    most = GRAVITY * h * h
    fall = config.mass_kg * GRAVITY * config.length_m
    lost = float(np.abs(swing.energy).max())
    return [
        Finding(f"joint_error_h_{h:g}_m", swing.joint_error.max(), holds=swing.joint_error.max() <= 2.0 * most),
        Finding(
            f"energy_error_h_{h:g}_j",
            lost,
            # first order: the relative energy error equals the rotation in a step; the energy of the fall is m g times
            # length
            holds=lost <= 5.0 * h / np.sqrt(config.length_m / GRAVITY) * fall,
        ),
    ]


def _orders(swings: Mapping[float, Swing]) -> list[Finding]:
    """Return findings: the powers of h with which the joint's error and the energy's error shrink."""
    joint = order({h: one.joint_error.max() for h, one in swings.items()})
    energy = order({h: np.abs(one.energy).max() for h, one in swings.items()})
    return [
        Finding("joint_order", joint, holds=abs(joint - 2.0) < 0.1),
        Finding("energy_order", energy, holds=abs(energy - 1.0) < 0.2),
    ]


def _drawing(swings: Mapping[float, Swing]) -> Drawing:
    with axes(columns=2) as (opened, energy):
        for h, one in swings.items():
            opened.semilogy(one.t, one.joint_error, label=f"h = {h:g} s")
            energy.plot(one.t, one.energy, label=f"h = {h:g} s")
        opened.set(xlabel="time [s]", ylabel="opening of the joint [m]")
        opened.legend(fontsize="x-small")
        energy.set(xlabel="time [s]", ylabel="energy [J]")
        energy.figure.tight_layout()
    return Drawing("The joint opens by h², the energy errs by h", energy.figure)
