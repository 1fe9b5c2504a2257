"""Scenes: robots and objects with their ground, planner, controller and plant; most are built from one configuration.

- `walk`: a walking legged robot; `locomotion` records the walk, `replay` asks a controller for torques in the recorded
  states, `hoist` holds the robot in the air.
- `whole_body`: a machine on feet or soles under whole-body tasks; `body` contains the tasks, `motions` and `press` the
  planners.
- `grasp`: an arm that swings a box between its fingertips.
- `jar`: two arms with hands that open a jar and pour out its marbles.
- `clutter`: balls and boxes dropped into a container.
- `disturbances`: differences between plant, schedule or sensors and the controller's assumptions.
- `session`: a walk for `idcontrol.loop`; each of its processes builds the same scene.

Experiments, benchmarks and tests run scenes; no scene depends on them.
"""
