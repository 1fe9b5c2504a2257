"""Signals that request the end of a loop: raised before anything moves, stored afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from idcontrol.loop.stop import Interrupted, Stop


def test_a_signal_before_anything_moves_raises():
    with Stop():
        with pytest.raises(Interrupted) as interrupted:
            signal.raise_signal(signal.SIGTERM)
        assert interrupted.value.number == signal.SIGTERM


def test_a_signal_lost_or_renamed_by_the_interrupted_code_is_recovered():
    """A compiler's callbacks in C swallow the exception of a signal, and a different error follows."""

    def prepare(then):
        with Stop() as stop:
            with contextlib.suppress(Interrupted):
                signal.raise_signal(signal.SIGTERM)
            then(stop)

    def fail(stop):
        raise RuntimeError("no compiled object yet")

    for then in (Stop.begin, fail):
        with pytest.raises(Interrupted):
            prepare(then)


ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", ASKING)
def test_a_signal_is_reported_once_something_moves_and_the_old_handler_returns(number):
    before = [signal.getsignal(each) for each in (*ASKING, signal.SIGALRM)]
    with Stop() as stop:
        assert stop.heeded
        assert not stop.moving
        stop.begin()
        assert (stop.moving, stop.asked) == (True, 0)
        signal.raise_signal(number)
        assert stop.asked == number
    assert [signal.getsignal(each) for each in (*ASKING, signal.SIGALRM)] == before


def test_the_second_signal_ends_the_process_at_once():
    child = os.fork()
    if child == 0:
        with Stop() as stop:
            stop.begin()
            signal.raise_signal(signal.SIGTERM)
            if stop.asked == signal.SIGTERM:
                signal.raise_signal(signal.SIGTERM)
        os._exit(0)  # still here
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_a_closing_terminal_does_not_stop_a_loop_started_by_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.asked == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_alarm_is_passed_on_and_none_remains():
    rung = []
    with Stop() as stop:
        signal.raise_signal(signal.SIGALRM)  # no handler is called yet
        stop.on_alarm = lambda: rung.append(True)
        signal.raise_signal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 100.0)
    assert rung == [True]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_errors_without_a_signal_or_during_motion_are_raised_unchanged():
    def fail(moving):
        with Stop() as stop:
            if moving:
                stop.begin()
                signal.raise_signal(signal.SIGTERM)
            raise ZeroDivisionError

    for moving in (False, True):
        with pytest.raises(ZeroDivisionError):
            fail(moving)


def test_signals_do_not_reach_a_loop_in_another_thread():
    heeded = []

    def enter():
        with Stop() as stop:
            heeded.append(stop.heeded)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert heeded == [False]
