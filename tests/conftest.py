"""What all tests have in common.

One thread of linear algebra, so that node processes can be forked and figures repeat; no width of a
terminal, so that tables are whole; no verdict of hypothesis on how fast the machine is.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

settings.register_profile("any-machine", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


@pytest.fixture(autouse=True, scope="module")
def no_terminal() -> None:
    """Forget how wide a terminal is, or what other tests said of it."""
    os.environ.pop("COLUMNS", None)
