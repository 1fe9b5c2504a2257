"""The doctor names missing parts and their fixes; the claims of the trust table hold and can fail."""

import contextlib
import importlib.metadata
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

from idcontrol import cli
from idcontrol.bench import claims, doctor
from idcontrol.bench.problems import machines
from idcontrol.errors import install_command
from idcontrol.kernels.compiling import SAYS
from idcontrol.loop.realtime import ONE_THREAD, Granted
from tests import GUARD_S
from tests.parameters import one_fast

ROOT = Path(__file__).parents[2]
ALL = [claim for part in claims.CLAIMS.values() for claim in part]


@pytest.fixture
def without(monkeypatch):
    """Make packages appear not to be installed."""
    version = importlib.metadata.version

    def hide(*names):
        def asked(name):
            if name in names:
                raise importlib.metadata.PackageNotFoundError(name)
            return version(name)

        monkeypatch.setattr(importlib.metadata, "version", asked)

    return hide


@pytest.fixture
def no_physics(monkeypatch):
    """Skip the self-check, and the locking of memory, which would affect all tests."""
    monkeypatch.setattr(doctor, "_physics", lambda tell: iter(()))
    monkeypatch.setattr(doctor, "undisturbed", lambda: contextlib.nullcontext(Granted()))


def named(findings):
    return {(finding.topic, finding.name): finding for finding in findings}


def test_this_machine_is_fit(capsys):
    assert cli.main(["doctor", "--full", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fit"]
    seen = {row["topic"] for row in report["findings"]}
    assert seen == {"versions", "extras", "CPU", "BLAS", "real time", "kernels", "physics"}
    assert all(row["remedy"] for row in report["findings"] if row["verdict"] != "fine")


def test_physics_is_measured_only_where_all_checks_are_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_physics", lambda tell: pytest.fail("it takes minutes where kernels are compiled"))
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr()
    assert "not made; `idcontrol doctor --full` makes it" in shown.out
    assert shown.err == ""


def test_the_table_shows_each_topic_and_each_remedy(capsys, without, no_physics):
    without("viser")
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr()
    assert install_command("viz") in shown.out
    assert shown.err == ""


def test_a_missing_extra_is_advice_and_a_missing_dependency_a_fault_with_its_command(capsys, without, no_physics):
    without("viser")
    assert named(doctor.examine())["extras", "viz"].verdict == "advice"
    without("osqp")
    finding = named(doctor.examine())["versions", "osqp"]
    assert finding.verdict == "broken"
    assert finding.remedy == "pip install 'osqp>=1.0'"
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().err == "idcontrol: osqp: is not installed\n"


def test_packages_that_cannot_be_imported_are_faults_with_their_commands():
    """The doctor itself must run without them."""
    hidden = {"numpy", "scipy", "pinocchio", "numba", "llvmlite", "osqp", "daqp", "h5py", "matplotlib"}
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden}));"
        "import idcontrol.cli as cli; sys.exit(cli.main(['doctor', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=GUARD_S)
    assert done.returncode == 1, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["findings"] if row["verdict"] == "broken"}
    assert set(rows) == hidden - {"pinocchio"} | {"pin"}
    assert "cannot be imported: ModuleNotFoundError: import of pinocchio halted" in rows["pin"]["found"]
    assert rows["pin"]["remedy"] == "pip install --force-reinstall 'pin<5,>=4.0'"


@pytest.mark.parametrize("module", ["rich.text", "packaging.requirements"])
def test_a_package_that_the_doctor_needs_is_a_fault_with_its_command(module, monkeypatch, capsys, no_physics):
    monkeypatch.setitem(sys.modules, module, None)
    if module.startswith("packaging"):
        monkeypatch.delitem(sys.modules, "idcontrol.bench.doctor")  # imported again
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().err.endswith(f"; try: pip install --force-reinstall {module.partition('.')[0]}\n")


def test_an_extra_of_extras_lacks_what_its_parts_lack(without, no_physics):
    without("viser")
    finding = named(doctor.examine())["extras", "all"]
    assert finding.verdict == "advice"
    assert "viser is not installed" in finding.found
    assert "idcontrol" not in finding.found
    assert finding.remedy == install_command("all")


def test_a_version_that_is_too_old_is_a_fault(monkeypatch, no_physics):
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9" if name == "numpy" else version(name))
    finding = named(doctor.examine())["versions", "numpy"]
    assert finding.verdict == "broken"
    assert finding.found == "0.9 does not fit >=2.0"


def test_each_privilege_that_the_system_refuses_is_advice_with_its_remedy(monkeypatch, no_physics, tmp_path):
    class Refused:
        def __enter__(self):
            return Granted(refused={"scheduler": "not permitted", "memory_lock": "too much", "cpu_awake": "no"})

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(doctor, "undisturbed", Refused)
    monkeypatch.setattr(doctor, "LATENCY", tmp_path)  # not every system that tests run on has the file
    diagnoses = named(doctor.examine())
    for name, word in (("priority", "rtprio 40"), ("locked memory", "memlock unlimited"), ("wakeful CPUs", "chmod")):
        assert diagnoses["real time", name].verdict == "advice"
        assert word in diagnoses["real time", name].remedy


@pytest.mark.parametrize(
    ("library", "variable"), [("scipy-openblas", "OPENBLAS_NUM_THREADS"), ("mkl-sdl", "MKL_NUM_THREADS")]
)
def test_threads_of_blas_follow_the_variables_that_it_reads(library, variable, monkeypatch, no_physics):
    monkeypatch.setattr(numpy, "show_config", lambda mode: {"Build Dependencies": {"blas": {"name": library}}})
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    finding = named(doctor.examine())["BLAS", "threads"]
    assert finding.found.startswith("as many as there are cores")
    assert finding.remedy == f"export {variable}=1"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert named(doctor.examine())["BLAS", "threads"].verdict == "fine"
    monkeypatch.setenv(variable, "2")
    assert named(doctor.examine())["BLAS", "threads"].found.startswith("2;")
    monkeypatch.setenv(variable, "1")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert named(doctor.examine())["BLAS", "threads"].found == "one"


@pytest.mark.interpreted
def test_wrong_physics_is_a_fault(monkeypatch, capsys):
    some = [claim for claim in ALL if claim.quick and ("carry" in claim.statement or "presses" in claim.statement)]
    monkeypatch.setattr(claims, "CLAIMS", {"some": some})
    monkeypatch.setattr(machines, "WALKER_MASS", 1.01 * machines.WALKER_MASS)
    assert cli.main(["doctor", "--full"]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(SAYS)]
    assert "carry the weight" in said[-1]
    # it prints a line before each claim
    assert [line.partition(": ")[2] for line in said[1:-1]] == [claim.statement for claim in some]


@pytest.mark.slow
def test_every_claim_of_the_trust_table_holds(capsys):
    assert cli.main(["trust", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["holds"]
    assert [row["claim"] for row in report["claims"]] == [claim.statement for claim in ALL]
    assert all(row["holds"] for row in report["claims"] if row["holds"] is not None)
    assert all(row["figure"] <= row["limit"] for row in report["claims"] if row["holds"] is not None)


@pytest.mark.parametrize("figure", [2.0, float("nan"), float("inf")])
def test_a_claim_that_is_missed_or_no_number_does_not_hold(figure, monkeypatch, capsys):
    wrong = replace(ALL[0], measure=lambda: figure, limit=1.0)
    monkeypatch.setattr(claims, "CLAIMS", {"models": (wrong,)})
    assert cli.main(["trust"]) == 1
    shown = capsys.readouterr()
    assert wrong.statement in shown.err
    assert wrong.tests[0] in shown.out
    assert "0 of 1 claims hold" in shown.out


def test_a_claim_that_cannot_be_measured_does_not_hold():
    def fail():
        raise ZeroDivisionError("no mass")

    verdict = claims.weigh(replace(ALL[0], measure=fail))
    assert not verdict.holds
    assert verdict.fault == "ZeroDivisionError: no mass"


def test_a_claim_without_its_extra_is_said_to_be_unmeasured_and_does_not_fail(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")  # a narrow table breaks the words
    monkeypatch.setattr(claims, "EXTRAS", {"mujoco": ("no_such_engine",)})
    unmeasured = replace(ALL[0], measure=lambda: float("inf"), extra="mujoco")
    monkeypatch.setattr(claims, "CLAIMS", {"peers": (unmeasured,)})
    assert cli.main(["trust"]) == 0
    shown = capsys.readouterr().out
    assert "not measured: needs mujoco" in shown
    assert "0 of 0 claims hold" in shown
    assert install_command("mujoco") in shown


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "claim", one_fast(("presses with its weight", "slides down", "carry the weight"), "carry the weight")
)
def test_claims_are_measured_against_something_outside(claim, monkeypatch):
    """With a wrong gravity in the formulas, the claims must fail."""
    monkeypatch.setattr(machines, "G", 9.83)
    (asked,) = (item for item in ALL if claim in item.statement and not item.extra)
    assert not claims.weigh(asked).holds


def test_claims_need_only_extras_of_the_package():
    known = importlib.metadata.metadata("idcontrol").get_all("Provides-Extra")
    assert {claim.extra for claim in ALL} - {""} <= set(claims.EXTRAS) <= set(known)


def test_every_claim_names_a_test_and_says_something_of_its_own():
    assert all(claim.tests for claim in ALL)
    assert all((ROOT / test).is_file() for claim in ALL for test in claim.tests)
    assert len({claim.statement for claim in ALL}) == len(ALL)
