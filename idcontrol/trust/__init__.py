"""Why one may trust a torque: claims that physics decides, each measured anew on this computer.

Every claim compares a result of idcontrol with something independent of it: the judge of contact laws, a weight, a
textbook formula, Pinocchio's forward dynamics, the same bits twice. The machines are built in `idcontrol.problems`, so
that nothing but the library is needed. What a computer cannot change is left to the tests, and the tests that a claim
names go further: on real robots, with random input and for longer. To add a claim, write a function that measures it,
in the module of its part, and a `Claim` in the table below.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from idcontrol import judge
from idcontrol.trust import controllers, loop, models, plants, records
from idcontrol.trust.claims import Claim, Verdict, weigh

__all__ = ["CLAIMS", "Claim", "Verdict", "weigh"]

CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "models": (
        Claim(
            statement="steps are solved, and what is called solved obeys the law of each contact, however hostile",
            measure=models.unlawful,
            limit=judge.TOLERANCE,
            tests=(
                "tests/judge/test_hostile.py::test_of_hostile_problems_none_is_answered_wrongly",
                "tests/models/test_coulomb.py::test_of_ten_thousand_forward_problems_none_stays_unsolved",
            ),
        ),
        Claim(
            statement="contact alone never adds kinetic energy to a step",
            measure=models.gained_energy,
            limit=1e-9,
            tests=(
                "tests/models/test_coulomb.py::test_forward_problems_are_solved_exactly_and_contact_adds_no_energy",
                "tests/models/test_dissipation.py::"
                "test_impulses_satisfy_the_optimality_conditions_and_contact_adds_no_energy",
            ),
        ),
        Claim(
            statement="convex models, run forward under their inverse's torques, move as the inverse predicted",
            measure=models.missed_way_back,
            unit="m/s",
            limit=1e-6,
            tests=("tests/models/test_sap.py::test_the_inverse_fed_with_its_own_torques_moves_as_it_predicted",),
        ),
    ),
    "controllers": (
        Claim(
            statement="the forces that controllers predict at rest carry the weight",
            measure=controllers.missed_weight,
            # the compliant contacts of id-coulomb-qp-1, id-sap and id-constraint let the machine sink a little
            limit=1e-3,
            quick=True,
            tests=("tests/controllers/test_inverse.py::test_standing_the_predicted_forces_carry_the_weight",),
        ),
        Claim(
            statement="joints accelerate as demanded in Pinocchio's forward dynamics with the predicted forces",
            measure=controllers.missed_acceleration,
            unit="m/s²",
            limit=1e-6,
            quick=True,
            tests=(
                "tests/controllers/test_inverse.py::test_the_machine_moves_as_predicted_when_fed_with_the_torque",
                "tests/peers/test_quadruped.py::"
                "test_pinocchios_forward_dynamics_under_the_predicted_forces_gives_the_acceleration_that_was_asked",
            ),
        ),
        Claim(
            statement="torque limits hold whatever is demanded",
            measure=controllers.torque_excess,
            unit="N",
            limit=0.0,
            tests=(
                "tests/controllers/test_inverse.py::test_torque_limits_and_friction_cones_hold_whatever_is_asked",
                "tests/test_long_runs.py::test_random_commands_pushes_and_friction_break_nothing",
            ),
        ),
        Claim(
            statement="a state with a NaN gives zero torque and is forgotten",
            measure=controllers.trouble_with_nan,
            unit="controllers that fail",
            limit=0.0,
            tests=(
                "tests/controllers/test_inverse.py::test_a_state_that_is_not_finite_gives_zero_torque_and_is_forgotten",
            ),
        ),
        Claim(
            statement="equal runs give equal bits, with new controllers and with reset ones",
            measure=controllers.differing_bits,
            unit="numbers that differ",
            limit=0.0,
            tests=(
                "tests/test_determinism.py::test_a_controller_that_was_reset_is_a_new_one_to_the_last_bit",
                "tests/test_determinism.py::test_another_process_with_other_threads_and_hashes_computes_the_same_bits",
            ),
        ),
    ),
    "plants": (
        Claim(
            statement="a body at rest presses with its weight",
            measure=partial(plants.missed_weight, *plants.STIFF),
            limit=1e-6,
            quick=True,
            tests=("tests/plants/test_every_plant.py::test_a_resting_sled_presses_with_its_weight",),
        ),
        Claim(
            statement="a body slides down a slope with the acceleration g (sin θ - μ cos θ)",
            measure=plants.missed_slide,
            limit=1e-6,
            quick=True,
            tests=(
                "tests/plants/test_every_plant.py::"
                "test_a_slope_holds_the_sled_when_friction_suffices_and_lets_it_slide_as_the_formula_says",
            ),
        ),
        Claim(
            statement="contact gives a tumbling body no energy",
            measure=plants.gained_energy,
            limit=1e-6,
            tests=("tests/plants/test_every_plant.py::test_a_thrown_sled_only_loses_energy_and_comes_to_rest",),
        ),
        Claim(
            statement="in MuJoCo the same body presses with its weight",
            measure=partial(plants.missed_weight, "mujoco", steps=500),
            # soft contact comes to rest within a thousandth
            limit=1e-3,
            extra="mujoco",
            tests=("tests/peers/test_bodies.py::test_each_ball_of_a_column_carries_the_weight_of_those_above",),
        ),
    ),
    "loop": (
        Claim(
            statement="a datagram with a flipped bit, or cut short, is dropped",
            measure=loop.accepted_damage,
            unit="datagrams accepted",
            limit=0.0,
            tests=("tests/loop/test_wire.py::test_no_changed_byte_goes_unnoticed",),
        ),
        Claim(
            statement="no torque leaves the safety gate beyond its limit or its largest rate",
            measure=loop.passed_excess,
            limit=1e-12,
            tests=(
                "tests/loop/test_safety.py::test_whatever_is_asked_the_gate_keeps_every_limit",
                "tests/loop/test_safety.py::test_torques_and_their_rates_are_cut_from_a_hair_beyond_the_limit_on",
            ),
        ),
        Claim(
            statement="a loop that ends brakes its machine",
            measure=loop.missed_braking,
            limit=1e-9,
            tests=(
                "tests/loop/test_faults.py::test_a_damped_machine_brakes_its_joints",
                "tests/loop/test_faults.py::test_a_machine_whose_loop_was_killed_brakes_and_stops",
                "tests/loop/test_launch.py::test_a_loop_that_is_killed_leaves_a_braked_machine_and_a_readable_record",
            ),
        ),
    ),
    "records": (
        Claim(
            statement="a log cut at any byte keeps every whole block before the cut",
            measure=records.lost_to_a_cut,
            unit="cuts that lose more",
            limit=0.0,
            tests=(
                "tests/record/test_recording.py::test_a_log_cut_at_any_byte_gives_every_whole_block_before_the_cut",
                "tests/fuzz/test_records.py::test_any_file_cut_at_any_byte_leaves_what_can_be_read_or_one_line",
            ),
        ),
        Claim(
            statement="a record that was closed has every row, up to the last",
            measure=records.lost_at_the_end,
            unit="rows lost",
            limit=0.0,
            tests=("tests/record/test_recording.py::test_a_finished_run_reads_back_to_the_last_bit",),
        ),
        Claim(
            statement="a flipped bit in a log is never read as data",
            measure=records.believed_damage,
            unit="bits read as data",
            limit=0.0,
            tests=("tests/record/test_recording.py::test_a_flipped_bit_is_never_read_as_data",),
        ),
    ),
}
"""All claims by part of the library."""
