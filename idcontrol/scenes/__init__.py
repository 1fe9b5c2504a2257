"""Scenes: robot, ground, planner, controller and plant, built from one configuration.

- `walk`: a walking legged robot; `locomotion` records the walk.
- `whole_body`: a machine on feet or soles that is moved by whole-body tasks; `body` has the tasks, `motions` plans.
- `grasp`: an arm that swings a box between its fingertips.
- `clutter`: balls and boxes dropped into a container.
- `disturbances`: differences between plant, schedule or sensors and the controller's assumptions.
- `session`: a walk for `idcontrol.loop`, whose processes each build the same scene.

Experiments, benchmarks and tests run scenes; no scene depends on them.
"""
