"""The operator at a terminal: each step needs a word typed after the question."""

from __future__ import annotations

import os
import time

import pytest

from idcontrol.loop.launch import Terminal
from idcontrol.loop.safety import Mode


def typed(keyboard, text):
    """Type, and wait until the terminal has it."""
    os.write(keyboard, text.encode())
    time.sleep(0.05)


@pytest.mark.parametrize("mode", [Mode.READY, Mode.DAMPED])
def test_a_closed_terminal_asks_for_nothing(mode):
    keyboard, terminal = os.openpty()
    asks = Terminal(terminal)
    asks(Mode.READY)
    os.close(keyboard)
    assert not any(asks(mode) for _ in range(3))
    os.close(terminal)


def test_keys_pressed_before_a_step_is_asked_for_do_nothing(capfd):
    keyboard, terminal = os.openpty()
    asks = Terminal(terminal)
    typed(keyboard, "arm\n\narm\n")
    assert not any(asks(Mode.READY) for _ in range(5))
    typed(keyboard, "\n")
    assert not asks(Mode.READY)
    typed(keyboard, "recover\n")
    assert not asks(Mode.READY)
    typed(keyboard, "arm\narm\nrecover\n")
    assert asks(Mode.READY)
    assert not any(asks(mode) for mode in (Mode.ARMED, Mode.RUNNING, Mode.DAMPED, Mode.DAMPED, Mode.DAMPED))
    typed(keyboard, "recover\nrecover\narm\n")
    assert asks(Mode.DAMPED)
    assert not any(asks(Mode.READY) for _ in range(5))  # the last two words came before the question
    os.close(keyboard)
    os.close(terminal)
    # the recorder asks: a terminal that is stopped would hold up the loop
    assert capfd.readouterr() == ("", "")
