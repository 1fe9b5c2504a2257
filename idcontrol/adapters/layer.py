"""A control step of n robots as a function of arrays, with its Jacobian, for frameworks with automatic differentiation.

The frameworks' functions are `idcontrol.adapters.torch.step` and `idcontrol.adapters.jax.step`.
"""

import numpy as np
import pinocchio as pin

from idcontrol.batch import Controllers, References
from idcontrol.errors import InputError
from idcontrol.types import Array


def require(inputs: tuple[object, ...]) -> None:
    """Raise `InputError` unless there are five inputs."""
    if len(inputs) != 5:
        raise InputError(f"a step has 5 inputs, not {len(inputs)}: q, v, and q, v, a of the joints' references")


def step(controllers: Controllers, inputs: tuple[Array, ...], references: References) -> tuple[Array, Array]:
    """Return torques (n, a) [N m] and contact forces (n, k, 3), world axes [N], of a first control step.

    The controllers forget their earlier steps, so the result depends on the arguments alone.

    Args:
        controllers: The controllers of n robots.
        inputs: Configurations (n, nq) and velocities (n, nv) in Pinocchio's layout, then reference positions,
            velocities and accelerations of the joints (n, a).
        references: Stance of the feet; its fields `q`, `v` and `a` are not used.

    Raises:
        InputError: An array has a wrong shape.
    """
    q, v, *joints = inputs
    controllers.reset()
    commands = controllers(0.0, q, v, _aimed(references, *joints))
    return commands.tau, commands.force


def jacobian(controllers: Controllers, inputs: tuple[Array, ...], references: References) -> tuple[Array, Array, Array]:
    """Return torques, contact forces and their Jacobian, shape (n, a + 3 k, nq + nv + 3 a).

    Arguments are as for `step`. The columns of q are derivatives with respect to all nq numbers of a configuration. A
    change that leaves the configuration space, such as a change of a quaternion's length, has the derivative zero.

    Raises:
        InputError: An array has a wrong shape, the state or reference of a robot is unusable, or the controllers have
            no derivative (`idcontrol.controllers.inverse.InverseDynamics.linearize`).
    """
    q, v, *joints = (np.asarray(one, dtype=np.float64) for one in inputs)
    controllers.reset()
    commands, derivatives = controllers.linearize(0.0, q, v, _aimed(references, *joints))
    slope = np.concatenate(
        [
            np.concatenate([derivatives.jacobian(of=of, by=by) for by in ("q", "v", "reference")], axis=2)
            for of in ("tau", "force")
        ],
        axis=1,
    )
    model, nv = controllers.model, v.shape[1]
    lifts = [np.linalg.pinv(pin.tangentMap(model, at)) for at in q]
    lifted = np.stack([row[:, :nv] @ lift for row, lift in zip(slope, lifts, strict=True)])
    return commands.tau, commands.force, np.concatenate((lifted, slope[:, :, nv:]), axis=2)


def _aimed(references: References, q: Array, v: Array, a: Array) -> References:
    """Return `references` with positions `q`, velocities `v` and accelerations `a` of the joints."""
    return references._replace(q=q, v=v, a=a)
