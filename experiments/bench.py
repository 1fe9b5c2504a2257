"""What ``idcontrol bench`` runs on: a trot on flat ground, and clutter in its container."""

from __future__ import annotations

import itertools

import numpy as np

from idcontrol import controllers
from idcontrol.bench.scenes import Heap, Moment, RecordedWalk
from idcontrol.contact.spheres import SphereContacts
from idcontrol.errors import InputError
from idcontrol.experiments import clutter, trot
from idcontrol.loop.simulated import ticks
from idcontrol.system import System

SETTLING = 480
"""Periods before the walk is recorded: speed is picked up, and the start forgotten."""


class Scenes:
    """What the command line finds under ``idcontrol.bench``."""

    def walk(self, robot: str, plant: str, periods: int) -> RecordedWalk:
        """A straight trot, from its second step on.

        Raises:
            InputError: The robot falls.
        """
        config = trot.Config(robot=robot, plant=plant, path=trot.Path2D(kind="command"))
        walker, ground, h = trot.load_walker(config), trot.make_ground(config), 1.0 / config.rate_hz
        world = trot.make_plant(config, walker, ground, h)
        observer = trot.foot_spheres(walker, walker.system(), ground, config.mu)
        start = trot.start_state(walker, observer, config.start_spread_rad, np.random.default_rng(config.seed))
        planner = trot.make_planner(config, walker, observer.system, trot.make_guide(config, walker), ground)
        planner.reset(start)
        controller = controllers.build(config.controller, trot.controller_setup(config, walker, ground, h))
        run = ticks(world, planner, controller, start, h=h, steps=SETTLING + periods)
        moments = [
            Moment(
                state=tick.state,
                reference=tick.reference,
                tau=tick.command.tau,
                after=tick.after,
                pressing=len(tick.forces.identity),
            )
            for tick in itertools.islice(run, SETTLING, None)
        ]
        if moments[-1].state.q[2] < 0.5 * start.q[2]:
            raise InputError(f"{robot} falls on the plant {plant}: a bench needs a walk")

        def machine() -> tuple[System, SphereContacts]:
            system = walker.system()
            return system, trot.foot_spheres(walker, system, ground, config.mu)

        return RecordedWalk(
            robot=robot,
            h=h,
            moments=moments,
            setup=lambda: trot.controller_setup(config, walker, ground, h),
            machine=machine,
            feet=tuple(foot.frame for foot in walker.description.feet),
        )

    def heap(self, bodies: int) -> Heap:
        """The clutter of 004 section X-C in its container."""
        config = clutter.Config()
        plant, start = clutter.scene(config, bodies, walls=True)
        return Heap(
            plant=plant,
            start=start,
            # a box as wide as a ball weighs nearly twice as much
            round=plant.inertias.mass < 0.75 * clutter.DENSITY_KG_M3 * clutter.SIDE_M**3,
            radius_m=clutter.RADIUS_M,
            side_m=clutter.SIDE_M,
            width_m=clutter.CONTAINER_M,
            wall_m=clutter.WALL_M,
            mu=config.mu,
            period_s=config.step_s,
        )


scenes = Scenes()
