"""The trot over bumps whose friction changes with every step (003 Fig. 16)."""

from __future__ import annotations

import msgspec

from idcontrol.experiments.trot import PRESETS, Friction, Path2D, Walk

STRAIGHT_ON = Path2D(kind="command", command=((0.0, 0.2, 0.0, 0.0),))

BUMPS = {
    "terrain": "heightmap",
    "height_map": "bumps",
    "mu_range": (0.1, 1.5),
    "duration_s": 5.0,
    "path": STRAIGHT_ON,
}
"""Heights up to 3 cm under feet that are lifted by 1.5 cm; 5 s is what the paper plots, and a metre of way."""

ROUGH = {
    # what a foot will meet is not known, so the least of it is counted on
    "default": msgspec.structs.replace(PRESETS["default"], friction=Friction(estimate=0.1), **BUMPS),
    # the original's controllers had the friction of each contact from the simulator, at most 1.5; ours have one number
    # for all: the mean
    "paper": msgspec.structs.replace(PRESETS["paper"], friction=Friction(estimate=0.8, share=1.0, cap=1.5), **BUMPS),
}

experiment = Walk("rough", "a quadruped trots straight on over bumps, on another friction with every step", ROUGH)
