"""Two arms with hands open a jar, pour its marbles into a bowl, close it and put it back.

The scene of Castro, Permenter & Han 2022, section X-E. The arms are `machine`, the objects `things`, `hands` drives the
arms, and `task` is the sequence of keyframes.
"""
