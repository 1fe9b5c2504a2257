"""Single bodies, stacks and chains in our time stepping, in MuJoCo and in Bullet, compared with textbook formulas."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.bench.problems import machines
from idcontrol.bench.problems.machines import chain
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.types import State
from tests.plants import bodies

G = 9.81
H = 1e-3
NO_JOINTS = np.zeros(0)
PEERS = ("coulomb-lcp", "mujoco", "pybullet")


def make(name: str, setup: plants.Setup) -> plants.SimulatedPlant:
    if name in ("mujoco", "pybullet"):
        pytest.importorskip(name)
    return plants.build(name, setup)


@pytest.mark.parametrize(("name", "miss"), [("coulomb-lcp", 5e-3), ("mujoco", 2e-2), ("pybullet", 5e-3)])
def test_a_thrown_block_slides_as_far_as_the_formula_says(name, miss):
    """The distance is v² / 2 μ g. Rigid contact shortens it by h v / 2 in the first step; MuJoCo's friction creeps."""
    mu, v = 0.4, 1.0
    plant = make(name, machines.sled(plane(), mu))
    plant.reset(machines.sled_state(v=np.array([v, 0, 0, 0, 0, 0])))
    for _ in range(400):
        state = plant.step(NO_JOINTS, H)
    assert state.q[0] == pytest.approx(v**2 / (2.0 * mu * G), rel=miss)
    # in MuJoCo a standing sled creeps below the cone
    assert np.abs(state.v[:2]).max() < 1e-3


@pytest.mark.parametrize(("name", "miss"), [("coulomb-lcp", 1e-3), ("mujoco", 1e-2), ("pybullet", 1e-2)])
def test_a_ball_thrown_without_spin_ends_rolling_at_five_sevenths_of_its_speed(name, miss):
    """The result does not depend on friction, because angular momentum about the line of contact is conserved."""
    plant = make(name, machines.ball(0.5))
    plant.reset(bodies.ball_at(0.0, np.array([1.0, 0, 0, 0, 0, 0])))
    for _ in range(200):
        state = plant.step(NO_JOINTS, H)
    turn = pin.Quaternion(state.q[6], *state.q[3:6]).matrix()
    speed, spin = turn @ state.v[:3], turn @ state.v[3:]
    assert speed[0] == pytest.approx(5.0 / 7.0, rel=miss)
    assert spin[1] * machines.BALL == pytest.approx(speed[0], rel=miss)
    assert np.abs(speed[1:]).max() < 1e-3


def falling_chain(name: str, h: float) -> np.ndarray:
    """Joint angles of a chain 0.2 s after its release."""
    system = chain(4)
    contacts = SphereContacts(system, ("hinge3",), 0.01, plane(), 0.5)
    plant = make(name, plants.Setup(system=system, contacts=contacts, dt=h))
    state = plant.reset(State(t=0.0, q=np.array([0.0, 0.3, 0.1, -0.4]), v=np.zeros(4)))
    for _ in range(round(0.2 / h)):
        state = plant.step(np.zeros(4), h)
    return state.q


@pytest.mark.parametrize("name", PEERS)
def test_a_falling_chain_goes_where_an_integrator_of_high_order_takes_it(name):
    """All simulators agree to rounding; extrapolation from two step lengths removes their first-order error."""
    from scipy.integrate import solve_ivp

    model = chain(4).model
    data = model.createData()

    def flow(_: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate((y[4:], pin.aba(model, data, y[:4], y[4:], np.zeros(4))))

    start = np.array([0.0, 0.3, 0.1, -0.4, 0.0, 0.0, 0.0, 0.0])
    exact = solve_ivp(flow, (0.0, 0.2), start, rtol=1e-10, atol=1e-12).y[:4, -1]
    whole, half, quarter = (falling_chain(name, h) for h in (1e-3, 5e-4, 2.5e-4))
    np.testing.assert_allclose(whole, falling_chain("coulomb-lcp", 1e-3), rtol=0, atol=1e-9)
    misses = [np.abs(q - exact).max() for q in (2.0 * half - whole, 2.0 * quarter - half)]
    # without its first-order part, the error falls with the square of the step
    assert misses[1] < 0.3 * misses[0]
    assert misses[1] < 1e-4
