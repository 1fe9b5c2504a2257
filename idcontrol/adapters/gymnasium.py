"""A Gymnasium environment: an action sets joint targets, and a controller of this package moves the joints to them.

Import this module before ``gymnasium.make("idcontrol/JointTargets-v0")``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import structs

from idcontrol import controllers, plants, robots
from idcontrol.config.configuration import period
from idcontrol.errors import InputError, install_command
from idcontrol.loop.plausible import tilt
from idcontrol.record.metrics import fallen
from idcontrol.types import Array, Command, Reference, State

try:
    import gymnasium
except ImportError:
    raise InputError(f"the environment needs the package gymnasium; {install_command('gym')}") from None

NAME = "idcontrol/JointTargets-v0"


def forward(state: State, command: Command) -> float:
    """Return the default reward: forward velocity of the base, in the base's axes [m/s]."""
    return float(state.v[0])


class JointTargets(gymnasium.Env[Array, Array]):
    """A legged robot on flat ground.

    An action has one number from -1 to 1 for each joint: the joint's target, in multiples of `reach_rad` from the home
    pose. The controller moves the joints to their targets at constant velocity. An observation consists of the height
    of the base [m]; the direction of gravity (3) and the velocity of the base, linear, then angular (6) [m/s, rad/s],
    both in the base's axes; the joint positions relative to the home pose (a) [rad]; and the joint velocities (a)
    [rad/s].
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(
        self,
        robot: str = "links",
        controller: str = "id-coulomb-qp",
        plant: str = "coulomb-lcp",
        *,
        mu: float = 0.8,
        rate_hz: float = 1000.0,
        action_hz: float = 50.0,
        reach_rad: float = 0.5,
        spread_rad: float = 0.01,
        reward: Callable[[State, Command], float] = forward,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; robot, controller and plant have the same names as on the command line.

        Args:
            robot: Name or path of a robot with a floating base.
            controller: Controller that follows the targets; `idcontrol.filter:Torques` for a proportional-derivative
                law with filtered torques.
            plant: Plant that simulates the robot.
            mu: Friction coefficient of the ground; the controller assumes it, too.
            rate_hz: Rate of the controller [Hz].
            action_hz: Rate of the actions [Hz]; rounded so that an action lasts a whole number of control periods.
            reach_rad: Largest distance of a target from the home pose [rad].
            spread_rad: Standard deviation of the joint positions about the home pose after a reset [rad].
            reward: Returns the reward, given the state after an action and the last command during the action.
            render_mode: Must be None, because rendering is not supported. To see a motion, record a run.

        Raises:
            UnknownName: No robot, controller or plant has this name.
            InputError: The robot file is unusable, the robot has no floating base, `mu` or a rate is out of range, or
                the controller needs more than joint targets.
        """
        self._robot = robots.load(robot)
        if self._robot.description.base != "free-flyer":
            raise InputError(f"robot {robot!r} has no floating base; take a legged robot")
        if not 0.0 < action_hz <= rate_hz:
            raise InputError(f"action_hz={action_hz:g} must be positive and not above rate_hz={rate_hz:g}")
        self._h, self._steps = period(rate_hz), round(rate_hz / action_hz)
        self._controller = controllers.make(controller, self._robot, mu=mu, rate_hz=rate_hz)
        self._plant = plants.make(plant, self._robot, mu=mu, rate_hz=rate_hz)
        self._system, self._reach, self._spread, self._reward = self._robot.system(), reach_rad, spread_rad, reward
        self._standing = self._robot.standing_state(self._system)
        self._height = self._robot.standing_height(self._system)
        self._home = self._system.joint_positions(self._standing.q)
        self._feet = len(self._robot.description.feet)
        self._state, self._target = self._standing, self._home
        a = self._system.n_actuated
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (a,), dtype=np.float64)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (10 + 2 * a,), dtype=np.float64)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Reset to the home pose with random joint displacements, lowest foot on the ground; return the observation.

        The returned ``info`` is empty.
        """
        super().reset(seed=seed)
        joints = self._home + self._spread * self.np_random.standard_normal(len(self._home))
        q = self._system.configuration(joints, self._standing.q[:7])
        q[2] -= robots.foot_gaps(self._robot, self._system, q).min()
        self._controller.reset()
        self._state = self._plant.reset(State(t=0.0, q=q, v=self._standing.v))
        self._target = joints
        return self._observation(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move to the targets of `action`; return observation, reward, True if the robot fell, False, and ``info``.

        ``info`` contains the last joint torques ``tau`` [N m] and the controller's last ``status``.

        Raises:
            InputError: The action has not one finite number for each joint.
        """
        if np.shape(action) != self.action_space.shape or not np.isfinite(action).all():
            values = np.asarray(action).tolist()
            raise InputError(f"an action must have {len(self._home)} finite numbers, one for each joint; got {values}")
        before, self._target = self._target, self._home + self._reach * np.clip(action, -1.0, 1.0)
        velocity = (self._target - before) / (self._steps * self._h)
        for k in range(1, self._steps + 1):
            command = self._controller(self._state, self._reference(before + k * self._h * velocity, velocity))
            after = self._plant.step(command.tau, self._h)
            forces = self._plant.contact_forces()
            self._state = State(t=self._state.t + self._h, q=after.q, v=after.v, forces=forces)
        info = {"tau": command.tau, "status": command.status.name}
        q = self._state.q
        fell = bool(fallen(q[2], self._standing.q[2], tilt(q[3:7]), self._height))
        return self._observation(), self._reward(self._state, command), fell, False, info

    def _reference(self, q: Array, v: Array) -> Reference:
        return structs.replace(Reference.standing(q, self._feet), v=v)

    def _gravity(self) -> Array:
        """Return the direction of gravity in the axes of the base, shape (3,)."""
        x, y, z, w = self._state.q[3:7]
        return np.array([2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0])

    def _observation(self) -> Array:
        q, v = self._state.q, self._state.v
        joints = self._system.joint_positions(q) - self._home
        return np.concatenate([q[2:3], self._gravity(), v[:6], joints, self._system.joint_velocities(v)])


if NAME not in gymnasium.registry:
    gymnasium.register(NAME, entry_point=f"{__name__}:JointTargets", max_episode_steps=500)
