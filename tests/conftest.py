"""What all tests have in common.

One thread of linear algebra, so that node processes can be forked and figures repeat; no width of a
terminal, so that tables are whole.
"""

from __future__ import annotations

import os

import pytest

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"


@pytest.fixture(autouse=True, scope="module")
def no_terminal() -> None:
    """Forget how wide a terminal is, or what other tests said of it."""
    os.environ.pop("COLUMNS", None)
