"""The doctor says what is missing and how to mend it; the trust table holds, and notices when it does not."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace

import pytest

from idcontrol import cli, doctor, trust
from idcontrol.loop.realtime import Granted


@pytest.fixture
def without(monkeypatch):
    """Let packages seem not to be installed."""
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
    """Leave the self-check out where something else is in question."""
    monkeypatch.setattr(doctor, "_physics", lambda: iter(()))


def named(findings):
    return {(finding.topic, finding.name): finding for finding in findings}


def test_this_machine_is_fit(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fit"]
    seen = {row["topic"] for row in told["findings"]}
    assert seen == {"versions", "extras", "CPU", "BLAS", "real time", "kernels", "physics"}
    assert all(row["remedy"] for row in told["findings"] if row["verdict"] != "fine")


def test_the_table_shows_each_topic_and_each_remedy(capsys, without, no_physics):
    without("viser")
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr()
    assert "pip install 'idcontrol[viz]'" in shown.out
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


def test_a_version_that_is_too_old_is_a_fault(monkeypatch, no_physics):
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9" if name == "numpy" else version(name))
    finding = named(doctor.examine())["versions", "numpy"]
    assert finding.verdict == "broken"
    assert finding.found == "0.9 does not fit >=2.0"


def test_what_the_operating_system_refuses_is_advice_with_the_line_that_allows_it(monkeypatch, no_physics):
    class Refused:
        def __enter__(self):
            return Granted(refused={"scheduler": "not permitted", "memory_lock": "too much"})

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(doctor, "undisturbed", Refused)
    found = named(doctor.examine())
    for name, word in (("priority", "rtprio 40"), ("locked memory", "memlock unlimited")):
        assert found["real time", name].verdict == "advice"
        assert word in found["real time", name].remedy


def test_threads_of_blas_are_noticed(monkeypatch, no_physics):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert named(doctor.examine())["BLAS", "threads"].verdict == "fine"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert named(doctor.examine())["BLAS", "threads"].remedy.startswith("export ")


def test_wrong_physics_is_a_fault(monkeypatch, capsys):
    monkeypatch.setattr(trust, "WALKER_MASS", 1.01 * trust.WALKER_MASS)
    assert cli.main(["doctor"]) == 1
    assert "carry the weight" in capsys.readouterr().err


def test_every_claim_of_the_trust_table_holds(capsys):
    assert cli.main(["trust", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"]
    assert [row["claim"] for row in told["claims"]] == [claim.statement for claim in trust.CLAIMS]
    assert all(row["figure"] <= row["limit"] for row in told["claims"])


@pytest.mark.parametrize("figure", [2.0, float("nan"), float("inf")])
def test_a_claim_that_is_missed_or_no_number_does_not_hold(figure, monkeypatch, capsys):
    wrong = replace(trust.CLAIMS[0], measure=lambda: figure, limit=1.0)
    monkeypatch.setattr(trust, "CLAIMS", (wrong,))
    assert cli.main(["trust"]) == 1
    assert wrong.statement in capsys.readouterr().err


def test_a_claim_that_cannot_be_measured_does_not_hold():
    def fail():
        raise ZeroDivisionError("no mass")

    verdict = trust.weigh(replace(trust.CLAIMS[0], measure=fail))
    assert not verdict.holds
    assert verdict.fault == "ZeroDivisionError: no mass"


@pytest.mark.parametrize("claim", ["presses with its weight", "slides down", "carry the weight"])
def test_claims_are_measured_against_something_outside(claim, monkeypatch):
    """Were gravity another one in the formulas than on the machines, they would fail."""
    monkeypatch.setattr(trust, "G", 9.83)
    (asked,) = (item for item in trust.CLAIMS if claim in item.statement)
    assert not trust.weigh(asked).holds
