"""Measurements of this package: step times (``idcontrol bench``), a league, and claims (``idcontrol trust``).

`problems` has the contact problems, and `judge` decides if an answer solves one. `claims` compares results with
independent references, `doctor` examines the computer, and `league` compares solvers.

The computer's load shifts medians by more than the differences of interest, so most rows of step times are judged by
ratios. Three jobs are timed alternately, state by state: this library's, another package's (the *peer*), and the
*floor*. The floor is Pinocchio's computation of the rigid-body terms, called from Python. The states come from a walk,
in order, so warm starts behave as on a robot. Before the timing, our answers are compared with the peer's.
"""
