"""Examples to start from: controllers of one's own in the loop, a simulator of one's own, a machine in C.

Each says in its first lines how to run it; all of them are run by the tests.
"""
