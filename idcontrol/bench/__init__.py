"""Step times of our solvers, models, controllers and plants, and of other packages: ``idcontrol bench``.

The load of a machine shifts medians by more than the differences that matter. So only ratios count, of times that were
taken in turns, state by state: ours, the peer's and the floor's. The floor is the time that Pinocchio needs, called
from Python, for the rigid-body terms. The states come from a walk, in order, so that warm starts behave as they do on a
robot. Answers are compared before times are taken, and a row says where they differ by more than its tolerance.
"""
