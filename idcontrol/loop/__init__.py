"""The fixed-rate loop that joins planner, controller and plant, on a simulated clock or on the wall clock.

Experiments use only `simulated.ticks`: plan, control, step, as fast as possible. The rest of the package runs
controllers in real time, with the plant (or a robot) in another process, and handles all faults between the two.

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
1. Listen: `transport` takes datagrams, and `wire` is their format, byte by byte; ``idcontrol_wire.h`` is the same for C
   and C++ (``idcontrol loop --header``); the program ``experiments/examples/machine.c`` uses it. `order` maps machines
   whose joints are in another order.
2. Judge: `plausible` checks the state, and `observer` estimates it (`idcontrol.sensing`) if it is not measured.
3. Command: `life` decides whether the machine stands up, works or lies down; `control` calls planner and controller,
   and survives if they raise or hang.
4. Advance: `safety` is the state machine of both sides, a pure function, with the policy of each fault.
5. Gate: `gate` admits the setpoints; `brake` is joint damping that is stable at any rate, for the mode *damped*.
6. Send and record: `telemetry` fills the row of the tick, and `ring` hands it to the recorder.

- `clock` - absolute deadlines; missed ticks are counted and skipped. A machine at ``--peer`` has a separate clock, and
  the ticks follow its states: a tick begins when a state comes, at most a quarter of a period late, and the rate
  changes by at most a hundredth. The clock sets the pacing of a loop: `WallClock`, or `VirtualClock` (simulated time,
  as fast as possible or slowed down to the wall clock). Controllers run the same under both: the nominal period is
  `Setup.h`, the measured period is the difference of two `State.t`.
- `session` - the planner, controller and plant of an experiment; `jobs`, `plant_process`, `record` - the processes.
- `rehearsal` - a tick in advance, for warm caches. `realtime` - privileges of the operating system.
- `launch` - puts all parts together: ``idcontrol loop``.

What happens when
-----------------
================================  ===============================================================================
fault                             reaction (`safety.Policy` sets after how many ticks in a row)
================================  ===============================================================================
datagrams lost, late, reordered   the last torque holds; braked where the newest datagram is older than 20 periods
                                  and 20 ms. Drives go on holding the positions of the last impedance command until then
datagrams damaged, replayed, of   dropped and counted; as if lost
another robot, session, version,
a far-off number, out of range
control step too long, ticks      the last torque holds at the machine; braked after 50 ticks in a row
missed
controller hangs                  the machine brakes itself after 20 periods and 20 ms without a command;
                                  the loop interrupts the controller after 0.1 s and brakes too
controller raises, or returns     braked at once; the traceback is in the metrics
torques of another shape
controller returns a NaN          the last torque holds; braked after 5 ticks in a row
controller's status is failed     its torque is zero and is not sent: the last torque holds; braked after 5 ticks in
                                  a row
controller's status is fallback   its torque is sent; braked after 20 ticks in a row
machine killed or cut off         braked, as silence; then stopped. The machine's record says that it was cut off
loop killed                       the machine brakes, then stops; both records are readable
machine brakes by itself          braked
plant diverges                    it stops where it was within bounds last; the loop brakes
a joint is 0.1 rad off where its  the message is not used; braked after 5 ticks in a row
velocity leads; stands still for
20 ms while that says it moves
base leans by more than 1 rad     the torque is sent; braked after 5 ticks in a row; before the start, nothing is begun
joint 0.5 rad off its reference   the torque is sent; braked after 100 ticks in a row; before the start, nothing is
                                  begun
joints beyond their limits, feet  before the start alone: nothing is begun, and one line says what to move
that cannot follow the way up,
motors too weak for it
a drive reports an error          braked at once
a drive is hotter than 80 °C,     the torque is sent; braked after 100 ticks in a row
voltage outside of its limits
emergency stop pressed            braked at once; before the start, nothing is begun
quaternion's norm 0.001 off 1     the message is not used; braked after 5 ticks in a row
joints in another order, another  nothing is begun: one line says so, and which order was expected
model
clock jumps, process suspended,   braked
the machine's time goes back
recorder killed, disk full,       braked, and the exit status is 3 (2 where the disk is full);
recorder 10 s behind              ``--set loop.policy.recorder.then=hold`` goes on without a record
SIGINT, SIGTERM, SIGHUP, end      it comes to rest, lies down, and stops; one that cannot lie is braked. The record is
of the run                        complete; before anything moved there is none
================================  ===============================================================================

Braked is the mode *damped*: it ends in *stopped* when the joints rest, or after a second. The machine goes on braking
by itself until its joints rest, or for three seconds. A loop with an operator (a machine at ``--peer``, without
``--arm``) stays braked until Enter is pressed: it is ready again if there is no fault, and the next Enter arms it.
Torques never exceed their limits or rates, whatever the command (`safety.admit`).

To connect another robot, let its driver use `wire` over UDP (``--peer HOST:PORT``), or write a `transport.Link`;
``idcontrol bus`` is the driver of robots with Unitree's messages. To run another experiment than the trot, add an
object like `idcontrol.scenes.session.WalkLoop` to the entry points ``idcontrol.loops``.
"""
