"""A control step of n robots as a function of JAX arrays, with its gradient; also inside ``jax.jit``."""

from functools import partial
from typing import Any

import numpy as np

from idcontrol.adapters import layer
from idcontrol.batch import Controllers, References
from idcontrol.errors import InputError, install_command

try:
    import jax
except ImportError:
    raise InputError(f"this adapter needs the package jax; {install_command('jax')}") from None


def step(controllers: Controllers, references: References, *inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return torques (n, a) [N m] and contact forces (n, k, 3) [N] of a first step, differentiable by all inputs.

    Forces are in world axes; k is `Controllers.contacts`. If a robot's step relaxes tracking, its gradient is zero.

    Args:
        controllers: The controllers of n robots; they forget their earlier steps.
        references: Stance of the feet; its fields `q`, `v` and `a` are not used.
        *inputs: Arrays of one type: configurations (n, nq) and velocities (n, nv) in Pinocchio's layout, then reference
            positions, velocities and accelerations of the joints (n, a).

    Raises:
        InputError: There are not five inputs.
    """
    layer.require(inputs)
    tau, force = _step(controllers, references, inputs)
    return tau, force


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _step(controllers: Controllers, references: References, inputs: tuple[jax.Array, ...]) -> Any:
    return _call(layer.step, controllers, references, inputs)


def _forward(controllers: Controllers, references: References, inputs: tuple[jax.Array, ...]) -> Any:
    tau, force, slope = _call(layer.jacobian, controllers, references, inputs)
    return (tau, force), (slope, inputs)


def _backward(_: Controllers, __: References, kept: Any, gradients: tuple[jax.Array, jax.Array]) -> Any:
    (slope, inputs), (tau, force) = kept, gradients
    flat = jax.numpy.concatenate((tau, force.reshape(len(force), -1)), axis=1)
    ends = np.cumsum([one.shape[1] for one in inputs])[:-1]
    return (tuple(jax.numpy.split(jax.numpy.einsum("no,nop->np", flat, slope), ends, axis=1)),)


_step.defvjp(_forward, _backward)


def _call(function: Any, controllers: Controllers, references: References, inputs: tuple[jax.Array, ...]) -> Any:
    """Run a function of `layer` outside JAX; return its results in the number type of the inputs."""
    (n, nq), (_, nv), (_, a), kind = *(one.shape for one in inputs[:3]), inputs[0].dtype
    sizes = [(n, a), (n, controllers.contacts, 3), (n, a + 3 * controllers.contacts, nq + nv + 3 * a)]
    shapes = [jax.ShapeDtypeStruct(size, kind) for size in sizes[: 2 if function is layer.step else 3]]

    def run(*arrays: Any) -> Any:
        return tuple(one.astype(kind) for one in function(controllers, tuple(map(np.asarray, arrays)), references))

    return jax.pure_callback(run, shapes, *inputs)
