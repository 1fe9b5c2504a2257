"""Scenes: robot, ground, planner, controller and plant, built from one configuration.

- `walk`: a legged robot that walks on the ground, and `locomotion`, which records it.
- `grasp`: an arm that swings a box between its fingertips.
- `clutter`: balls and boxes that are dropped into a container.
- `disturbances`: the ways in which plant, schedule and sensors may differ from what the controller assumes.
- `session`: a walk for `idcontrol.loop`, whose processes build the same scene each for themselves.

Experiments, benchmarks and tests run scenes; no scene knows any of them.
"""
