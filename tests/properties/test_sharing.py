import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.errors import DecodeError
from zerorag_p2p.model import PeerId, Purpose, SharingTerms, View
from zerorag_p2p.policy.sharing import Sharing

purposes = st.lists(st.sampled_from(Purpose), unique=True).map(tuple)
sharings = st.builds(
    Sharing,
    members=st.lists(st.text(min_size=1, max_size=60), max_size=4).map(
        lambda names: tuple(PeerId(name) for name in names)
    ),
    purposes=purposes,
    view=st.sampled_from(View),
    advertise=st.booleans(),
    terms=st.builds(
        SharingTerms,
        copy=st.booleans(),
        reshare=st.booleans(),
        purposes=purposes,
        expires_at=st.none() | st.integers(0, 1 << 40),
    ),
)


@given(sharings)
def test_json_gives_back_the_same_sharing(sharing: Sharing) -> None:
    assert Sharing.from_json(json.loads(json.dumps(sharing.to_json()))) == sharing


@pytest.mark.parametrize(
    "change",
    [
        {"members": "everyone"},
        {"members": [1]},
        {"purposes": ["FUN"]},
        {"view": "all"},
        {"advertise": 1},
        {"terms": {}},
        {"extra": 1},
        {"terms": {"copy": True, "reshare": True, "purposes": [], "expires-at": -1}},
        {"terms": {"copy": True, "reshare": True, "purposes": [], "more": 1}},
    ],
)
def test_malformed_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(DecodeError, match="sharing"):
        Sharing.from_json({**Sharing().to_json(), **change})
    with pytest.raises(DecodeError):
        Sharing.from_json(None)
