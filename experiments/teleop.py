"""Findings of a walk along a route, with random arms and punches (`idcontrol.planners.route`)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from idcontrol.experiments.findings import Finding
from idcontrol.planners.route import Way
from idcontrol.types import Array

REACHED_M: Final = 0.25
"""A waypoint counts as reached if the centre of mass is nearer than this at the waypoint's time [m]."""
FOLLOWS_M: Final = 0.1
"""Largest mean distance from the route in a completed run [m]."""


def findings(way: Way, arrays: Mapping[str, Array]) -> list[Finding]:
    """Measure how long a machine walks, how many waypoints it reaches, and its distance from its place on the route."""
    t, due = arrays["t"], np.column_stack([np.interp(arrays["t"], way.times, xy) for xy in way.poses.T[:2]])
    off = np.linalg.norm(arrays["com"][:, :2] - due, axis=1)
    walked, on_time = (t >= way.times[0]) & (t <= way.times[-1]), way.times[1:][way.times[1:] <= t[-1]]
    reached = int(np.count_nonzero(off[np.searchsorted(t, on_time)] < REACHED_M))
    count = len(way.times) - 1
    mean = float(off[walked].mean()) if walked.any() else None
    return [
        Finding("walked_s", max(0.0, float(min(t[-1], way.times[-1]) - way.times[0]))),
        Finding("waypoints_reached", reached, holds=reached == count, note=f"of {count}"),
        Finding("finished_share", reached / count),
        Finding(
            "route_err_mean_m", mean, holds=mean is not None and mean < FOLLOWS_M, note=f"limit {1e3 * FOLLOWS_M:g} mm"
        ),
        Finding("route_err_max_m", off[walked].max(initial=0.0)),
    ]
