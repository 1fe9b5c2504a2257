"""Pinocchio's own contact solvers as a second opinion on forces, motion and torques.

`pin.ADMMConstraintSolver` solves rigid contact with round friction cones: while feet stick within the cone, it solves
the problem of our rigid models. `pin.PGSConstraintSolver` is not used: prescribed joints make the matrix singular, and
it did not converge in 20 000 sweeps.

`pin.contactInverseDynamics` solves a different problem: from the accelerations of all velocities, including the base,
it computes the force of each compliant contact, even if these forces do not carry the base. Our compliant model must
agree with it. Jacobians and contact placements must be computed before the call: otherwise Pinocchio 4.1 silently
assumes contacts at rest.
"""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System
from idcontrol.models import coulomb, dissipation, no_slip, sap
from idcontrol.models.sap.regularization import BETA, SIGMA, mean_inverse_mass, regularize
from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import Status
from tests import scenes
from tests.controllers import walker
from tests.parameters import solved

if not hasattr(pin, "ADMMConstraintSolver"):
    pytest.skip("Pinocchio has contact solvers from 4.0 on", allow_module_level=True)

MU = 0.7
STANCES = {"standing": (0, 1, 2, 3), "trotting": (0, 3)}
MODELS = {"coulomb": coulomb.solve, "dissipation": dissipation.solve, "no slip": no_slip.solve}


def moment(system: System, feet: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray, Contacts]:
    """A moving quadruped whose feet stand: configuration, velocity in our order, contacts; `system` is updated."""
    rng = np.random.default_rng(seed)
    q = pin.integrate(system.model, walker.at_home(system).q, 0.05 * rng.normal(size=18))
    system.update(q, np.zeros(18))
    v = held(scenes.foot_contacts(system, MU, feet=feet), 0.3 * rng.normal(size=18))
    system.update(q, system.to_pinocchio(v))
    return q, v, scenes.foot_contacts(system, MU, feet=feet)


def held(contacts: Contacts, v: np.ndarray) -> np.ndarray:
    """The velocity nearest to v at which no contact moves."""
    return v - np.linalg.pinv(contacts.jacobian) @ (contacts.jacobian @ v)


def demand(v: np.ndarray, contacts: Contacts) -> np.ndarray:
    """Joint velocities, shape (12,), with which the feet can stand, for random accelerations of about 5 m/s²."""
    rng = np.random.default_rng(7)
    return held(contacts, v + scenes.H * 5.0 * rng.normal(size=18))[6:]


def by_contact(n: int) -> np.ndarray:
    """Indices that reorder our blocks [N; S; T] as in Pinocchio: (S, T, N) of the first contact, then of the next."""
    first = np.arange(n)
    return np.column_stack((n + first, 2 * n + first, first)).ravel()


def points(
    system: System, q: np.ndarray, contacts: Contacts
) -> tuple[list[pin.PointContactConstraintModel], list[pin.PointContactConstraintData]]:
    """The contacts as constraint models of Pinocchio: ground first, then foot, with the normal along z."""
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    models = []
    for foot, point, axes in zip(contacts.identity, contacts.point, contacts.axes, strict=True):
        joint = int(system.model.frames[system.frame(scenes.FEET[foot])].parentJoint)
        world = pin.SE3(np.ascontiguousarray(axes[[1, 2, 0]].T), point)
        model = pin.PointContactConstraintModel(system.model, 0, world, joint, data.oMi[joint].actInv(world))
        model.setFriction(MU)
        models.append(model)
    return models, [model.createData() for model in models]


def admm(system: System, q: np.ndarray, problem: StepProblem) -> np.ndarray:
    """Contact impulses by Pinocchio's ADMM, rows (N, S, T), shape (n, 3)."""
    reduction, n = whiten(problem), len(problem.contacts)
    order = by_contact(n)
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for model, data in zip(*points(system, q, problem.contacts), strict=True):
        models.append(pin.ConstraintModel(model))
        datas.append(pin.ConstraintData(data))
    rows = reduction.rho[order]
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = 1e-11
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 1e-11
    settings.max_iterations = 10_000
    delassus = pin.DelassusOperatorDense(np.asfortranarray(rows @ rows.T))
    assert pin.ADMMConstraintSolver(3 * n).solve(delassus, reduction.c[order], models, datas, settings, result)
    return result.retrieveConstraintImpulses().reshape(n, 3)[:, [2, 0, 1]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("feet", STANCES.values(), ids=STANCES)
def test_our_rows_are_pinocchios_contact_jacobian(feet, seed):
    system = scenes.links()
    q, _, contacts = moment(system, feet, seed)
    data = system.model.createData()
    pin.computeJointJacobians(system.model, data, q)
    rows = []
    for model, place in zip(*points(system, q, contacts), strict=True):
        model.calc(system.model, data, place)
        rows.append(model.jacobian(system.model, data, place))
    theirs = np.vstack(rows)[:, system.order]
    np.testing.assert_allclose(contacts.jacobian[by_contact(len(feet))], theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("feet", STANCES.values(), ids=STANCES)
@pytest.mark.parametrize("name", MODELS)
def test_pinocchio_admm_finds_the_same_motion_total_force_and_torques(name, feet, seed):
    """Torques agree as far as the motion decides them; each solver chooses how the feet press against each other."""
    system = scenes.links()
    q, v, contacts = moment(system, feet, seed)
    problem = inverse_step(system, v, demand(v, contacts), contacts)
    ours, theirs = MODELS[name](problem, None), admm(system, q, problem)
    assert ours.status is Status.SOLVED
    J = contacts.jacobian
    momentum = J.T @ (theirs - ours.impulses).T.ravel()
    weight = walker.WEIGHT * scenes.H
    # the no-slip model's rank tolerance and the ADMM's stopping rule leave a millionth of the weight
    np.testing.assert_allclose(momentum[:6], 0.0, rtol=0, atol=1e-6 * weight)
    np.testing.assert_allclose(theirs.sum(axis=0), ours.impulses.sum(axis=0), rtol=0, atol=1e-6 * weight)
    after = np.linalg.solve(
        problem.M[:6, :6], J[:, :6].T @ theirs.T.ravel() - problem.kappa[:6] - problem.M[:6, 6:] @ ours.v_plus[6:]
    )
    np.testing.assert_allclose(after, ours.v_plus[:6], rtol=0, atol=1e-8)
    # h τ = multipliers = M v⁺ + κ - Jᵀ f, so they differ only by forces that the base does not feel
    unfelt = np.linalg.svd(J[:, :6].T)[2][np.linalg.matrix_rank(J[:, :6], tol=1e-9) :]
    loops = J[:, 6:].T @ unfelt.T
    torques = momentum[6:] - loops @ np.linalg.lstsq(loops, momentum[6:], rcond=1e-9)[0]
    np.testing.assert_allclose(torques, 0.0, rtol=0, atol=1e-6 * weight)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("feet", STANCES.values(), ids=STANCES)
def test_pinocchio_admm_under_our_torques_finds_each_predicted_force(feet, seed):
    """In forward dynamics, with all joints free, the force at each foot is unique."""
    system = scenes.links()
    q, v, contacts = moment(system, feet, seed)
    asked = demand(v, contacts)
    predicted = solved(dissipation.solve(inverse_step(system, v, asked, contacts), None))
    problem = forward_step(system, v, predicted.multipliers, contacts)
    theirs = admm(system, q, problem)
    np.testing.assert_allclose(theirs, predicted.impulses, rtol=0, atol=1e-6 * walker.WEIGHT * scenes.H)
    after = np.linalg.solve(problem.M, contacts.jacobian.T @ theirs.T.ravel() - problem.kappa)
    np.testing.assert_allclose(after[6:], asked, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("speed", [0.0, 1.0], ids=["feet that stand", "feet that slide and part"])
@pytest.mark.parametrize("feet", STANCES.values(), ids=STANCES)
def test_pinocchio_contact_inverse_dynamics_agrees_with_the_compliant_model(feet, speed, seed):
    """Forces that Pinocchio computes from the motion carry the base, although it does not require this."""
    system = scenes.links()
    q, v, contacts = moment(system, feet, seed)
    v = v + speed * np.random.default_rng(seed + 10).normal(size=18)
    system.update(q, system.to_pinocchio(v))
    problem = inverse_step(system, v, v[6:], contacts)
    ours = solved(sap.solve(problem))
    n, inertia = len(contacts), np.linalg.cholesky(problem.M)
    w = mean_inverse_mass(np.ascontiguousarray(np.linalg.solve(inertia, contacts.jacobian.T).T), n)
    data, acceleration = system.model.createData(), system.to_pinocchio(ours.v_plus - v) / scenes.H
    # Pinocchio's acceleration includes the rotation of the body's axes, v⁺ - v does not
    acceleration[:3] -= np.cross(v[3:6], v[:3])
    turned = contacts.jacobian @ (ours.v_plus - v - scenes.H * system.from_pinocchio(acceleration))
    pin.computeJointJacobians(system.model, data, q)
    correction = turned[by_contact(n)].reshape(n, 3)
    models, datas = pin.StdVec_PointContactConstraintModel(), pin.StdVec_PointContactConstraintData()
    for i, (model, place) in enumerate(zip(*points(system, q, contacts), strict=True)):
        physical = contacts.gap[i], contacts.stiffness[i], contacts.damping[i]
        R_n, R_t, v_hat = regularize(scenes.H, w[i], *physical, BETA, SIGMA)
        model.setCompliance(np.array([R_t, R_t, R_n]))
        model.calc(system.model, data, place)
        correction[i, 2] -= v_hat
        models.append(model)
        datas.append(place)
    converged, torque, forces = pin.contactInverseDynamics(
        system.model,
        data,
        q,
        system.to_pinocchio(v),
        acceleration,
        scenes.H,
        models,
        datas,
        correction.ravel(),
        pin.ProximalSettings(1e-13, 1e-13, 1e-4, 10_000),
        None,
        False,  # the convex law, as in our model
    )
    assert converged
    predicted = ours.impulses / scenes.H
    # forces are velocities over a compliance of about 1e-3, so 1e-12 in velocity is 1e-9 in force
    most = max(np.abs(predicted).max(), walker.WEIGHT)
    np.testing.assert_allclose(forces.reshape(n, 3)[:, [2, 0, 1]], predicted, rtol=0, atol=1e-6 * most)
    np.testing.assert_allclose(torque[system.order][:6], 0.0, rtol=0, atol=1e-6 * most)
    np.testing.assert_allclose(torque[system.order][6:], ours.multipliers / scenes.H, rtol=0, atol=1e-6 * most)
