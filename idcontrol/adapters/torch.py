"""A control step of n robots as a function of PyTorch tensors, with its gradient."""

from typing import Any

from idcontrol.adapters import layer
from idcontrol.batch import Controllers, References
from idcontrol.errors import InputError, install_command

try:
    import torch
except ImportError:
    raise InputError(f"this adapter needs the package torch; {install_command('torch')}") from None


class _Step(torch.autograd.Function):  # type: ignore[misc]  # torch may not be installed
    """`layer.step` for PyTorch; the arguments are the controllers, their references, and the inputs."""

    @staticmethod
    def forward(ctx: Any, controllers: Controllers, references: References, *inputs: torch.Tensor) -> Any:
        arrays = tuple(one.detach().cpu().numpy() for one in inputs)
        if any(ctx.needs_input_grad):
            tau, force, slope = layer.jacobian(controllers, arrays, references)
            ctx.save_for_backward(inputs[0].new_tensor(slope))
            ctx.sizes = [one.shape[1] for one in inputs]
        else:
            tau, force = layer.step(controllers, arrays, references)
        return inputs[0].new_tensor(tau), inputs[0].new_tensor(force)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        tau, force = gradients
        pulled = torch.einsum("no,nop->np", torch.cat((tau, force.flatten(1)), dim=1), slope)
        return None, None, *pulled.split(ctx.sizes, dim=1)


def step(controllers: Controllers, references: References, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return torques (n, a) [N m] and contact forces (n, k, 3) [N] of a first step, differentiable by all inputs.

    Forces are in world axes; k is `Controllers.contacts`. If a robot's step relaxes tracking, its gradient is zero.

    Args:
        controllers: The controllers of n robots; they forget their earlier steps.
        references: Stance of the feet; its fields `q`, `v` and `a` are not used.
        *inputs: Tensors of one type: configurations (n, nq) and velocities (n, nv) in Pinocchio's layout, then
            reference positions, velocities and accelerations of the joints (n, a).

    Raises:
        InputError: There are not five inputs, or a tensor has a wrong shape. If a gradient is needed, also: the state
            or reference of a robot is unusable, or the controllers have no derivative (`layer.jacobian`).
    """
    layer.require(inputs)
    tau, force = _Step.apply(controllers, references, *inputs)
    return tau, force
