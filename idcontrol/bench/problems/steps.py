"""Random step problems, forward and inverse: machines on feet, and boxes in a hand or in a pile."""

from typing import Final

import numpy as np

from idcontrol.bench.problems.piles import GRAVITY, WORLD, axes_about, random_pile
from idcontrol.contact.contacts import Contacts
from idcontrol.models.step import Prescribed, StepProblem
from idcontrol.types import Array

H: Final = 1e-3
"""Length of the step [s]."""
WORST_CONDITION: Final = 1e8
"""Largest condition number of the inertia matrix."""
MOST_FRICTION: Final = 1.5
MOST_DRAG: Final = 100.0
"""Largest viscous coefficient [N s/m]."""
DEMANDS: Final = ("consistent", "noisy", "arbitrary")
"""Prescribed velocities: consistent with all contacts; consistent up to noise of 1 mm/s; arbitrary."""


def kind_of(number: int) -> tuple[bool, bool]:
    """Return two flags of problem `number`: True if its machine stands on feet; True if the problem is inverse."""
    return number % 2 == 0, number // 2 % 2 == 1


def numbered_step(number: int, *, seed: int = 0, most_contacts: int = 64) -> StepProblem:
    """Return problem `number` of a suite; `random_step` gets log-uniform numbers of contacts, 1 to `most_contacts`."""
    rng = np.random.default_rng([seed, number])
    feet, inverse = kind_of(number)
    wanted = int(np.exp(rng.uniform(0.0, np.log(most_contacts + 1))))
    return random_step(rng, feet=feet, inverse=inverse, contacts=wanted)


def random_step(rng: np.random.Generator, *, feet: bool, inverse: bool, contacts: int) -> StepProblem:
    """Return a step of a machine on feet, or of boxes, with `contacts` contacts (boxes in a hand may have fewer).

    Gaps are zero or positive. Friction is zero, equal at all contacts, or different at each; it is at most 1.5. The
    condition number of the inertia is at most 1e8.
    """
    while True:
        problem = _feet(rng, contacts, inverse) if feet else _boxes(rng, contacts, inverse)
        if len(problem.contacts) and np.linalg.cond(problem.M) <= WORST_CONDITION:
            return problem


def _feet(rng: np.random.Generator, n: int, inverse: bool) -> StepProblem:
    """Return a step of a floating body with one to six three-joint legs; each rigid foot has one or more contacts."""
    legs = int(rng.integers(1, min(n, 6) + 1))
    m, light = 6 + 3 * legs, 10.0 ** -rng.uniform(0.5, 6.0)
    foot = np.column_stack((rng.uniform(-0.3, 0.3, (legs, 2)), np.full(legs, -0.3)))
    # twists of the body and of each foot: linear velocity at the centre, then angular; world axes
    twist = np.zeros((legs + 1, 6, m))
    twist[0, :, :6] = np.eye(6)
    for leg in range(legs):
        x, y, z = foot[leg]
        twist[leg + 1, :, :6] = np.eye(6)
        twist[leg + 1, :3, 3:6] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        twist[leg + 1, :, 6 + 3 * leg : 9 + 3 * leg] = np.vstack(
            (0.2 * rng.normal(size=(3, 3)), rng.normal(size=(3, 3)))
        )
    M, weight = np.zeros((m, m)), np.zeros(m)
    for part in range(legs + 1):
        mass, radius = (5.0, 0.15) if part == 0 else (5.0 * light, 0.04)
        M += twist[part].T @ np.diag([mass] * 3 + [mass * radius**2] * 3) @ twist[part]
        weight -= mass * GRAVITY * twist[part, 2]

    flat = rng.random() < 0.5
    owner = np.sort(np.concatenate((np.arange(legs), rng.integers(0, legs, n - legs))))
    point = foot[owner] + np.column_stack((rng.uniform(-0.03, 0.03, (n, 2)), np.zeros(n)))
    if rng.random() < 0.2:  # the same contact listed twice
        point[owner == owner[-1]] = point[-1]
    axes = np.empty((n, 3, 3))
    tilt = 0.0 if flat else rng.uniform(0.0, 0.5)
    for i in range(n):
        axes[i] = _tilted(rng, tilt)
    jacobian = np.empty((3, n, m))
    for i, part in enumerate(owner + 1):
        linear, angular = twist[part, :3], twist[part, 3:]
        arm = point[i] - foot[owner[i]]
        jacobian[:, i] = axes[i] @ (linear - np.cross(arm, angular, axisb=0, axisc=0))
    J = jacobian.reshape(3 * n, m)
    v = 0.3 * rng.normal(size=m)
    force = weight
    prescribed = None
    if inverse:
        prescribed = Prescribed(index=np.arange(6, m), velocity=_demand(rng, J, v)[6:])
    else:
        force[6:] += rng.normal(scale=5.0, size=m - 6)
    return _step(rng, M, force, v, point, axes, J, prescribed)


def _boxes(rng: np.random.Generator, n: int, inverse: bool) -> StepProblem:
    """Return boxes on each other, on the floor and against walls; in an inverse problem a hand may move some boxes."""
    bodies = int(rng.integers(1, min(n, 6) + 1))
    pile = random_pile(rng, bodies, n, 0, lightest=10.0 ** -rng.uniform(0.5, 6.0))
    v = pile.v + 0.3 * rng.normal(size=6 * bodies)
    contacts, prescribed = pile.contacts, None
    J = contacts.jacobian
    if inverse:
        held = rng.random(bodies) < 0.5
        held[rng.integers(bodies)] = bodies > 1
        held[rng.integers(bodies)] = False
        index = np.flatnonzero(np.repeat(held, 6))
        prescribed = Prescribed(index=index, velocity=_demand(rng, J, v)[index])
        # a contact between two prescribed bodies, or between a prescribed body and the world, cannot move any free body
        a, b = pile.pairs.T
        contacts = contacts.take(~(held[a] & ((b == WORLD) | held[b])))
        J = contacts.jacobian
    return _step(rng, pile.M, pile.force, v, contacts.point, contacts.axes, J, prescribed)


def _step(
    rng: np.random.Generator,
    M: Array,
    force: Array,
    v: Array,
    point: Array,
    axes: Array,
    jacobian: Array,
    prescribed: Prescribed | None,
) -> StepProblem:
    n = point.shape[0]
    mu, damping = rng.uniform(0.0, 1.0, (2, n)) * np.array([[MOST_FRICTION], [MOST_DRAG]])
    if rng.random() < 0.5:
        mu[:] = rng.uniform(0.0, MOST_FRICTION) if rng.random() < 0.8 else 0.0
    gap = np.where(rng.random(n) < 0.3, H * rng.uniform(0.0, 1.0, n), 0.0)
    contacts = Contacts(
        identity=np.arange(n), point=point, axes=axes, gap=gap, mu=mu, jacobian=jacobian, damping=damping
    )
    return StepProblem(h=H, M=M, kappa=-H * force - M @ v, contacts=contacts, prescribed=prescribed)


def _demand(rng: np.random.Generator, J: Array, v: Array) -> Array:
    """Return a random velocity, shape (m,), of one of the kinds in `DEMANDS`: v plus noise.

    Unless the kind is "arbitrary", its motion along the contact rows J is removed.
    """
    kind = DEMANDS[int(rng.integers(len(DEMANDS)))]
    wish: Array = v + 0.1 * rng.normal(size=v.size)
    if kind == "arbitrary":
        return wish
    wish = wish - np.linalg.pinv(J, rcond=1e-10) @ (J @ wish)
    return wish if kind == "consistent" else wish + 1e-3 * rng.normal(size=v.size)


def _tilted(rng: np.random.Generator, most: float) -> Array:
    """Return contact axes whose normal points up, tilted by at most `most` [rad]."""
    direction, tilt = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.0, most)
    normal = np.array([np.sin(tilt) * np.cos(direction), np.sin(tilt) * np.sin(direction), np.cos(tilt)])
    return axes_about(normal, np.cross([0.0, 1.0, 0.0], normal))


HOSTILE_FRICTION: Final = (0.0, 1e-9, 0.3, 0.6, 1.0, 1e6, np.inf)


def hostile_step(number: int, *, seed: int = 0) -> StepProblem:
    """Return problem `number` of a hostile suite, whose quantities differ by many orders of magnitude.

    A problem has one to twelve velocities; in every second problem some may be prescribed. Masses span up to twelve
    decades about a mean mass from 1e-6 kg to 1e6 kg. There are up to six contacts; some are repeated, opposed,
    collinear, or on immovable bodies. Gaps reach ±1e6 m; friction is from `HOSTILE_FRICTION`.
    """
    rng = np.random.default_rng([seed, number, 1])
    m, n, h = int(rng.integers(1, 13)), int(rng.integers(0, 7)), float(rng.choice([1e-4, 1e-3, 1e-2]))
    spread = rng.choice([0.0, 1.0, 6.0])
    size = 10.0 ** (0.5 * (rng.uniform(-spread, spread, m) + rng.uniform(-6.0, 6.0)))
    coupling = np.eye(m)
    if rng.random() < 0.6:
        mixed = rng.normal(size=(m, m)) + rng.choice([0.3, 3.0]) * np.eye(m)
        coupling = mixed @ mixed.T
        coupling /= np.sqrt(np.outer(np.diag(coupling), np.diag(coupling)))
    M = size[:, None] * coupling * size
    rows = rng.normal(size=(3, n, m))
    for i in range(n):
        if rng.random() < 0.5:  # a contact that involves only a few of the velocities
            rows[:, i] *= rng.random(m) < 2.0 / m
        kind = rng.random() if i else 1.0
        other = rows[:, rng.integers(i)] if i else rows[:, i]
        if kind < 0.1:
            rows[:, i] = other
        elif kind < 0.2:
            rows[:, i] = other * [[-1.0], [1.0], [-1.0]]
        elif kind < 0.3:
            rows[:, i] = rng.uniform(-2.0, 2.0) * other
        elif kind < 0.35:
            rows[0, i] = other[0]
    v = rng.normal(size=m) * 10.0 ** rng.uniform(-3.0, 2.0)
    force = rng.normal(size=m) * np.diag(M) * 10.0 ** rng.uniform(-1.0, 3.0)
    magnitude = 10.0 ** rng.uniform(-9.0, 6.0, n) * rng.choice([-1.0, 1.0], n)
    contacts = Contacts(
        identity=np.arange(n),
        point=np.zeros((n, 3)),
        axes=np.tile(np.eye(3), (n, 1, 1)),
        gap=np.where(rng.random(n) < 0.5, 0.0, magnitude),
        mu=rng.choice(HOSTILE_FRICTION, n),
        jacobian=rows.reshape(3 * n, m),
        damping=10.0 ** rng.uniform(-3.0, 6.0, n) * (rng.random(n) < 0.8),
        surface_velocity=rng.normal(size=3 * n) * rng.choice([0.0, 1.0]) * (np.arange(3 * n) >= n),
    )
    prescribed = None
    if number % 2:
        index = np.sort(rng.permutation(m)[: rng.integers(0, m)])
        wanted = np.where(rng.random() < 0.3, 0.0, rng.normal(size=index.size) * 10.0 ** rng.uniform(-3.0, 1.0))
        prescribed = Prescribed(index=index, velocity=wanted)
    return StepProblem(h=h, M=M, kappa=-h * force - M @ v, contacts=contacts, prescribed=prescribed)
