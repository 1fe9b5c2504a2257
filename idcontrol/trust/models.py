"""Measures the claims on contact models, on random steps: momentum, unilateral contact, cones, energy, inverses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap, specification, viscous
from idcontrol.models.step import ContactModel, StepProblem, StepSolution
from idcontrol.trust import contact_laws, machines, own_units
from idcontrol.trust.random_steps import hostile_step
from idcontrol.types import Status

MODELS: Final[dict[str, ContactModel]] = {
    "coulomb": coulomb.solve,
    "coulomb-cone": coulomb_cone.solve,
    "dissipation": dissipation.solve,
    "noslip": no_slip.solve,
    "sap": sap.solve,
    "constraint": constraint.compliant(constraint.springs(constraint.STIFFNESS, constraint.DAMPING), constraint.solve),
}
ATTACKED: Final[dict[str, tuple[ContactModel, int]]] = {
    "coulomb": (coulomb.solve, own_units.COULOMB),
    "coulomb_cone": (coulomb_cone.solve, own_units.CONE),
    "dissipation": (dissipation.solve, own_units.DISSIPATION),
    "viscous": (viscous.solve, own_units.VISCOUS),
    "no_slip": (no_slip.solve, own_units.NO_SLIP),
    "nearly_rigid": (constraint.solve_nearly_rigid, own_units.NEARLY_RIGID),
    "sap": (sap.solve, own_units.SAP),
}
"""Models that hostile problems attack, and their laws."""

STEPS: Final = 50
"""Number of random steps, forward and inverse each."""
HOSTILE: Final = 200
"""Number of hostile problems."""


def _steps(*, inverse: bool) -> Iterator[StepProblem]:
    for seed in range(STEPS):
        yield machines.walker_step(np.random.default_rng(seed), inverse=inverse)


def _answers(*names: str) -> Iterator[tuple[str, StepProblem, StepSolution]]:
    """Solutions of the models `names` for the same steps, forward and inverse."""
    for inverse in (False, True):
        for problem in _steps(inverse=inverse):
            for name in names:
                yield name, problem, MODELS[name](problem, None)


def lost_momentum() -> float:
    """Largest entry of M v⁺ + κ - Jᵀf - Pᵀ(hτ), relative to the terms that should cancel."""
    worst = []
    for _, problem, found in _answers(*MODELS):
        missing, size = contact_laws.unbalanced(problem, found), contact_laws.balanced_terms(problem, found)
        worst.append(np.abs(missing).max() / size.max())
    return float(np.max(worst))


def pull_or_penetration() -> float:
    """Largest pull, relative to the weight's impulse, or penetration speed [m/s], of the rigid models."""
    worst, weight = [], machines.WALKER_MASS * machines.G * machines.H
    for _, problem, found in _answers("coulomb", "coulomb-cone", "dissipation", "noslip"):
        contacts, f_n = problem.contacts, found.impulses[:, 0]
        opening = contacts.N @ found.v_plus + contacts.gap / problem.h
        worst += [-f_n.min() / weight, -opening.min()]
    return float(np.max(worst))


def outside_the_cone() -> float:
    """Largest friction beyond μ f_N, relative to the largest impulse or the weight's, of the models with friction."""
    worst, weight = [], machines.WALKER_MASS * machines.G * machines.H
    for _, problem, found in _answers("coulomb", "coulomb-cone", "dissipation", "sap", "constraint"):
        f = found.impulses
        excess = np.linalg.norm(f[:, 1:], axis=1) - problem.contacts.mu * f[:, 0]
        worst.append(excess.max() / max(np.abs(f).max(), weight))
    return float(np.max(worst))


def gained_energy() -> float:
    """Largest relative growth of the kinetic energy in a step in which only contact acts."""
    worst = []
    for seed in range(STEPS):
        rng = np.random.default_rng(seed)
        problem = machines.walker_step(rng, inverse=False)
        v = 0.3 * rng.normal(size=18)
        free = replace(problem, kappa=-problem.M @ v)
        before = v @ problem.M @ v
        for solve in MODELS.values():
            after = solve(free, None).v_plus
            worst.append(after @ problem.M @ after / before - 1.0)
    return float(np.max(worst))


def missed_way_back() -> float:
    """Largest difference in velocity [m/s] between an inverse step and the forward step under its torques."""
    worst = []
    for name in ("dissipation", "sap"):
        for problem in _steps(inverse=True):
            found = MODELS[name](problem, None)
            assert problem.prescribed is not None
            kappa = problem.kappa.copy()
            kappa[problem.prescribed.index] -= found.multipliers
            back = MODELS[name](replace(problem, kappa=kappa, prescribed=None), None)
            worst.append(np.abs(back.v_plus - found.v_plus).max())
    return float(np.max(worst))


def off_the_optimum() -> float:
    """Largest difference in velocity [m/s] from a general solver's optimum of the program that defines the model."""
    worst = []
    for inverse in (False, True):
        for seed in range(10):
            problem = machines.walker_step(np.random.default_rng(seed), inverse=inverse)
            ours, theirs = dissipation.solve(problem), specification.dissipation(problem)
            worst.append(np.abs(ours.v_plus - theirs.v_plus).max())
    return float(np.max(worst))


def unsolved() -> float:
    """Number of forward steps that a model does not solve; all of them have a solution."""
    count = 0
    for problem in _steps(inverse=False):
        count += sum(solve(problem, None).status is Status.FALLBACK for solve in MODELS.values())
    return float(count)


def unlawful() -> float:
    """Largest violation of its law by what a model calls solved, of hostile problems, each contact in its own units."""
    worst = []
    for number in range(HOSTILE):
        problem = hostile_step(number)
        for solve, law in ATTACKED.values():
            found = solve(problem, None)
            if found.status is Status.SOLVED:
                worst.append(own_units.violation(law, problem, found))
    return float(np.max(worst))
