"""Lagging joints: saturated motors with full torque (math.md, section 12.4)."""

import numpy as np
import pytest

from idcontrol.controllers.lagging import lagging
from idcontrol.controllers.step import SOLVED, drive
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import bind
from idcontrol.models.distribution import Bounds
from idcontrol.models.whitened import recover
from tests.controllers import walker

pytestmark = pytest.mark.interpreted

ROUNDING = 1e-7
"""Rounding errors: of velocities relative to the largest demand, of motor impulses relative to a motor's range."""


@pytest.fixture(scope="module")
def asked(quadruped):
    """Steps of a standing robot with feasible and infeasible demands for its motors, and their scheme."""
    control, rng = walker.controller(limit=1.2), np.random.default_rng(5)
    demands = [size * rng.normal(size=12) for size in np.geomspace(1.0, 1e3, 15)]
    state = walker.at_home(quadruped)
    return [control.problem(state, walker.stand(a=demand)) for demand in demands], control._scheme.solve


def solved(scheme, assembled, known):
    """Velocities and motor impulses of all joints, shapes (a,), of a step in which some motor impulses are known."""
    driven = drive(assembled, known, np.zeros(assembled.which.size, dtype=np.int64), HEAP)
    f = np.zeros(assembled.target.size)
    answer = scheme(bind(driven), f, HEAP)
    assert answer.ending == SOLVED
    impulse = known.copy()
    impulse[np.isnan(known)] = answer.impulse
    return recover(driven.w, f)[0][6:], impulse


def released(assembled, impulse, bounds):
    known = np.full(impulse.size, np.nan)
    return lagging(assembled.w, assembled.target, assembled.cones.mu, assembled.b, bounds, impulse, known, HEAP)


def test_joints_follow_within_bounds_or_lag_with_full_torque(asked):
    """The scheme's answer satisfies the conditions that make its motion unique."""
    steps, scheme = asked
    lagging, turned = 0, 0
    for assembled in steps:
        least, most = assembled.bounds
        _, tracking = solved(scheme, assembled, np.full(12, np.nan))
        known = released(assembled, tracking, assembled.bounds)
        v, impulse = solved(scheme, assembled, known)
        up, down = known == most, known == least
        assert (np.isnan(known) | up | down).all()
        assert (impulse >= least - ROUNDING * (most - least)).all()
        assert (impulse <= most + ROUNDING * (most - least)).all()
        rounding = ROUNDING * np.abs(assembled.b).max()
        assert (v[up] < assembled.b[up]).all()
        assert (v[down] > assembled.b[down]).all()
        np.testing.assert_allclose(v[np.isnan(known)], assembled.b[np.isnan(known)], rtol=0, atol=rounding)
        lagging += int((~np.isnan(known)).sum())
        turned += int((up & (tracking < 0.0)).sum() + (down & (tracking > 0.0)).sum())
    assert lagging > 25
    assert turned > 1  # motors that need full torque in the opposite direction


def test_joints_that_should_rest_count_as_following(quadruped):
    """If nothing is to move, rounding of tracked joints must not count as lagging."""
    control, rng = walker.controller(gains=walker.NO_FEEDBACK), np.random.default_rng(2)
    assembled, scheme = control.problem(walker.at_home(quadruped), walker.stand()), control._scheme.solve
    assert not assembled.b.any()
    _, tracking = solved(scheme, assembled, np.full(12, np.nan))
    lagging = 0
    for _ in range(12):
        room = np.abs(tracking).max() * rng.uniform(0.1, 2.0, 12)
        bounds = Bounds(-room, room)
        known = released(assembled, tracking, bounds)
        v, impulse = solved(scheme, assembled._replace(bounds=bounds), known)
        up, down = known == room, known == -room
        assert (np.abs(impulse) <= (1.0 + ROUNDING) * room).all()
        assert (v[up] < 1e-12).all()  # or the joint has full torque, and follows
        assert (v[down] > -1e-12).all()
        lagging += int((up | down).sum())
    assert lagging > 6


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_motor_with_one_bound_keeps_it(quadruped, side):
    control = walker.controller(gains=walker.NO_FEEDBACK)
    assembled, scheme = control.problem(walker.at_home(quadruped), walker.stand()), control._scheme.solve
    _, tracking = solved(scheme, assembled, np.full(12, np.nan))
    room, unlimited = np.full(12, 0.5 * (side * tracking).max()), np.full(12, np.inf)
    bounds = Bounds(-unlimited, room) if side > 0.0 else Bounds(-room, unlimited)
    known = released(assembled, tracking, bounds)
    _, impulse = solved(scheme, assembled._replace(bounds=bounds), known)
    assert (known == side * room).any()
    assert (side * impulse <= (1.0 + ROUNDING) * room).all()
