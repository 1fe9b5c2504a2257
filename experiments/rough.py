"""The trot over bumps whose friction changes with every step (Zapolsky & Drumwright 2017, Fig. 16)."""

from __future__ import annotations

import msgspec

from idcontrol.experiments.trot import PRESETS, WalkExperiment
from idcontrol.scenes.settings import CountedFriction
from idcontrol.scenes.walk import WalkPath

STRAIGHT_ON = WalkPath(kind="command", command=((0.0, 0.2, 0.0, 0.0),))

BUMPS = {
    "terrain": "heightmap",
    "height_map": "bumps",
    "mu_range": (0.1, 1.5),
    "duration_s": 5.0,
    "path": STRAIGHT_ON,
}
"""Heights up to 3 cm under feet that are lifted by 1.5 cm. The paper plots 5 s, which is a metre of way."""

ROUGH = {
    # The friction that a foot will meet is not known, so the least of it is counted on.
    "default": msgspec.structs.replace(PRESETS["default"], friction=CountedFriction(estimate=0.1), **BUMPS),
    # The original's controllers got the friction of each contact from the simulator, at most 1.5. Ours take one number
    # for all contacts: the mean.
    "paper": msgspec.structs.replace(
        PRESETS["paper"], friction=CountedFriction(estimate=0.8, share=1.0, cap=1.5, pyramid="original"), **BUMPS
    ),
}

experiment = WalkExperiment(
    "rough", "a quadruped trots straight on over bumps, on another friction with every step", ROUGH
)
