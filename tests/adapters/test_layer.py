"""A control step as a function of arrays: its Jacobian, and its gradients in PyTorch and JAX."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.adapters import layer
from idcontrol.batch import Controllers, References
from idcontrol.errors import InputError

pytestmark = pytest.mark.interpreted
ROBOT = robots.load("links")
RNG = np.random.default_rng(4)
TURN = RNG.normal(scale=0.02, size=(2, 6))


@pytest.fixture(scope="module")
def controllers():
    return Controllers("id-coulomb-qp", ROBOT, 2, mu=0.7, threads=1)


@pytest.fixture(scope="module")
def inputs(controllers):
    """Two robots that stand and move slowly; the second stands on three feet."""
    start, home = ROBOT.standing_state(), ROBOT.standing_reference().q
    a = home.size
    turns = np.hstack((np.zeros((2, 3)), [[0.0, 0.0, 0.4], [0.0, 0.0, -1.1]], RNG.normal(scale=0.002, size=(2, a))))
    q = np.stack([pin.integrate(controllers.model, start.q, turn) for turn in turns])
    v = 0.003 * RNG.normal(size=(2, 6 + a))
    joints = home + 0.003 * RNG.normal(size=(2, a)), 0.01 * RNG.normal(size=(2, a)), RNG.normal(size=(2, a))
    return q, v, *joints


@pytest.fixture(scope="module")
def references(inputs):
    stance = References.standing(inputs[2], feet=4)
    return stance._replace(stance=np.array([[True] * 4, [True, True, True, False]]))


@pytest.fixture(scope="module")
def weight(controllers):
    """Weights of a scalar function of torques and forces."""
    return RNG.normal(size=(2, 12)), RNG.normal(size=(2, 4, 3))


def changed(controllers, inputs, moves, size):
    q = np.stack(
        [pin.integrate(controllers.model, at, size * move) for at, move in zip(inputs[0], moves[0], strict=True)]
    )
    return q, *(one + size * move for one, move in zip(inputs[1:], moves[1:], strict=True))


def test_rows_change_as_the_jacobian_says(controllers, inputs, references):
    """Also along the rotation of the base, whose quaternion is not a vector."""
    moves = [RNG.normal(size=(2, 18)), *(RNG.normal(size=one.shape) for one in inputs[1:])]
    tau, force, slope = layer.jacobian(controllers, inputs, references)
    size = 1e-5
    after, before = (
        layer.step(controllers, changed(controllers, inputs, moves, sign * size), references) for sign in (1.0, -1.0)
    )
    measured = [(one - other) / (2.0 * size) for one, other in zip(after, before, strict=True)]
    ambient = np.stack(
        [pin.tangentMap(controllers.model, q) @ move for q, move in zip(inputs[0], moves[0], strict=True)]
    )
    derived = np.einsum("nop,np->no", slope, np.hstack((ambient, *moves[1:])))
    np.testing.assert_allclose(derived[:, :12], measured[0], atol=1e-5 * np.abs(measured[0]).max())
    np.testing.assert_allclose(derived[:, 12:], measured[1].reshape(2, -1), atol=1e-5 * np.abs(measured[1]).max())
    for one, other in zip(layer.step(controllers, inputs, references), (tau, force), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not slope[1, 21:].any()  # the fourth foot of the second robot


def test_rows_have_derivatives_by_loads_and_normals_on_demand(controllers, inputs, references):
    q, v, *joints = inputs
    _, rows = controllers.linearize(0.0, q, v, layer._aimed(references, *joints), loads=True)
    by_normal = rows.jacobian(of="force", by="normal")
    assert by_normal.shape == (2, 12, 8)
    assert by_normal[0, :, 6:].any()
    assert not by_normal[1, :, 6:].any()  # the fourth foot of the second robot
    # feet that stick bear 1 N less for each newton that pushes the base upwards
    by_load = rows.jacobian(of="force", by="load")[:, 2::3, 2].sum(axis=1)
    np.testing.assert_allclose(by_load, -1.0, atol=1e-9)


def expected(controllers, inputs, references, weight):
    """Gradient of the scalar function by all inputs."""
    slope = layer.jacobian(controllers, inputs, references)[2]
    pulled = np.einsum("no,nop->np", np.hstack((weight[0], weight[1].reshape(2, -1))), slope)
    return np.split(pulled, np.cumsum([one.shape[1] for one in inputs])[:-1], axis=1)


def test_torch_gives_the_gradient(controllers, inputs, references, weight):
    torch = pytest.importorskip("torch")
    from idcontrol.adapters.torch import step

    tensors = [torch.tensor(one, requires_grad=True) for one in inputs]
    tau, force = step(controllers, references, *tensors)
    ((tau * torch.tensor(weight[0])).sum() + (force * torch.tensor(weight[1])).sum()).backward()
    for one, other in zip(tensors, expected(controllers, inputs, references, weight), strict=True):
        np.testing.assert_allclose(one.grad.numpy(), other, rtol=1e-12, atol=1e-9)
    plain, _ = step(controllers, references, *(one.detach().float() for one in tensors))
    assert plain.dtype == torch.float32
    assert not plain.requires_grad


def test_jax_gives_the_gradient_inside_jit(controllers, inputs, references, weight):
    jax = pytest.importorskip("jax")
    from idcontrol.adapters.jax import step

    def cost(*arrays):
        tau, force = step(controllers, references, *arrays)
        return (tau * weight[0]).sum() + (force * weight[1]).sum()

    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(cost, argnums=tuple(range(5))))(*inputs)
    for one, other in zip(gradients, expected(controllers, inputs, references, weight), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-9)


def test_a_missing_input_is_named():
    with pytest.raises(InputError, match="a step has 5 inputs, not 1: q, v"):
        layer.require((0.0,))


def test_an_unusable_row_is_named(controllers, inputs, references):
    q = inputs[0].copy()
    q[1, 0] = np.nan
    with pytest.raises(InputError, match="row 1: "):
        layer.jacobian(controllers, (q, *inputs[1:]), references)
