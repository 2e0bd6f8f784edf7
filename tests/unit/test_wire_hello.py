from dataclasses import replace

import pytest

from zerorag_p2p.model import Fingerprint, RefusalCode
from zerorag_p2p.wire.hello import Hello, check_hello, decode_hello_reply
from zerorag_p2p.wire.protocols import SUPPORTED
from zerorag_p2p.wire.refusal import Refusal, encode_refusal

MINILM = Fingerprint("all-MiniLM-L6-v2", "53aa51172d142c89", 384)
MPNET = Fingerprint("all-mpnet-base-v2", "78c0197b6159d92c", 768)
NOW_MS = 1_800_000_000_000
HELLO = Hello(
    consortium="north-1",
    roster_version=4,
    fingerprints=(MINILM,),
    protocols=SUPPORTED,
    clock_ms=NOW_MS,
    software="test",
    record=b"record",
)


def check(ours: Hello, theirs: Hello, *, we_dialled: bool = True) -> Fingerprint | Refusal:
    return check_hello(ours, theirs, we_dialled=we_dialled, now_ms=NOW_MS, tolerance_s=120)


def refusal_of(ours: Hello, theirs: Hello) -> Refusal:
    refusal = check(ours, theirs)
    assert isinstance(refusal, Refusal)
    # What is refused can be sent, whole.
    assert decode_hello_reply(encode_refusal(refusal)) == refusal
    return refusal


def test_peers_that_agree() -> None:
    assert check(HELLO, HELLO) == MINILM


def test_both_sides_choose_what_the_dialling_side_prefers() -> None:
    dialler = replace(HELLO, fingerprints=(MPNET, MINILM))
    other = replace(HELLO, fingerprints=(MINILM, MPNET))
    assert check(dialler, other, we_dialled=True) == MPNET
    assert check(other, dialler, we_dialled=False) == MPNET


def test_another_roster_version_is_no_obstacle() -> None:
    assert check(HELLO, replace(HELLO, roster_version=9)) == MINILM


def test_a_newer_version_of_a_protocol_is_no_obstacle() -> None:
    newer = replace(HELLO, protocols=(*SUPPORTED, "/zerorag/query/2.0.0", "/zerorag/new/1.0.0"))
    assert check(HELLO, newer) == MINILM


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        (
            {"consortium": "south-2"},
            RefusalCode.WRONG_CONSORTIUM,
            ["our consortium is 'north-1', yours is 'south-2'"],
        ),
        (
            {"fingerprints": (MPNET,)},
            RefusalCode.NO_COMMON_EMBEDDING,
            ["we use all-MiniLM-L6-v2@53aa51172d14", "you use all-mpnet-base-v2@78c0197b6159"],
        ),
        (
            {"fingerprints": (replace(MINILM, prefix="query: "),)},
            RefusalCode.NO_COMMON_EMBEDDING,
            ["no common embedding"],
        ),
        (
            {"protocols": ("/zerorag/query/2.0.0",)},
            RefusalCode.NO_COMMON_PROTOCOL,
            ["no common version of query", "/zerorag/query/1.0.0", "you speak /zerorag/query/2.0"],
        ),
        ({"protocols": ()}, RefusalCode.NO_COMMON_PROTOCOL, ["you speak nothing"]),
        (
            {"clock_ms": NOW_MS - 600_000},
            RefusalCode.CLOCK_SKEW,
            ["clock skew 600 s", "1800000000", "1799999400", "120 s are tolerated"],
        ),
        ({"clock_ms": NOW_MS + 121_000}, RefusalCode.CLOCK_SKEW, ["clock skew 121 s"]),
    ],
)
def test_refusals_name_both_sides(changes: dict, code: RefusalCode, named: list[str]) -> None:
    refusal = refusal_of(HELLO, replace(HELLO, **changes))
    assert refusal.code is code
    for text in named:
        assert text in refusal.reason


def test_a_clock_within_the_tolerance() -> None:
    assert check(HELLO, replace(HELLO, clock_ms=NOW_MS + 120_000)) == MINILM


def test_two_models_that_differ_only_in_their_prefix_are_told_apart() -> None:
    refusal = refusal_of(HELLO, replace(HELLO, fingerprints=(replace(MINILM, prefix="query: "),)))
    ours, theirs = refusal.reason.split("you use")
    assert MINILM.digest()[:8] in ours
    assert MINILM.digest()[:8] not in theirs


def test_long_lists_are_cut_on_both_sides() -> None:
    many = tuple(Fingerprint("m" * 100, str(number) * 20, 384) for number in range(4))
    refusal = refusal_of(replace(HELLO, fingerprints=many), replace(HELLO, fingerprints=(MINILM,)))
    assert "you use all-MiniLM-L6-v2" in refusal.reason


def test_control_characters_of_a_peer_do_not_reach_a_reason() -> None:
    hostile = replace(HELLO, fingerprints=(replace(MPNET, model="\x1b[2J"),))
    assert refusal_of(HELLO, hostile).reason.isprintable()
