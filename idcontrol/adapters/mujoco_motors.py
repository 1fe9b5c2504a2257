"""Conversion of a MuJoCo model's actuators to motors, so that controls set joint torques."""

import numpy as np

from idcontrol.adapters.mujoco_comparison import Mapped, dofs
from idcontrol.errors import InputError, install_command
from idcontrol.types import Array, Integers

try:
    import mujoco
except ImportError:
    raise InputError(f"the bridge needs the package mujoco; {install_command('mujoco')}") from None

DIRECT = tuple(int(getattr(mujoco.mjtTrn, f"mjTRN_{kind}")) for kind in ("JOINT", "JOINTINPARENT"))
INDIRECT = tuple(int(getattr(mujoco.mjtTrn, f"mjTRN_{kind}")) for kind in ("TENDON", "SLIDERCRANK"))
FORCE_LIKE = tuple(int(getattr(mujoco.mjtDyn, f"mjDYN_{kind}")) for kind in ("NONE", "FILTER", "FILTEREXACT"))
"""Types of actuator dynamics for which the control is a force, possibly filtered."""
INSTANT = int(mujoco.mjtDyn.mjDYN_NONE)
FIXED_GAIN, UNBIASED = int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtBias.mjBIAS_NONE)
EXACT = 1e-9
"""Relative tolerance of joint torques; also the largest lever arm that counts as zero [m]."""


class Motors:
    """Drives the joints of a robot: joints with a direct actuator by a motor, all others by applied forces."""

    def __init__(self, mapped: Mapped, data: mujoco.MjData) -> None:
        """Overwrite the actuators of the robot's joints, as described in `idcontrol.adapters.mujoco.Bridge`.

        Args:
            mapped: The robot in the model, which is changed.
            data: Data of the model after ``mj_forward`` in the home pose.

        Raises:
            InputError: The model's bounds keep a joint's torque below the limit in the robot file, or an actuator also
                drives joints that are not the robot's.
        """
        model = mapped.model
        moment = _moments(mapped, data)
        _require_strength(mapped, moment)
        self._at = model.jnt_dofadr[mapped.joints]
        self._control: Integers = np.full(len(self._at), -1, dtype=np.int64)
        self._ratio: Array = np.ones(len(self._at))
        for i in np.flatnonzero(moment.any(axis=1)).tolist():
            j = int(np.flatnonzero(moment[i])[0])
            gain = 0.0
            if model.actuator_trntype[i] in DIRECT and self._control[j] < 0:
                gain = _gain(model, i) or 1.0
                self._control[j], self._ratio[j] = model.actuator_ctrladr[i], gain * moment[i, j]
            _overwrite(model, i, gain)
        self._driven = self._control >= 0

    def drive(self, data: mujoco.MjData, tau: Array) -> None:
        """Apply the torques `tau`, shape (a,) [N m or N], to the joints."""
        driven = self._driven
        data.ctrl[self._control[driven]] = tau[driven] / self._ratio[driven]
        data.qfrc_applied[self._at[~driven]] = tau[~driven]

    def require_torques(self, mapped: Mapped, data: mujoco.MjData, tau: Array) -> None:
        """Check that the model applies the torques `tau`, shape (a,) [N m or N], in the state of `data`.

        Raises:
            InputError: The torque on a joint differs from `tau`, or actuators act on the base.
        """
        self.drive(data, tau)
        mujoco.mj_forward(mapped.model, data)
        at = dofs(mapped)
        got = (data.qfrc_actuator + data.qfrc_applied)[at]
        asked = np.concatenate((np.zeros(at.size - tau.size), tau))
        names = ("the base",) * (at.size - tau.size) + mapped.system.actuated_names
        for i in np.flatnonzero(np.abs(got - asked) > EXACT * (1.0 + np.abs(asked))):
            raise InputError(
                f"actuators of the MuJoCo model apply {got[i]:.4g} N m to {names[i]} for a command of {asked[i]:.4g} "
                "N m; remove actuators that act on it through sites or bodies, and clear model.opt.disableflags and "
                "model.opt.disableactuator"
            )


def _moments(mapped: Mapped, data: mujoco.MjData) -> Array:
    """Return the lever arms of all actuators about the robot's joints, shape (nactuator, a).

    Actuators at sites and bodies are not converted, so their lever arms are zero here.

    Raises:
        InputError: An actuator drives a joint of the robot and a joint that is not the robot's.
    """
    model = mapped.model
    every = np.zeros((model.nout, model.nv))
    mujoco.mju_sparse2dense(every, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind)
    every = np.where(np.abs(every) > EXACT, every, 0.0)[model.actuator_outadr]
    every[~np.isin(model.actuator_trntype, DIRECT + INDIRECT)] = 0.0
    moment = every[:, model.jnt_dofadr[mapped.joints]]
    others = np.setdiff1d(np.arange(model.nv), dofs(mapped))
    for i in np.flatnonzero(moment.any(axis=1) & every[:, others].any(axis=1)).tolist():
        foreign = mapped.label(int(model.dof_jntid[others[np.flatnonzero(every[i, others])[0]]]))
        raise InputError(
            f"{_name(model, i)} of the MuJoCo model drives {foreign} together with joints of {mapped.robot.name}; "
            "give each joint an actuator of its own"
        )
    return moment


def _require_strength(mapped: Mapped, moment: Array) -> None:
    """Raise `InputError` if bounds in the model keep the torque of a joint below the limit in the robot file."""
    model = mapped.model
    strength = np.array([_strength(model, i) for i in range(model.nactuator)])
    for j, number in enumerate(mapped.joints.tolist()):
        acting, limit = np.flatnonzero(moment[:, j]), mapped.system.effort_limit[j]
        most = float(strength[acting] @ np.abs(moment[acting, j])) if acting.size else np.inf
        if model.jnt_actfrclimited[number]:
            most = min(most, _both_ways(model.jnt_actfrcrange[number]))
        if most < (1.0 - EXACT) * limit:
            who = ", ".join(_name(model, i) for i in acting.tolist()) or "no actuator"
            raise InputError(
                f"{mapped.label(number)} of the MuJoCo model ({who}) gets at most {most:.4g} N m by its ctrlrange, "
                f"forcerange and actuatorfrcrange, but limits.torque_nm of {mapped.robot.name} is {limit:.4g} N m; "
                "lower it in a robot file of your own, or widen the ranges in the model"
            )


def _gain(model: mujoco.MjModel, actuator: int) -> float:
    """Return the force of an actuator per unit of control; 0 if its control is not a force."""
    plain = model.actuator_gaintype[actuator] == FIXED_GAIN and model.actuator_biastype[actuator] == UNBIASED
    force_like = plain and model.actuator_dyntype[actuator] in FORCE_LIKE
    return float(model.actuator_gainprm[actuator, 0]) if force_like else 0.0


def _strength(model: mujoco.MjModel, actuator: int) -> float:
    """Return the largest force that an actuator can apply in both directions; inf if unbounded [N or N m]."""
    most, gain = np.inf, _gain(model, actuator)
    if model.actuator_forcelimited[actuator]:
        most = _both_ways(model.actuator_forcerange[actuator])
    if model.actuator_ctrllimited[actuator] and gain != 0.0:
        most = min(most, _both_ways(gain * model.actuator_ctrlrange[actuator]))
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_TENDON:
        tendon, gear = model.actuator_trnid[actuator, 0], abs(model.actuator_gear[actuator, 0])
        if model.tendon_actfrclimited[tendon]:
            most = min(most, _both_ways(model.tendon_actfrcrange[tendon]) / gear)
    return most


def _both_ways(bounds: Array) -> float:
    """Return the largest x for which both x and -x are in a range; 0 if there is none."""
    return max(0.0, min(-float(bounds.min()), float(bounds.max())))


def _overwrite(model: mujoco.MjModel, actuator: int, gain: float) -> None:
    """Make an actuator a motor with this gain, without bias, dynamics, delay or bounds."""
    model.actuator_gaintype[actuator], model.actuator_biastype[actuator] = FIXED_GAIN, UNBIASED
    model.actuator_gainprm[actuator], model.actuator_biasprm[actuator] = 0.0, 0.0
    model.actuator_gainprm[actuator, 0] = gain
    # without an activation variable, MuJoCo multiplies the gain by the control
    model.actuator_dyntype[actuator], model.actuator_actadr[actuator], model.actuator_actnum[actuator] = INSTANT, -1, 0
    model.actuator_delay[actuator], model.actuator_history[actuator] = 0.0, 0
    model.actuator_ctrllimited[actuator] = model.actuator_forcelimited[actuator] = False


def _name(model: mujoco.MjModel, actuator: int) -> str:
    return f"actuator {model.actuator(actuator).name or actuator}"
