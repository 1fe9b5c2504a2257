"""Step times of this library's solvers, models, controllers and plants, and of other packages: ``idcontrol bench``.

The computer's load shifts medians by more than the differences of interest, so most rows are judged by ratios. Three
jobs are timed alternately, state by state: this library's, another package's (the *peer*), and the *floor*. The floor
is Pinocchio's computation of the rigid-body terms, called from Python. The states come from a walk, in order, so warm
starts behave as on a robot. Before the timing, our answers are compared with the peer's.
"""
