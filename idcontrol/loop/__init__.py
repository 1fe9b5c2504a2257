"""The fixed-rate loop that joins planner, controller and plant: on a clock of its own, or on the wall clock.

`simulated.ticks` is all that an experiment needs: plan, control, step, as fast as it goes. The rest of the package is
for controllers on real time, with the plant (or a robot) in another process and everything that can go wrong between.

Who talks to whom
-----------------
::

    planner, controller                              plant, or a robot
            │                                              │
    ControlLoop (real.py)  ── commands ──>          Machine (machine.py), a process of its own
       every period        <── states ────             every period of its own
            │                  Link                        │
          Ring (ring.py)       (transport/)              Ring
            └──────────────> recorder (record.py), a process of its own: folders of a run

- `clock` - absolute deadlines; missed beats are counted and skipped. Against a machine at ``--peer``, which has a clock
  of its own, beats follow its states: one begins when its state comes, a quarter of a period late at most, and the rate
  gives way by a hundredth at most. Which clock a loop is given is its pacing:
  `WallClock`, or `VirtualClock` (simulated time, as fast as possible or slowed down to the wall clock). A controller
  cannot tell: the nominal period is its `Setup.h`, the measured one the difference of two `State.t`.
- `wire` - the datagrams, byte by byte; ``idcontrol_wire.h`` is the same for C and C++ (``idcontrol loop --header``),
  and ``experiments/examples/machine.c`` a program that speaks them.
- `transport` - what carries them: within a process, shared memory, UDP. All judge alike what comes.
- `safety` - the state machine that both sides run, the policy of each fault, the last gate of torques. Pure.
- `life` - what a running loop does before planner and controller take over, and after them: stand up, and lie down.
- `order` - machines whose joints are in another order.
- `plausible` - whether what the machine says of itself can be.
- `brake` - what "damped" means: joint damping that is stable at any rate.
- `real`, `machine` - the two sides. `session` - what they run; `jobs`, `plant_process`, `record` - as processes.
- `realtime` - what is asked of the operating system. `launch` - all of it put together: ``idcontrol loop``.
- What the loop senses of its machine is decided in `idcontrol.sensing`.

What happens when
-----------------
================================  ===============================================================================
what goes wrong                   what happens (`safety.Policy` says after how many ticks in a row)
================================  ===============================================================================
datagrams lost, late, reordered   the last torque holds; braked where the newest news is older than 20 periods and
                                  20 ms. Drives go on holding the positions of the last impedance command until then
datagrams damaged, replayed, of   dropped and counted; as if lost
another robot, session, version,
a far-off number, out of range
control step too long, beats      the last torque holds at the machine; braked after 50 ticks in a row
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
by itself until its joints rest, or for three seconds. Where somebody attends the loop (a machine at ``--peer``,
without ``--arm``) it stays braked until Enter is pressed: it is ready again if nothing is wrong any more, and the next
Enter arms it. Torques never exceed their limits or rates, whatever is asked (`safety.admit`).

To put a robot of one's own behind the loop: let its driver speak `wire` over UDP (``--peer HOST:PORT``), or write a
`transport.Link`; ``idcontrol bus`` is the driver of robots that speak Unitree's messages. To run something else than
the trot: an object like `idcontrol.scenes.session.WalkLoop` under the entry points ``idcontrol.loops``.
"""
