"""Examples to start from, such as custom controllers in the loop, a third-party MuJoCo model, a machine in C.

The first lines of each say how to run it; the tests run all examples.
"""
