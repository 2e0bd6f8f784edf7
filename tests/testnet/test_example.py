"""The example of docs/testnet.md, which is this file's text between the two lines."""

from pathlib import Path

import pytest
import trio

from zerorag_p2p.errors import UsageError
from zerorag_p2p.testnet.background import TestnetStarter

# Example begins.

HOSPITAL = ["Metformin is stopped when the eGFR falls below 30 ml/min."]


def test_the_clinic_learns_what_the_hospital_knows(zerorag_testnet):
    testnet = zerorag_testnet({"Clinic": [], "Hospital": HOSPITAL, "Hospice": []})
    with testnet.node("Clinic") as client:  # what an application does
        answer = client.query("When is metformin stopped?")
    (document,) = answer["documents"]
    assert document["owner"]["organisation"] == "Hospital"
    assert document["status"] == "verified"


def test_nobody_answers_for_a_hospital_that_is_down(zerorag_testnet):
    testnet = zerorag_testnet({"Clinic": [], "Hospital": HOSPITAL, "Hospice": []})
    with testnet.control() as control, testnet.node("Clinic") as client:
        control.kill("Hospital")
        assert not client.query("When is metformin stopped?")["documents"]
        control.restart("Hospital")
        assert client.query("When is metformin stopped?")["documents"]


async def test_the_same_within_trio(zerorag_testnet, autojump_clock):  # in virtual time
    documents = {"Clinic": [], "Hospital": HOSPITAL, "Hospice": []}
    async with zerorag_testnet.running(documents) as live:
        report = await live.query("Clinic", "When is metformin stopped?")
    assert report.documents[0].owner.organisation == "Hospital"


# Example ends.


def test_the_documentation_shows_this_example() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    example = text.partition("# Example begins.\n")[2].partition("# Example ends.\n")[0]
    docs = Path(__file__).parents[2] / "docs" / "testnet.md"
    assert example.strip() in docs.read_text(encoding="utf-8")


def test_what_a_testnet_cannot_do_is_named(zerorag_testnet: TestnetStarter) -> None:
    testnet = zerorag_testnet({"Clinic": [], "Hospital": HOSPITAL})
    with testnet.node("Clinic") as client:
        with pytest.raises(UsageError, match="fixed"):
            client.share("documents")
        assert client.status()["organisation"] == "Clinic"
        assert client.collections()[0]["name"] == "documents"
        assert client.documents() == []
        assert [row["organisation"] for row in client.peers()] == ["Hospital"]
    with pytest.raises(UsageError, match="no node 'Hospice'"):
        testnet.node("Hospice")


def test_a_testnet_that_cannot_start_says_why(zerorag_testnet: TestnetStarter) -> None:
    with pytest.raises(UsageError, match="holds no documents"):
        zerorag_testnet({"Clinic": []})


async def test_threads_do_not_mix_with_virtual_time(
    zerorag_testnet: TestnetStarter, autojump_clock: object
) -> None:
    with pytest.raises(UsageError, match="a thread was started"):
        async with zerorag_testnet.running({"Hospital": HOSPITAL, "Clinic": []}):
            await trio.to_thread.run_sync(lambda: None)
