"""Examples to start from: controllers of one's own in the loop, a MuJoCo model of other hands, a machine in C.

Each says in its first lines how to run it; all of them are run by the tests.
"""
