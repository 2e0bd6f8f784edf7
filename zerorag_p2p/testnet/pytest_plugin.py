"""The pytest fixture `zerorag_testnet`: a small consortium for the tests of an application.

pytest finds it by itself once the package is installed (docs/testnet.md has an example). Nothing
but this module is imported until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zerorag_p2p.testnet.background import TestnetStarter


@pytest.fixture
def zerorag_testnet() -> Iterator[TestnetStarter]:
    """Starts testnets: `zerorag_testnet({"Clinic": [], "Hospital": ["a text"]})`."""
    from zerorag_p2p.testnet.background import TestnetStarter

    starter = TestnetStarter()
    yield starter
    starter.close()
