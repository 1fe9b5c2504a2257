"""Why one may trust a torque: claims that physics decides, each measured anew on this computer.

Every claim compares a result of idcontrol with something independent of it: a weight, a textbook formula, brute force,
another simulator, the same bits twice. The machines are built here (`machines`), so that nothing but the library is
needed. The tests that a claim names go further, on real robots, with random input and for longer. To add a claim, write
a function that measures it, in the module of its part, and a `Claim` in the table below.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from idcontrol.trust import controllers, loop, models, own_units, peers, plants, records, solvers
from idcontrol.trust.claims import Claim, Verdict, weigh

__all__ = ["CLAIMS", "Claim", "Verdict", "weigh"]

CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "models": (
        Claim(
            statement="every contact model keeps momentum, forward and inverse",
            measure=models.lost_momentum,
            limit=1e-9,
            tests=(
                "tests/fuzz/test_laws.py::"
                "test_a_model_keeps_momentum_presses_stays_in_the_cone_and_lets_nothing_through",
            ),
        ),
        Claim(
            statement="rigid contacts push, never pull, and let nothing through",
            measure=models.pull_or_penetration,
            unit="m/s",
            limit=1e-8,
            tests=("tests/models/test_coulomb.py::test_whatever_is_remembered_the_laws_hold",),
        ),
        Claim(
            statement="friction impulses stay in their cones",
            measure=models.outside_the_cone,
            limit=1e-8,
            tests=(
                "tests/models/test_sap.py::test_the_impulse_is_the_printed_projection_and_lies_in_the_cone",
                "tests/models/test_sap.py::test_momentum_balances_and_impulses_follow_the_contact_law",
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
        Claim(
            statement="maximal dissipation is the optimum that Clarabel finds",
            measure=models.off_the_optimum,
            unit="m/s",
            limit=1e-6,
            extra="cvx",
            tests=(
                "tests/models/test_dissipation.py::test_the_velocity_is_the_projection_that_clarabel_finds",
                "tests/models/test_specification.py::test_the_fast_model_finds_the_motion_that_the_specification_does",
            ),
        ),
        Claim(
            statement="what is called solved obeys the law of each contact, however hostile the problem",
            measure=models.unlawful,
            limit=own_units.TOLERANCE,
            tests=("tests/trust/test_own_units.py::test_of_hostile_problems_none_is_answered_wrongly",),
        ),
        Claim(
            statement="every forward step is solved, as all of them have a solution",
            measure=models.unsolved,
            unit="unsolved steps",
            limit=0.0,
            tests=("tests/models/test_coulomb.py::test_of_ten_thousand_forward_problems_none_stays_unsolved",),
        ),
    ),
    "solvers": (
        Claim(
            statement="Lemke's method finds the solution that enumerating all bases finds",
            measure=solvers.lemke_and_enumeration,
            limit=1e-9,
            tests=(
                "tests/solvers/test_lemke.py::test_a_positive_definite_problem_has_the_solution_that_enumeration_finds",
            ),
        ),
        Claim(
            statement="the dual active set finds DAQP's minimum",
            measure=solvers.active_set_and_daqp,
            limit=1e-8,
            tests=(
                "tests/solvers/test_qp.py::test_every_backend_finds_the_same_minimum",
                "tests/solvers/test_active_set.py::test_the_minimum_is_clarabels",
            ),
        ),
        Claim(
            statement="principal pivoting finds the nearest point that Lawson and Hanson's NNLS finds",
            measure=solvers.pivoting_and_nnls,
            limit=1e-9,
            tests=(
                "tests/solvers/test_psd.py::test_the_projection_is_clarabels",
                "tests/solvers/test_psd.py::test_principal_pivoting_is_right_whenever_it_claims_to_be",
            ),
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
            statement="joints accelerate as demanded under the computed torques",
            measure=controllers.missed_acceleration,
            unit="m/s²",
            limit=1e-6,
            quick=True,
            tests=(
                "tests/controllers/test_inverse.py::test_the_machine_moves_as_predicted_when_fed_with_the_torque",
                "tests/controllers/test_inverse.py::test_in_the_air_joints_accelerate_as_feedback_asks",
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
            statement="predicted forces stay in their cones whatever is demanded",
            measure=controllers.cone_excess,
            limit=1e-8,
            tests=("tests/fuzz/test_laws.py::test_a_controller_keeps_limits_and_cones_and_forgets_when_it_is_reset",),
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
        Claim(
            statement="torques of convex controllers equal those of their programs as stated, solved by Clarabel",
            measure=controllers.off_the_statement,
            # a general solver leaves an error of about 1e-6, which the choice of the smallest torque amplifies
            limit=1e-4,
            extra="cvx",
            tests=(
                "tests/controllers/test_reference.py::test_torques_of_a_coherent_sequence_are_those_of_the_fast_solver",
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
            statement="a thrown body stops after v² / 2 μ g",
            measure=partial(plants.missed_stop, "coulomb-lcp"),
            # the first step brakes before it moves, which shortens the way by h v / 2
            limit=5e-3,
            tests=("tests/peers/test_bodies.py::test_a_thrown_block_slides_as_far_as_the_formula_says",),
        ),
        Claim(
            statement="a ball thrown without spin ends up rolling at 5/7 of its speed",
            measure=plants.missed_rolling,
            limit=1e-6,
            tests=(
                "tests/peers/test_bodies.py::"
                "test_a_ball_thrown_without_spin_ends_rolling_at_five_sevenths_of_its_speed",
            ),
        ),
        Claim(
            statement="the forces that a plant reports are the change of a thrown body's momentum",
            measure=plants.missed_impulse,
            limit=1e-9,
            tests=(
                "tests/plants/test_every_plant.py::test_momentum_changes_by_gravity_and_the_forces_that_are_read_back",
            ),
        ),
        Claim(
            statement="friction of a tumbling body stays in its cone",
            measure=plants.cone_excess,
            limit=1e-9,
            tests=("tests/plants/test_every_plant.py::test_friction_stays_in_its_cone",),
        ),
        Claim(
            statement="contact gives a tumbling body no energy",
            measure=plants.gained_energy,
            limit=1e-6,
            tests=("tests/plants/test_every_plant.py::test_a_thrown_sled_only_loses_energy_and_comes_to_rest",),
        ),
        Claim(
            statement="a tumbling body, and a machine that moves its legs, keep their angular momentum in flight",
            measure=plants.lost_spin,
            limit=1e-9,
            tests=(
                "tests/plants/test_stepping.py::test_a_tumbling_box_keeps_its_momenta_and_its_energy",
                "tests/plants/test_stepping.py::test_a_machine_whose_joints_move_keeps_its_momenta_in_flight",
            ),
        ),
        Claim(
            statement="bodies that collide in free space keep both momenta",
            measure=plants.lost_momentum,
            limit=1e-10,
            tests=(
                "tests/plants/test_free_bodies.py::test_collisions_in_free_space_keep_both_momenta_and_lose_energy",
            ),
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
            statement="fields of datagrams have the units of their description, as the motion of known bodies tells",
            measure=loop.wrong_units,
            # the sled's forces are those of a contact problem that was solved
            limit=1e-6,
            tests=(
                "tests/loop/test_wire.py::test_the_bytes_are_those_of_the_description",
                "tests/loop/test_wire.py::test_a_state_comes_through_whole",
            ),
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
            statement="a machine applies no torque beyond its limits, whatever it is sent",
            measure=loop.applied_excess,
            unit="N m",
            limit=0.0,
            tests=("tests/loop/test_wire.py::test_what_is_not_sound_is_dropped_and_counted",),
        ),
        Claim(
            statement="the brake removes energy, whatever the damping",
            measure=loop.energy_of_the_brake,
            limit=0.0,
            tests=("tests/loop/test_brake.py::test_without_gravity_the_brake_always_takes_energy_out",),
        ),
        Claim(
            statement="a loop that ends, and a machine that hears nothing, brake",
            measure=loop.missed_braking,
            limit=1e-9,
            tests=(
                "tests/loop/test_faults.py::test_a_damped_machine_brakes_its_joints",
                "tests/loop/test_faults.py::test_a_machine_whose_loop_was_killed_brakes_and_stops",
                "tests/loop/test_launch.py::test_a_loop_that_is_killed_leaves_a_braked_machine_and_a_readable_record",
            ),
        ),
        Claim(
            statement="the recorder keeps every row of a loop and of its machine, up to the last",
            measure=loop.rows_lost_by_the_recorder,
            unit="rows lost",
            limit=0.0,
            tests=("tests/loop/test_record.py::test_rows_in_pieces_of_any_size_leave_the_same_bytes",),
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
        Claim(
            statement="equal runs leave equal bytes",
            measure=records.differing_bytes,
            unit="bytes that differ",
            limit=0.0,
            tests=("tests/record/test_recording.py::test_equal_runs_give_equal_bytes_whatever_the_wall_time_was",),
        ),
    ),
    "peers": (
        Claim(
            statement="joints accelerate as demanded in Pinocchio's forward dynamics with the predicted forces",
            measure=peers.off_articulated_bodies,
            unit="m/s²",
            limit=1e-6,
            tests=(
                "tests/peers/test_quadruped.py::"
                "test_pinocchios_forward_dynamics_under_the_predicted_forces_gives_the_acceleration_that_was_asked",
            ),
        ),
        Claim(
            statement="a falling chain follows SciPy's integrator of order eight",
            measure=peers.off_the_flow,
            unit="rad",
            limit=1e-4,
            tests=("tests/peers/test_bodies.py::test_a_falling_chain_goes_where_an_integrator_of_high_order_takes_it",),
        ),
        Claim(
            statement="in MuJoCo the same sled presses with its weight",
            measure=partial(plants.missed_weight, "mujoco", steps=500),
            # soft contact comes to rest within a thousandth
            limit=1e-3,
            extra="mujoco",
            tests=("tests/peers/test_bodies.py::test_each_ball_of_a_column_carries_the_weight_of_those_above",),
        ),
        Claim(
            statement="in MuJoCo the same sled stops after v² / 2 μ g",
            measure=partial(plants.missed_stop, "mujoco"),
            # its soft friction creeps
            limit=2e-2,
            extra="mujoco",
            tests=("tests/peers/test_bodies.py::test_a_thrown_block_slides_as_far_as_the_formula_says",),
        ),
        Claim(
            statement="in Bullet the same sled stops after v² / 2 μ g",
            measure=partial(plants.missed_stop, "pybullet"),
            limit=5e-3,
            extra="bullet",
            tests=("tests/peers/test_bodies.py::test_a_thrown_block_slides_as_far_as_the_formula_says",),
        ),
    ),
}
"""All claims by part of the library."""
