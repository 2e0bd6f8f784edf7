import os
from collections.abc import Iterator

import pytest

from tests.integrations.stub_node import StubNode, document, serving

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"


@pytest.fixture
def node() -> Iterator[StubNode]:
    """A scripted node with one text of two owners, and one that an owner refused to show."""
    with serving() as stub:
        stub.documents = [
            document("General", "Metformin dose in renal failure", score=0.9),
            document("Clinic", "Metformin dose in renal failure", score=0.9),
            document("Other", "withheld", status="denied", score=0.8),
            document("General", "Sepsis in children", score=0.5),
        ]
        yield stub
