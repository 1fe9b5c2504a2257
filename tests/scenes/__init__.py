"""Scenes that several tests share: a quadruped in a random moving state with contacts at its feet."""

from pathlib import Path

import numpy as np
import pinocchio as pin

from idcontrol.bench.problems import machines
from idcontrol.contact.contacts import Contacts, contact_rows
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.models.step import Prescribed, StepProblem

LINKS = Path(__file__).parents[2] / "robots" / "links" / "links.urdf"
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
HOME = np.array([0.1, 0.8, 1.2, -0.1, -0.8, -1.2, -0.1, -0.8, -1.2, 0.1, 0.8, 1.2])
RADIUS = 0.01
HEIGHT = 0.161852703 + RADIUS
H = machines.H


class ThreeFeet(SphereContacts):
    """Foot spheres with an override that never lists the last foot."""

    def detect(self, margin):
        candidates = super().detect(margin)
        return candidates.take(candidates.identity != 3)


def links() -> System:
    """The paper's quadruped."""
    return System.from_urdf(LINKS, free_flyer=True)


def home(system: System) -> np.ndarray:
    """Standing with all feet just touching z = 0."""
    return system.configuration(HOME, np.array([0, 0, HEIGHT, 0, 0, 0, 1.0]))


def axes_of(normal: np.ndarray, angle: float = 0.0) -> np.ndarray:
    """Right-handed rows normal, first, second tangent."""
    first = np.array([1.0, 0.0, 0.0]) - normal[0] * normal
    first /= np.linalg.norm(first)
    second = np.cross(normal, first)
    s = np.cos(angle) * first + np.sin(angle) * second
    return np.array([normal, s, np.cross(normal, s)])


def foot_contacts(
    system: System,
    mu: float | np.ndarray,
    *,
    normals: np.ndarray | None = None,
    gap: np.ndarray | None = None,
    feet: tuple[int, ...] = (0, 1, 2, 3),
    angle: float = 0.0,
) -> Contacts:
    """Contacts at the feet of `system` (which has been updated), level and closed by default."""
    frames = np.array([system.frame(FEET[i]) for i in feet])
    n = len(feet)
    normals = np.tile([0.0, 0.0, 1.0], (n, 1)) if normals is None else normals
    axes = np.array([axes_of(normal, angle) for normal in normals]).reshape(n, 3, 3)
    point = system.frame_position[frames] - RADIUS * normals
    jacobian = np.empty((3 * n, system.n_velocities))
    contact_rows(
        system.jacobian, system.support, system.frame_joint[frames], np.zeros(n, dtype=np.int64), point, axes, jacobian
    )
    return Contacts(
        identity=np.array(feet, dtype=np.int64),
        point=point,
        axes=axes,
        gap=np.zeros(n) if gap is None else gap,
        mu=np.broadcast_to(np.asarray(mu, float), (n,)).copy(),
        jacobian=jacobian,
    )


def by_hand(jacobian: np.ndarray, mu: float | np.ndarray, gap: float | np.ndarray = 0.0, **more: object) -> Contacts:
    """Contacts with rows [N; S; T] written by hand; points at the origin, axes of the world, unless `more` says."""
    n = len(jacobian) // 3
    place = {"identity": np.arange(n), "point": np.zeros((n, 3)), "axes": np.tile(np.eye(3), (n, 1, 1))}
    scalars = {"mu": mu, "gap": gap} | {name: more.pop(name) for name in ("stiffness", "damping") if name in more}
    each = {name: np.broadcast_to(np.asarray(value, float), n).copy() for name, value in scalars.items()}
    return Contacts(**place | more, **each, jacobian=jacobian)


def tilted(rng: np.random.Generator, n: int, most: float) -> np.ndarray:
    """Unit normals, tilted at random by up to `most` radians."""
    direction, tilt = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, most, n)
    return np.column_stack((np.sin(tilt) * np.cos(direction), np.sin(tilt) * np.sin(direction), np.cos(tilt)))


def moving(system: System, rng: np.random.Generator, speed: float = 0.5) -> np.ndarray:
    """Update `system` to a random state near home; returns the velocity in our order."""
    q = pin.integrate(system.model, home(system), 0.15 * rng.normal(size=system.model.nv))
    v = speed * rng.normal(size=system.model.nv)
    system.update(q, v)
    return system.from_pinocchio(v)


def squeeze(mu: float, closing: float = 0.1) -> StepProblem:
    """A body between two fingers that are to close on it at `closing` [m/s] each (math.md 5.1).

    Velocities: x, y, z of the body, x of the left and of the right finger; all masses are 1 kg.
    """
    left, right = np.array([1.0, 0, 0, -1.0, 0]), np.array([-1.0, 0, 0, 0, 1.0])
    y, z = np.eye(5)[1], np.eye(5)[2]
    contacts = Contacts(
        identity=np.array([0, 1]),
        point=np.zeros((2, 3)),
        axes=np.array([np.eye(3), np.diag([-1.0, -1.0, 1.0])]),
        gap=np.zeros(2),
        mu=np.full(2, mu),
        jacobian=np.array([left, right, y, -y, z, z]),
    )
    return StepProblem(
        h=1e-3,
        M=np.eye(5),
        kappa=np.array([0.0, 0.0, 9.81e-3, 0.0, 0.0]),
        contacts=contacts,
        prescribed=Prescribed(index=np.array([3, 4]), velocity=np.array([closing, -closing])),
    )
