"""The trust table notices faults: each is put into a copy of the package, in which the claim is measured."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASURE = """
import sys
from idcontrol.bench import claims
asked = [claim for part in claims.CLAIMS.values() for claim in part if sys.argv[1] in claim.statement]
(claim,) = asked
print(claims.__file__, claims.weigh(claim).holds)
"""

FAULTS = {
    "sign of friction": (
        "models/whitened.py",  # not within a solver, which would notice a wrong answer and search anew
        "x[i] += w.rho[r, i] * f[r]",
        "x[i] += w.rho[r, i] * (f[r] if 3 * r < f.shape[0] else -f[r])",
        "a body slides down a slope",
    ),
    "Coriolis terms dropped": (
        "dynamics/system.py",
        "pin.nonLinearEffects(model, data, q, v)",
        "pin.nonLinearEffects(model, data, q, 0.0 * v)",
        "joints accelerate as demanded in Pinocchio's forward dynamics",
    ),
    "effort limit ignored": (
        "controllers/inverse.py",
        "limit=system.effort_limit,",
        "limit=np.full_like(system.effort_limit, np.inf),",
        "torque limits hold whatever is demanded",
    ),
    "residual unchecked": (
        "solvers/status.py",
        "TOLERANCE: Final = 1e-8",
        "TOLERANCE: Final = 1e300",
        "even on hostile problems, obeys the law of each contact",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_its_claim_fail(fault, tmp_path):
    """Kernels run as Python, so that none of the copy is compiled."""
    file, right, wrong, claim = FAULTS[fault]
    omitted = shutil.ignore_patterns("__pycache__", "docs")
    shutil.copytree(ROOT / "idcontrol", tmp_path / "idcontrol", ignore=omitted)
    path = tmp_path / "idcontrol" / file
    source = path.read_text()
    assert source.count(right) == 1
    path.write_text(source.replace(right, wrong))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, claim],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / "idcontrol" / "bench" / "claims.py"), "False"]
