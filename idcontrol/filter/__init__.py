"""Filter a policy's torques: return the nearest torques that keep friction cones and limits, with predicted forces.

A policy gives joint targets at 50 Hz, or torques. `Torques` is called in every period of the drives' loop::

    filter = idc.filter.Torques(robot, mu=0.6, rate_hz=1000)
    command = filter(state, q=targets)          # torques kp (q - q_measured) - kd v_measured, made admissible

The proportional-derivative law is part of the filter: drives must not add it a second time. As a controller
(``--controller idcontrol.filter:Torques``), the filter takes the joint targets of a planner.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import structs

from idcontrol.config.configuration import period
from idcontrol.contact.spheres import SphereContacts, on_flat_ground
from idcontrol.controllers import Gains, InverseSettings, TunedRobot
from idcontrol.controllers.inputs import failed
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.step import Filter
from idcontrol.errors import InputError
from idcontrol.filter.nearest import FIRST_JOINT, FORCE, JOINT, MOST_JOINTS, POWER, SCHEME, SLIP, TORQUE
from idcontrol.types import Command, Reference, State

WORDS: Final = {TORQUE: "torque", SLIP: "friction", JOINT: "joint", FORCE: "force", POWER: "power"}
"""Words for the bits of `Filter.cut`, in `Torques.cut` and `Torques.broken`."""


def no_cut(joints: int) -> Filter:
    """Return a `Filter` for a robot with `joints` joints, without limits on forces and power."""
    return Filter(math.inf, math.inf, np.zeros(2, dtype=np.int64), np.zeros(joints))


def step(
    contacts: SphereContacts, gains: Gains, h: float, limits: Filter, settings: InverseSettings
) -> InverseDynamics:
    """Return the controller that computes a filter's torques.

    It takes torques [N m] in `Reference.a`, and adds them to the torques of the gains.

    Args:
        contacts: Feet of the robot.
        gains: Gains on the errors of joint targets [N m/rad, N m s/rad].
        h: Period of the calls [s].
        limits: Limits of forces and power; the arrays of this object are overwritten in each step.
        settings: Settings of contacts and torque rates.
    """
    # the prediction of the filter already includes impacts, and it does not use the demand that projection changes
    settings = replace(settings, impacts=False, project=False)
    return InverseDynamics(SCHEME, contacts.system, contacts, gains, h, settings, limits=limits)


class Torques:
    """Changes the torques of a policy so that friction cones and limits hold.

    The wanted torques are returned bitwise unchanged if they and the motion that they cause keep all limits. A foot may
    slip if its slip slows down. Torques beyond the motors' limits are clipped. If the motion then breaks a limit, a
    quadratic program finds admissible torques (`idcontrol.filter.nearest`). Its objective weights changes of the
    ground's wrench on the robot more than changes of the torques, which are scaled by their limits. If no torques keep
    all limits, all limits but the motors' may be relaxed; `broken` names the limits that remain broken.
    """

    def __init__(
        self,
        robot: TunedRobot,
        mu: float,
        rate_hz: float = 1000.0,
        *,
        gains: Gains | None = None,
        force_n: float = math.inf,
        power_w: float = math.inf,
        rate_limit_nm_s: float | Literal["robot"] | None = None,
    ) -> None:
        """Set up the filter of a robot on flat ground.

        Args:
            robot: A robot from `idcontrol.robots.load`.
            mu: The assumed friction coefficient, finite.
            rate_hz: Rate of the calls [Hz].
            gains: Gains on the errors of joint targets, numbers or shape (a,) [N m/rad, N m s/rad]; None for the gains
                of the robot file.
            force_n: Largest normal force of a contact [N].
            power_w: Largest mechanical power of all motors together [W].
            rate_limit_nm_s: Largest rate of a torque [N m/s]; "robot" for the limit of the robot file, None for no
                limit. A rate limit delays torques, which may destabilize stiff gains.

        Raises:
            InputError: `robot` is no robot, a number is out of its range, or the gains do not fit the joints.
        """
        if not 0.0 <= mu < math.inf:
            raise InputError(f"mu is {mu:g}; a filter needs a finite friction coefficient, 0 or more")
        for name, value in (("force_n", force_n), ("power_w", power_w)):
            if not value > 0.0:
                raise InputError(f"{name} is {value:g}; it must be positive")
        contacts = on_flat_ground(robot, mu)
        kp, kd = robot.torque_gains(contacts.system.actuated_names)
        self._system, a = contacts.system, contacts.system.n_actuated
        self._standing = Reference.standing(np.zeros(a), contacts.n_feet)
        self._filter = no_cut(a)._replace(force=float(force_n), power=float(power_w))
        chosen = Gains(kp=kp, kd=kd) if gains is None else gains
        settings = InverseSettings(rate_limit_nm_s=rate_limit_nm_s)
        self._step = step(contacts, chosen, period(rate_hz), self._filter, settings)

    def __call__(
        self,
        state: State,
        reference: Reference | None = None,
        *,
        q: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        tau: npt.ArrayLike | None = None,
    ) -> Command:
        """Return the admissible torques nearest to ``tau + kp (q - q_measured) + kd (v - v_measured)``; never raises.

        Args:
            state: The measured state.
            reference: Positions and velocities of the joints, used instead of `q` and `v`; None to use `q` and `v`.
            q: Joint targets, shape (a,) [rad]. If it is None, kp has no effect.
            v: Velocities of the joint targets, shape (a,) [rad/s]; None for rest. If `q` and `v` are None, kd has no
                effect.
            tau: Torques, shape (a,) [N m]; None for zero.

        Returns:
            Torques and predicted forces. The status is REPAIRED if the wanted torques break a limit (`cut`); then
                ``dropped`` contains "tracking", or "no-slip" if a foot slides without slowing down. The status is
                FAILED, without torques, if the state or the targets are unusable, or two threads call the filter at
                once.
        """
        system, still = self._system, self._standing.v
        self._filter.cut[:] = 0
        try:
            if reference is not None:
                q, v = reference.q, reference.v
            elif q is None:
                q, v = system.joint_positions(state.q), system.joint_velocities(state.v) if v is None else v
            wanted = structs.replace(
                self._standing,
                q=np.asarray(q),
                v=still if v is None else np.asarray(v),
                a=still if tau is None else np.asarray(tau),
            )
            for name, array in (("q", wanted.q), ("v", wanted.v), ("tau", wanted.a)):
                if array.shape != still.shape:
                    return failed(system, f"{name} has shape {array.shape}; it needs {still.shape}")
        except Exception as error:  # a policy may pass anything, but a controller must not raise
            return failed(system, f"state or targets cannot be read: {error}")
        return self._step(state, wanted)

    def reset(self) -> None:
        """Forget the last step, including the torques from which the rate limit starts."""
        self._step.reset()

    @property
    def wanted(self) -> npt.NDArray[np.float64]:
        """The torques that the policy wanted in the last call, before any change, shape (a,) [N m]."""
        return self._filter.wanted.copy()

    @property
    def cut(self) -> tuple[str, ...]:
        """The limits that the wanted torques of the last call break.

        If it is empty, the torques are unchanged, or they are zero and the status is `FAILED`.

        ``"torque"`` is the limit or the rate of a motor. The other limits are judged by the motion under torques within
        the motors' limits: ``"friction"`` if a foot would slip without slowing down, ``"joint"`` for the range or the
        speed of a joint, ``"force"`` and ``"power"`` for the limits passed to the constructor.
        """
        return self._words(0)

    @property
    def broken(self) -> tuple[str, ...]:
        """The limits that the predicted motion under the filtered torques still breaks."""
        return self._words(1)

    @property
    def broken_joints(self) -> tuple[str, ...]:
        """The joints whose range or speed the predicted motion under the filtered torques still breaks.

        From joint number 58 on, all joints are named if one of them breaks its limit.
        """
        bits = int(self._filter.cut[1]) // FIRST_JOINT
        names = self._system.actuated_names
        return tuple(name for j, name in enumerate(names) if (bits >> min(j, MOST_JOINTS - 1)) & 1)

    def _words(self, which: int) -> tuple[str, ...]:
        return tuple(word for bit, word in WORDS.items() if self._filter.cut[which] & bit)
