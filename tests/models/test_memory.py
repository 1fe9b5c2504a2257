"""The memory of the last step identifies contacts by their identity, for any order and number."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.kernels.arena import HEAP
from idcontrol.models.memory import MOST, as_warm_start, memory, recall, remember, store

IDENTITIES = st.lists(st.integers(0, 40), unique=True, max_size=30)


@settings(deadline=None)  # the first example compiles
@given(before=IDENTITIES, now=IDENTITIES)
def test_contacts_are_recalled_as_from_a_dictionary(before, now):
    last = memory()
    warm = {identity: 7 * identity + 1 for identity in before}
    store(last, warm)
    assert as_warm_start(last) == warm
    bits = recall(last, np.array(now, dtype=np.int64), HEAP)
    assert bits.tolist() == [warm.get(identity, 0) for identity in now]


def test_contacts_beyond_the_memory_start_cold():
    last, identity = memory(), np.arange(MOST + 5)
    remember(last, identity, np.ones(MOST + 5, dtype=np.int64))
    bits = recall(last, identity, HEAP)
    assert bits[:MOST].all()
    assert not bits[MOST:].any()
