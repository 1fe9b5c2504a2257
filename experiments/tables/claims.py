"""What the paper claims, and what should be seen, against what was measured."""

from __future__ import annotations

from typing import Any

from experiments.tables.results import CONTROLLERS, MITIGATION, PAPER, PRESETS, SMOOTHNESS_ON, Results
from idcontrol.sweeps.study import Table


def claims(results: Results) -> Table:
    """What the paper says, and what should be so, against what was measured."""
    rate = {c: results.value("default", c, SMOOTHNESS_ON, "dtau_mean_nm_s") for c in (*CONTROLLERS, *MITIGATION)}
    rows: list[tuple[Any, ...]] = []

    aware = {c: r for c, r in rate.items() if c not in ("pid", "id-coulomb-qp") and r is not None}
    qp, pid = rate["id-coulomb-qp"], rate["pid"]
    if qp is not None and aware:
        smoothest = min(aware, key=lambda c: aware[c])
        rows.append(
            (
                "id-coulomb-qp has the lowest mean torque rate of the contact-aware controllers",
                f"{qp:.3g}; next {smoothest} {aware[smoothest]:.3g} N m/s",
                qp <= aware[smoothest],
            )
        )
    if qp is not None and pid is not None:
        rows.append(("and a lower one than pid", f"{qp:.3g} against {pid:.3g} N m/s", qp < pid))

    lcp = results.value("paper", "id-coulomb-lcp", SMOOTHNESS_ON, "dtau_mean_nm_s", fallen=True)
    for preset in PRESETS:
        smooth = results.value(preset, "id-coulomb-smooth", SMOOTHNESS_ON, "dtau_mean_nm_s", fallen=True)
        if smooth is not None and lcp is not None:
            rows.append(
                (
                    f"id-coulomb-smooth, preset {preset}, has at most a tenth of id-coulomb-lcp's in the preset paper",
                    f"{smooth:.3g} against {lcp:.3g} N m/s",
                    smooth <= 0.1 * lcp,
                )
            )
    for preset in PRESETS:
        rates = {
            c: r
            for c in CONTROLLERS
            if (r := results.value(preset, c, SMOOTHNESS_ON, "dtau_mean_nm_s", fallen=True)) is not None
        }
        if "id-sensed-2" in rates and len(rates) > 1:
            worst = rates.pop("id-sensed-2")
            second = max(rates, key=lambda c: rates[c])
            rows.append(
                (
                    f"id-sensed-2 is roughest by far in the preset {preset}",
                    f"{worst:.3g}; next {second} {rates[second]:.3g} N m/s",
                    worst > 2.0 * rates[second],
                )
            )
    for controller in ("id-noslip-lcp", "id-noslip-qp"):
        for run in results.at("paper", controller, "rigid_low")[:1]:
            printed = PAPER["tracking"]["values"]["rigid_low"][controller] is None
            rows.append(
                (
                    f"{controller} {'falls' if printed else 'stands'} on rigid ground of µ 0.1 in the preset paper",
                    run.reason or "went to its end",
                    run.done is not printed,
                )
            )
    held = sum(bool(row[2]) for row in rows)
    return Table(
        name="claims",
        title="What should be seen",
        sentence=f"{held} of {len(rows)} hold.",
        header=("claim", "measured", "holds"),
        rows=tuple(rows),
    )
