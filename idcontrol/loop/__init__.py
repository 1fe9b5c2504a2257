"""The fixed-rate loop that joins planner, controller and plant, on a simulated clock or on the wall clock.

`simulated.ticks` suffices for simulations: plan, control, step, as fast as possible. The rest of the package runs
controllers in real time against a plant in another process or a robot, and reacts to faults of both sides.

The two sides
-------------
::

    planner, controller                              plant, or a robot
            │                                              │
    ControlLoop (real.py)  ── commands ──>          Machine (machine.py), in a separate process
       every period        <── states ────             every period of the plant
            │                  Link                        │
          Ring (ring.py)       (transport/)              Ring
            └──────────────> recorder (record.py), a separate process: folders of a run

A tick of the loop, and its modules
-----------------------------------
1. Listen: `transport` receives datagrams. `wire` defines their format byte by byte; ``idcontrol_wire.h`` is the same
   format for C and C++ (``idcontrol loop --header``), and ``experiments/examples/machine.c`` is a program that uses it.
   `order` converts the values for machines with a different order of joints.
2. Judge: `plausible` checks the state, `motion` compares it with the torques that were sent, and `observer` estimates
   unmeasured parts of it (`idcontrol.sensing`).
3. Command: `life` decides whether the machine stands up, works or lies down; `control` calls planner and controller,
   and handles their exceptions and hangs.
4. Advance: `safety` is the state machine that both sides run, with the reaction to each fault. It has no side effects.
5. Gate: `gate` admits the setpoints; `brake` is joint damping that is stable at any rate, for the mode *damped*.
6. Send and record: `telemetry` is the row of the tick; `ring` passes it to the recorder.

- `clock` - absolute deadlines; missed ticks are counted and skipped. A machine at ``--peer`` has a separate clock, so
  the ticks follow its states: a tick waits for a state, at most until a quarter of a period after its deadline, and the
  rate changes by at most one percent. `WallClock` is real time; `VirtualClock` is simulated time, as fast as
  possible or slowed down to the wall clock. Controllers run unchanged on both: their nominal period is `Setup.h`, and
  the difference of two `State.t` is the measured period.
- `session` - the planner, controller and plant of an experiment. `plant_process` and `record` - the processes that a
  loop starts; `jobs` - the input that they read when they start.
- `own` - planners and estimators of users, for ``--planner`` and ``--estimator``.
- `rehearsal` - a tick whose commands are not sent, shortly before each tick, for warm caches. `realtime` - privileges
  of the operating system.
- `launch` - the command ``idcontrol loop``, which assembles these parts.

Faults and reactions
--------------------
================================  ===============================================================================
fault                             reaction (`safety.Policy` sets after how many ticks in a row)
================================  ===============================================================================
datagrams lost, late, reordered   the last torque holds; braked if the newest datagram is older than both 20
                                  periods and 20 ms. Until then, drives hold the positions of the last impedance
                                  command
datagrams damaged, replayed, of   dropped and counted, with the same effect as lost datagrams
another robot, session, version,
with a number far ahead, out of
range
control step too long, ticks      the last torque holds at the machine; braked after 50 ticks in a row
missed
controller hangs                  the machine brakes itself after 20 periods, at least 20 ms, without a command;
                                  the loop interrupts the controller after 0.1 s and also brakes
controller raises, or returns     braked immediately; the traceback is in traceback.txt
torques of another shape
controller returns a NaN          the last torque holds; braked after 5 ticks in a row
controller's status is failed     its torque is zero and is not sent: the last torque holds; braked after 5 ticks in
                                  a row
controller's status is fallback   its torque is sent; braked after 20 ticks in a row
machine killed or disconnected    braked as after silence, then stopped. The machine's record is marked as cut off
loop killed                       the machine brakes, then stops; both records are readable
machine brakes by itself          braked
plant diverges                    it stops at its last state within bounds; the loop brakes
a joint is 0.02 rad from its      the message is not used; braked after 5 ticks in a row
predicted position
a joint's position is constant    the same
for 20 ms although its velocity
adds up to 0.01 rad, or although
torque and reference change
the same faults of the base's     the same
orientation, except the rule on
torque; or orientation and
angular velocity are constant
while a joint moves
a drive does not apply the        the torque is sent; braked after 20 ticks in a row
torque that was sent
the motion contradicts the        the torque is sent; braked after 5 ticks in a row
torque of one joint
the gate cuts torques to limits   braked after 0.2 s
the gate cuts gains or targets    braked after 0.03 s
or rates in every tick
the machine's time stands still   braked after 20 periods, at least 20 ms
in its datagrams
base leans by more than 1 rad     the torque is sent; braked after 5 ticks in a row; before torques flow, the start is
                                  refused
joint 0.5 rad off its reference   the torque is sent; braked after 100 ticks in a row; before torques flow, the start
                                  is refused
joints beyond their limits, feet  checked only before the start: it is refused, and one line names the joints to move
that cannot follow the path up,
motors too weak for it
a drive reports an error          braked immediately
drive too hot (default 80 °C),    the torque is sent; braked after 100 ticks in a row
voltage outside its limits
emergency stop pressed            braked immediately; before torques flow, the start is refused
quaternion's norm 0.001 off 1     the message is not used; braked after 5 ticks in a row
joints in another order, another  the start is refused; one line gives the expected order
model
clock jumps, process suspended,   braked
the machine's time jumps
recorder killed, disk full,       braked, and the exit status is 3 (2 if the disk is full);
recorder 10 s behind              ``--set loop.policy.recorder.then=hold`` continues without a record
SIGINT, SIGTERM, SIGHUP, end      the machine comes to rest, lies down, and stops; a machine that cannot lie is
of the run                        braked. The record is complete; if nothing has moved, there is no record
================================  ===============================================================================

Braked is the mode *damped*: it ends in *stopped* when the joints rest, or after a second. The machine continues to
brake by itself until its joints rest, or for 20 s; a simulated machine only until its base lies still. A loop with an
operator (a machine at ``--peer``, without ``--arm``) stays braked until the operator types ``recover``. If there is no
fault it is then ready again, and ``arm`` arms it. Whatever is commanded, the loop sends only torques within their
limits and rates (`safety.admit`). Only the mode *stopped* ends all torques at once.

To connect another robot, let its driver use `wire` over UDP (``--peer HOST:PORT``), or write a `transport.Link`;
``idcontrol bus`` is the driver of robots with Unitree's messages. To run an experiment other than the trot, register an
object like `idcontrol.scenes.session.WalkLoop` as an entry point of ``idcontrol.loops``.
"""
