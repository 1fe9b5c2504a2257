"""Planners: what the joints of a legged machine should do next (planner.md).

One concept a file, from when to where to how:

    gait       when each foot stands and swings                      commands   what the machine is asked to do, limited
    waypoints  a command that follows a list of points               base       where the base should be
    momentum   a base that yields to the reaction of swinging legs   feet       footholds, swings, stance anchors
    legs       kinematics of one leg and its inverse                 joints     feet to joints
    balance    optional righting of the base by the stance legs      trot       all of them, once per control period
    paper      the original planner of the paper, for comparison

A planner is any object with ``reset(state)`` and ``__call__(state) -> Reference``; to add one, add a file.
"""
