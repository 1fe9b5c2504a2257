"""Planners: from a command and the measured state to the motion of every joint (planner.md).

Each file has one concept, from timing through places to joints:

    gait       when each foot stands and swings                      commands   velocity commands, limited
    waypoints  a command that follows a list of points               base       where the base should be
    momentum   a base that moves with the reaction of swinging legs  feet       footholds, swings, stance anchors
    legs       kinematics of one leg and its inverse                 measured   where base and feet are
    joints     from feet to joints                                   push       how feet push a base that sways
    balance    optional righting by the stance legs
    trot       all of them, once per control period                  packing    all their arrays as one argument
    paper      the original planner of the paper, for comparison
    stand      nothing but a pose, for robots with any legs

For machines under whole-body tasks:

    dcm        footsteps, and a motion of the centre of mass that standing feet can carry
    capture    steps that catch a pushed machine

For hands that hold a body:

    arm_swing  the motion of the arm                                 grip       internal forces of the fingertips
    grasp_feasibility  whether friction and torque limits allow the hand to hold the body

A planner is any object with ``reset(state)`` and ``__call__(state) -> Reference``; to add one, add a file.
"""
