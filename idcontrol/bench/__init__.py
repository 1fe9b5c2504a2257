"""Step times of this library's solvers, models, controllers and plants, and of other packages: ``idcontrol bench``.

The load of a machine shifts medians by more than the differences of interest, so most rows are judged by ratios. This
library, another package (the peer) and the floor are timed alternately, state by state. The floor is Pinocchio's time
for the rigid-body terms, called from Python. The states come from a walk, in order, so warm starts behave as on a
robot. Answers are compared before the timing, and a row reports a difference above its tolerance.
"""
