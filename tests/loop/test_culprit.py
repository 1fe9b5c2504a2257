"""A fault's message names the joint and its value."""

from __future__ import annotations

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.loop.culprit import culprit
from idcontrol.loop.safety import Fault, Policy

ROW = {
    "temperature": np.array([40.0, 81.54, np.nan]),
    "drive_error": np.array([0.0, 0.0, -7.0]),
    "voltage": np.array(20.94),
    "base_tilt": np.array(1.2),
    "tau_applied": np.array([1.0, 5.0, 0.0]),
    "tau": np.array([1.0, 9.5, 0.1]),
    "torque_off": np.array([-2.5, 0.5, 0.0]),
    "torque_lost": np.array([0.0, 0.314, 0.0]),
    "cut_ticks": np.array([2.0, 31.0, 0.0]),
    "doubted": np.array(2.0),
    "faults": np.array(float(Fault.ENCODER | Fault.HOT)),
}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.HOT, "knee: 81.5 °C"),
        (Fault.DRIVE, "toe: error 7"),
        (Fault.VOLTAGE, "20.9 V"),
        (Fault.TIPPED, "69°"),
        (Fault.MOTION, "hip: 2.5 N m off, or knee: 0.5 N m off"),
        (Fault.ASTRAY, "toe: 0.7 rad off"),
        (Fault.WEAK, "knee: 31% of the torque missing"),
        (Fault.CUT, "knee: 31 ticks in a row"),
        (Fault.ENCODER, "toe"),
        (Fault.HUNG, ""),
    ],
)
def test_the_worst_joint_and_its_value_are_named(fault: Fault, said: str) -> None:
    assert culprit(fault, ROW, np.array([0.0, 0.1, -0.7]), ["hip", "knee", "toe"]) == said


def test_a_doubted_joint_belongs_to_one_fault() -> None:
    row = ROW | {"doubted": np.array(1.0), "faults": np.array(float(Fault.TORQUE | Fault.SLIP))}
    assert culprit(Fault.TORQUE, row, np.zeros(3), ["hip", "knee", "toe"]) == "knee: 5 N m applied"
    assert culprit(Fault.SLIP, row, np.zeros(3), ["hip", "knee", "toe"]) == ""


@pytest.mark.parametrize(
    ("doubted", "said"), [(3, "the base's position or velocity"), (5, "the accelerometer"), (-1, "")]
)
def test_readings_of_the_base_are_named(doubted: int, said: str) -> None:
    row = ROW | {"doubted": np.array(float(doubted))}
    assert culprit(Fault.ENCODER, row, np.zeros(3), ["hip", "knee", "toe"]) == said


def test_values_that_are_not_measured_name_no_joint() -> None:
    row = ROW | {"temperature": np.full(3, np.nan)}
    assert culprit(Fault.HOT, row, np.zeros(3), ["hip", "knee", "toe"]) == ""


def test_a_voltage_range_that_contains_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="the first must be below the second"):
        Policy(voltage_v=(30.0, 20.0))
