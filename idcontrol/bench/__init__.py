"""What a step costs, beside what it costs others: ``idcontrol bench``.

Medians drift with a machine's load by more than the differences that matter, so only ratios count whose two times were
taken in turns, state by state: ours, the peer's, and the floor's, which is what Pinocchio takes for the rigid-body
terms from Python. The states are those of a walk, in order, so that warm starts do what they do on a robot. Before
times, answers are compared; where they differ by more than the stated tolerance, the row says so.
"""
