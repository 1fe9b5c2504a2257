"""Signals during the compilation of a kernel end the program like signals at any other time."""

import ctypes
import signal
import sys
import time
import weakref

import numba
import numpy as np
import pytest
from numba.core.codegen import CPUCodeLibrary

from idcontrol.errors import Terminated
from idcontrol.loop.stop import Interrupted, Stop
from idcontrol.record.interrupts import ctrl_c_is_heard, sigterm_is_heard
from idcontrol.record.recording import Recorder, load
from tests import GUARD_S


@pytest.fixture
def compile_and_signal(capfd):
    """Compile a kernel, send a signal from within the compiler's callback, and wait for the result."""
    # the first compilation loads Numba's tables; interrupted there, they would stay half-loaded for all other tests
    assert numba.njit(lambda x: x.shape[0])(np.zeros(3)) == 3

    def work(number):
        original, sent = CPUCodeLibrary._object_compiled_hook, []

        def hooked(module, buffer):
            if not sent:
                sent.append(number)
                signal.raise_signal(number)
            original(module, buffer)

        engine = numba.core.registry.cpu_target.target_context.codegen()._engine
        engine.set_object_cache(hooked, CPUCodeLibrary._object_getbuffer_hook)
        try:
            assert numba.njit(lambda x: x + 1.0)(np.float64(2.0)) == 3.0
            assert sent
            time.sleep(GUARD_S)  # which the signal ends
        finally:
            engine.set_object_cache(original, CPUCodeLibrary._object_getbuffer_hook)
            assert "Exception ignored" not in capfd.readouterr().err

    return work


def test_a_run_stopped_while_it_compiles_ends_properly(compile_and_signal, tmp_path):
    with pytest.raises(SystemExit) as ended, Recorder(tmp_path / "run", {"t": ()}, {}, {}):
        compile_and_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
    assert not load(tmp_path / "run").complete


class Finalized:
    def __init__(self, call):
        self.call = call

    def __del__(self):
        self.call()


def in_a_weak_reference(call):
    thing = Finalized(lambda: None)
    reference = weakref.ref(thing, lambda _: call())
    del thing
    assert reference() is None


def in_a_finalizer(call):
    Finalized(call)


def in_a_callback_from_c(call):
    ctypes.CFUNCTYPE(None)(call)()


@pytest.mark.parametrize("lost", [in_a_weak_reference, in_a_finalizer, in_a_callback_from_c])
@pytest.mark.parametrize(
    ("number", "heard", "kind"),
    [(signal.SIGTERM, sigterm_is_heard, Terminated), (signal.SIGINT, ctrl_c_is_heard, KeyboardInterrupt)],
)
def test_a_signal_whose_exception_python_drops_comes_again(capfd, lost, number, heard, kind):
    hook, handler = sys.unraisablehook, signal.getsignal(number)

    def work():
        lost(lambda: signal.raise_signal(number))
        time.sleep(GUARD_S)  # which the signal ends

    with pytest.raises(kind), heard():
        work()
    assert (sys.unraisablehook, signal.getsignal(number)) == (hook, handler)
    assert "Exception ignored" not in capfd.readouterr().err


def test_other_exceptions_that_python_drops_are_still_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    with sigterm_is_heard():
        in_a_finalizer(lambda: 1 / 0)
    assert [lost.exc_type for lost in reported] == [ZeroDivisionError]


def test_a_loop_stopped_while_it_compiles_ends_properly(compile_and_signal):
    with pytest.raises(Interrupted) as ended, Stop():
        compile_and_signal(signal.SIGTERM)
    assert ended.value.number == signal.SIGTERM


def test_ctrl_c_while_it_compiles_is_ctrl_c(compile_and_signal):
    with pytest.raises(KeyboardInterrupt), ctrl_c_is_heard():
        compile_and_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
