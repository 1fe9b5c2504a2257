"""Check that a robot can stand at home and on the stance feet of its gait: statics, and speed of tipping over."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
from scipy.optimize import linprog

from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System
from idcontrol.planners.gait import Gait
from idcontrol.robots.robot import Robot, foot_centres, legs
from idcontrol.robots.schema import DefaultGait
from idcontrol.types import Array, Booleans

GRAVITY = 9.81
"""Gravity [m/s²]."""
MU = 0.6
"""Friction coefficient with which a robot must be able to stand: rubber on a dry floor."""
LEAST_LEAN_RAD = 0.02
"""Lean that is assumed of every standing robot [rad]: no controller holds a base more still."""
MOST_LEAN_RAD = 0.15
"""Largest lean at the end of a stance [rad]; with more, the check predicts that the robot tips over."""
ON_EDGE = 1e-3
"""A centre of mass inside the support polygon, but closer to its edge than this, counts as on the edge [m].

For two feet `support_margin` is up to 0.2 mm too large, because it only samples `DIRECTIONS`."""
MOST_RADIUS = 0.5
"""Largest radius of a foot, as a share of the length of its leg; a larger foot would reach the knee."""
MOST_GROWTH = 100.0
"""Bound on the exponent of the growing lean; without it, a stance of hours would overflow."""
DIRECTIONS = np.stack([f(np.linspace(0.0, 2.0 * np.pi, 3600, endpoint=False)) for f in (np.cos, np.sin)])
"""Unit vectors in the plane, shape (2, 3600)."""


def problems(robot: Robot, system: System) -> list[str]:
    """Return the reasons why a robot with a floating base and feet cannot stand or walk, one line each.

    Args:
        robot: The robot; each of its feet is at the end of a leg.
        system: Multibody system of the robot; it is updated to the standing pose.
    """
    q = robot.standing_state(system).q
    system.update(q, np.zeros(system.n_velocities))
    com, centres = system.com(q), foot_centres(robot, system, q)
    if com[2] <= 0.0:
        return [
            f"home.joints_rad: the mass centre is {-com[2]:.2g} m below the feet; z points up, and the robot stands on "
            "its feet: turn it over, or fold its legs the other way"
        ]
    faults = [*_buried(robot, system), *_oversized(robot, system, centres)]
    gait, soles = robot.description.gait, robot.description.soles
    if faults or (gait is None and not soles):  # on points, a robot without a gait need not stand
        return faults
    margin = support_margin(centres[:, :2] - com[:2])
    if margin < (0.0 if soles else LEAST_LEAN_RAD * com[2]):
        where = f"{1e3 * abs(margin):.0f} mm {'inside' if margin > 0.0 else 'beyond'} the edge of"
        key, remedy = "soles", "change the home pose, or correct corners_m"
        if not soles:
            key, remedy = (
                "feet",
                "to stand on points, a robot needs three or more feet around it: change the home pose, or leave [gait] "
                "out",
            )
        return [f"{key}: the mass centre is {where} the support polygon; {remedy}"]
    share = torque_share(robot, system)
    if share > 1.0:
        return [
            f"limits.torque_nm: to carry {pin.computeTotalMass(system.model):.3g} kg at home takes {share:.2g} times "
            f"the torque limits on ground with friction {MU:g}; bend the legs less, or correct the limits or the masses"
        ]
    return [] if gait is None else _gait_problems(robot, system, com)


def _buried(robot: Robot, system: System) -> list[str]:
    """Return one line with the leg joints that are below the ground in the standing pose; no line without any."""
    height = {
        system.actuated_names[i]: float(
            system.data.oMi[system.model.getJointId(system.actuated_names[i])].translation[2]
        )
        for leg in legs(robot, system)
        for i in leg
    }
    low = {name: z for name, z in height.items() if z < 0.0}
    if not low:
        return []
    return [
        f"home.joints_rad: below the ground there, by up to {-1e3 * min(low.values()):.0f} mm: {', '.join(low)}; fold "
        "the legs the other way, or correct the feet's frames"
    ]


def _oversized(robot: Robot, system: System, centres: Array) -> list[str]:
    """Return one line with the feet that are too large for their legs; no line without any."""
    large = []
    for foot, centre, leg in zip(robot.spheres, centres, legs(robot, system), strict=True):
        joints = [system.data.oMi[system.model.getJointId(system.actuated_names[i])].translation for i in leg]
        length = sum(math.dist(a, b) for a, b in zip(joints, [*joints[1:], centre], strict=True))
        if foot.radius_m > MOST_RADIUS * length:
            large.append(f"{foot.name} has {foot.radius_m:g} m on a leg of {length:.2g} m")
    return [f"feet: radius_m beyond half of the leg: {', '.join(large)}; correct it"] if large else []


def support_margin(feet: Array) -> float:
    """Return the distance of the origin from the edge of the convex hull of points [m]; negative outside the hull.

    The distance is the minimum of the hull's support function.

    Args:
        feet: Points in the plane, shape (n, 2) [m].
    """
    return float((feet @ DIRECTIONS).max(axis=0).min())


def torque_share(robot: Robot, system: System) -> float:
    """Return the share of its torque limit that the most loaded joint needs at home; inf if rest is impossible.

    Contact forces are the best ones with the friction `MU`.

    Args:
        robot: The robot.
        system: Multibody system of the robot, updated at rest in the home pose.
    """
    contacts = robot.contacts(MU, system=system).detect(math.inf)
    return _torque_share(system, contacts, robot.torque_limit(system.actuated_names), slice(6))


def _torque_share(system: System, contacts: Contacts, limit: Array, rows: slice) -> float:
    """Return the share of its torque limit that the most loaded joint needs at rest; inf if rest is impossible.

    The contact forces f minimize this share s, by a linear program: min s, J_uᵀ f = c_u, |c_a - J_aᵀ f| <= s τ_max, f
    in circumscribed friction pyramids, |f_S| <= μ f_N and |f_T| <= μ f_N. They contain the friction cones, so s is not
    larger than with cones, and no robot that can rest is refused. Rows u belong to unactuated velocities, rows a to
    actuated velocities.

    Args:
        system: The machine at rest; c is its bias.
        contacts: The n stance feet.
        limit: Torque limits τ_max, shape (a,) [N m].
        rows: Unactuated rows that contact forces must balance: six for a base at rest, three if the base may rotate.
    """
    n, u, J = len(contacts), system.n_unactuated, contacts.jacobian
    across, c = -J[:, u:].T, system.bias[u:]
    pyramid = np.hstack([np.tile(-np.diag(contacts.mu), (4, 1)), np.vstack([np.kron(np.eye(2), np.eye(n))] * 2)])
    pyramid[2 * n :, n:] *= -1.0
    program = linprog(
        np.append(np.zeros(3 * n), 1.0),
        A_ub=np.vstack(
            [
                np.hstack([across, -limit[:, None]]),
                np.hstack([-across, -limit[:, None]]),
                np.hstack([pyramid, np.zeros((4 * n, 1))]),
            ]
        ),
        b_ub=np.concatenate([-c, c, np.zeros(4 * n)]),
        A_eq=np.hstack([J[:, :u].T[rows], np.zeros((u, 1))[rows]]),
        b_eq=system.bias[:u][rows],
        bounds=[(0.0, None)] * n + [(None, None)] * (2 * n) + [(0.0, None)],
    )
    return float(program.fun) if program.success else math.inf


def stances(gait: Gait) -> list[tuple[Booleans, float]]:
    """List the stances of a gait cycle in order; each has True for feet in stance, shape (n,), and a duration [s]."""
    touchdown = np.array(gait.touchdown)
    changes = np.unique(np.concatenate([touchdown, (touchdown + gait.duty) % 1.0]).round(9))
    lengths = np.diff(np.append(changes, changes[0] + 1.0))
    middles = changes + 0.5 * lengths
    return [
        ((middle - touchdown) % 1.0 < gait.duty, float(length * gait.period_s))
        for middle, length in zip(middles, lengths, strict=True)
    ]


def _gait_problems(robot: Robot, system: System, com: Array) -> list[str]:
    """Return one line if the robot tips over in a stance, or else if a stance exceeds torque limits; otherwise none.

    A point mass at height h, at the horizontal distance d from its support, tips by d/h (cosh(t √(g/h)) - 1) in time t.
    """
    default, names = robot.description.gait, [foot.name for foot in robot.spheres]
    assert default is not None  # this function is called only for robots that walk
    gait = Gait(
        period_s=default.period_s, duty=default.duty, touchdown=tuple(default.touchdown[name] for name in names)
    )
    contacts, limit = robot.contacts(MU, system=system).detect(math.inf), robot.torque_limit(system.actuated_names)
    height, most, needs = float(com[2]), (0.0, ""), (0.0, "")
    for stands, lasts in stances(gait):
        if not stands.any():  # a flight phase: the base falls as planned, and the next stance catches it
            continue
        on = " and ".join(name for name, one in zip(names, stands, strict=True) if one)
        carriers = contacts.take(np.flatnonzero(stands))
        margin = support_margin(carriers.point[:, :2] - com[:2])
        beside = max(-margin, 0.0)
        # no robot balances on a line or a point: assume at least the lean of every standing robot
        begins = max(beside / height, LEAST_LEAN_RAD) if margin < ON_EDGE else 0.0
        lean = begins * (math.cosh(min(lasts * math.sqrt(GRAVITY / height), MOST_GROWTH)) - 1.0)
        most = max(
            most, (lean, f"for {1e3 * lasts:.0f} ms on {on} alone, {1e3 * beside:.0f} mm beside its mass centre")
        )
        needs = max(needs, (_torque_share(system, carriers, limit, slice(3)), on))
    if most[0] > MOST_LEAN_RAD:
        return [
            f"gait: the robot is {most[1]}, and tips over; shorten gait.period_s, raise "
            "gait.duty, or have other feet land together"
        ]
    if needs[0] > 1.0:
        return [
            f"limits.torque_nm: on {needs[1]} alone the gait takes {needs[0]:.2g} times the torque limits; correct them"
        ]
    return _swings_beyond_hips(robot, system, default)


def _swings_beyond_hips(robot: Robot, system: System, gait: DefaultGait) -> list[str]:
    """Return one line for each length of a swing that exceeds the height of the lowest hip; no leg folds that far."""
    hip = min(
        float(system.data.oMi[system.model.getJointId(system.actuated_names[leg[0]])].translation[2])
        for leg in legs(robot, system)
    )
    swing_s = (1.0 - gait.duty) * gait.period_s
    return [
        f"gait.{key} = {value:g}: the feet {move} by {height:.2g} m, and the hips are {hip:.2g} m high; correct it"
        for key, value, move, height in (
            ("step_height_m", gait.step_height_m, "rise", gait.step_height_m),
            ("touchdown_speed_m_s", gait.touchdown_speed_m_s, "sink in a swing", gait.touchdown_speed_m_s * swing_s),
        )
        if height > hip
    ]


def implausible_inertias(robot: Robot, system: System) -> list[str]:
    """Return a warning for each moving body whose inertia is possible only for a body larger than the whole robot."""
    q = robot.standing_state(system).q
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    places = np.array([place.translation for place in data.oMf[1:]])
    size = float(np.linalg.norm(places[:, None] - places[None], axis=2).max())
    faults = []
    for name, body in zip(system.model.names[1:], system.model.inertias[1:], strict=True):
        gyration = math.sqrt(float(np.linalg.eigvalsh(body.inertia)[-1]) / body.mass) if body.mass > 0.0 else 0.0
        if gyration > size:
            faults.append(
                f"the body on joint {name} has the inertia of {body.mass:.3g} kg at a distance of {gyration:.2g} m, "
                f"but the robot is {size:.2g} m large; correct its <inertial>"
            )
    return faults
