"""Values of a few records among those of many: as np.isin says, in whatever order and number."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.reconciliation.log_comparison import find_in

VALUES = st.one_of(st.integers(0, 5), st.integers(2**64 - 3, 2**64 - 1))
COLUMN = st.lists(VALUES, max_size=12).map(lambda values: np.array(values, np.uint64))


@given(COLUMN, st.lists(COLUMN, max_size=3))
def test_find_in_says_what_isin_says(few: np.ndarray, many: list[np.ndarray]) -> None:
    """Also without values, and with the greatest ones."""
    whole = np.concatenate([np.empty(0, np.uint64), *many])
    found = find_in(few, many)
    assert found.dtype == np.bool_ and found.tolist() == np.isin(few, whole).tolist()
