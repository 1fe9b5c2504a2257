"""The ramp: every model passes its checks, and configurations that cannot be are refused."""

import json

import pytest

from idcontrol.experiments import incline

pytestmark = pytest.mark.interpreted


def test_every_model_passes_every_check(tmp_path):
    config = incline.Config(duration_s=0.05)
    metrics = incline.experiment.run(config, tmp_path, lambda share: None)
    assert metrics["completed"], {key for key, holds in metrics["checks"].items() if not holds}
    assert json.loads((tmp_path / "metrics.json").read_text())["completed"]
    for name in ("coulomb_lcp", "dissipation", "sap", "constraint"):
        distances = [metrics[f"slide_{name}_mu_{mu}_m"] for mu in ("0", "0125", "025", "0375")]
        assert distances == sorted(distances, reverse=True)
        assert distances[-1] < 2e-5  # SAP may creep at 3.7e-5 m/s
    assert metrics["paper"]["hertz_depth_m"] == 1e-8


@pytest.mark.slow
def test_finer_steps_come_closer_to_the_closed_form(tmp_path):
    """First order: a tenth of the step leaves a tenth of the error."""
    errors = []
    for step in (0.02, 0.002):
        config = incline.Config(plant="coulomb-lcp", duration_s=0.2, step_s=step, frictions=(0.125,))
        slide = incline.experiment.run(config, tmp_path / f"{step}", lambda share: None)["slide_coulomb_lcp_mu_0125_m"]
        errors.append(slide - incline.closed_form(config, incline.MODELS["coulomb-lcp"], 0.125))
    assert errors[0] / errors[1] == pytest.approx(10.0, rel=1e-6)
