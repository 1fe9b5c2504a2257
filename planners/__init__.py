"""Planners: they compute the motion of every joint from a command and the measured state (planner.md).

Each file has one concept, from timing through places to joints:

    gait       stance and swing times of each foot                   commands   velocity commands, limited
    governor   commands and strides that the legs can follow         rise       standing up and lying down
    waypoints  a command that follows a list of points               base       reference pose of the base
    momentum   a base that moves with the reaction of swinging legs  feet       footholds, swings, stance anchors
    legs       kinematics of one leg and its inverse                 measured   measured motion of base and feet
    joints     joint motion from the motion of the feet              push       effect of the feet on a swaying base
    balance    optional righting by the stance legs
    trot       the planner that combines them, once per period       packing    all arrays of a planner as one argument
    paper      the original planner of the paper, for comparison
    stand      a constant pose, for robots with any legs

For machines under whole-body tasks:

    dcm        footsteps, and a motion of the centre of mass that standing feet can carry
    turning    yaw moments of a walk, and the friction that they need
    capture    steps that catch a pushed machine
    route      footsteps along a route

For hands that hold a body:

    arm_swing  the motion of the arm                                 grip       internal forces of the fingertips
    cartesian  straight motions of a hand between keyframes
    grasp_feasibility  whether friction and torque limits allow the hand to hold the body

A planner is any object with ``reset(state)`` and ``__call__(state) -> Reference``; to add one, add a file.
"""
