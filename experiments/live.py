"""The trot for ``idcontrol loop``, which runs it on the wall clock."""

from idcontrol.experiments import trot
from idcontrol.scenes.session import WalkLoop

loop = WalkLoop("trot", trot.experiment.summary, trot.PRESETS)
