"""What owners and askers see of rules, between whole nodes."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.node.lab import Lab, add, eventually
from zerorag_p2p.errors import ConfigError, LocalError, PolicyDenied
from zerorag_p2p.model import Purpose, Vector, View
from zerorag_p2p.node.happenings import EmergencyAccess, Happening, PolicyChanged
from zerorag_p2p.node.reports import DocumentStatus
from zerorag_p2p.node.runtime import Node
from zerorag_p2p.policy.sharing import Sharing
from zerorag_p2p.wire.query import QueryRequest

HEART, MIND = "heart failure and diuretics", "panic attacks and sleep"
NAMED = "heart failure of Mrs Catherine Okonkwo"


def lab_of(folder: Path, *names: str) -> Lab:
    return Lab(folder, "memory", names)


def write_rules(node: Node, text: str) -> None:
    node.home.policy.write_text(text)


async def put_in_force(node: Node, text: str) -> None:
    write_rules(node, text)
    await node.policy.reload()


def only_hash(node: Node, collection: str = "notes") -> str:
    (content_hash,) = node.library.vectors_to_advertise([collection])[1]
    return content_hash


async def test_rules_let_out_what_is_not_shared_and_keep_what_is(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob", "cid")
    async with AsyncExitStack() as stack:
        ann, bob, cid = [await stack.enter_async_context(lab.node(name)) for name in lab.names]
        add(bob, HEART, sharing=None)
        await put_in_force(
            bob,
            """
            [[rule]]
            name = "for Ann"
            effect = "allow"
            organisations = ["Ann"]
            purposes = ["treatment"]
            """,
        )
        (document,) = (await ann.query(HEART)).documents
        assert document.status is DocumentStatus.VERIFIED
        assert not (await ann.query(HEART, purpose=Purpose.HRESCH)).documents
        assert not (await cid.query(HEART)).documents
        with pytest.raises(PolicyDenied, match="no such document is available to you"):
            await cid.get(only_hash(bob), peer=bob.peer_id)
        bob.library.share("notes", Sharing())
        await put_in_force(
            bob, '[[rule]]\nname = "not Ann"\neffect = "deny"\norganisations = ["Ann"]'
        )
        assert not (await ann.query(HEART)).documents
        assert (await cid.query(HEART)).documents
        assert "rule 'not Ann' denies 'notes'" in await denial(ann, bob)


async def denial(asker: Node, owner: Node) -> str:
    """What the owner's operator reads about a denied fetch."""
    with pytest.raises(PolicyDenied):
        await asker.get(only_hash(owner), peer=owner.peer_id)
    return str([row["reason"] for row in owner.refusals() if row["request"] == "fetch"][-1])


async def test_a_changed_file_is_in_force_soon_and_a_bad_one_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, HEART)
        happened: list[Happening] = []
        with bob.watching(happened.append):
            write_rules(bob, '[[rule]]\nname = "nobody"\neffect = "deny"')
            await eventually(lambda: bob.status()["policy"]["rules"] == 1)
        assert [item for item in happened if isinstance(item, PolicyChanged)]
        assert not (await ann.query(HEART)).documents

        write_rules(bob, "[[rule]]\nname = 'nobody'")
        await eventually(lambda: "'effect' is missing" in bob.status()["policy"]["fault"])
        assert "the policy in force stays as it is" in caplog.text
        assert not (await ann.query(HEART)).documents
        with pytest.raises(ConfigError, match="'effect' is missing"):
            await bob.policy.reload()

        bob.home.policy.unlink()
        await eventually(lambda: "is gone" in bob.status()["policy"]["fault"])
        assert not (await ann.query(HEART)).documents
        await bob.policy.reload()
        assert bob.status()["policy"]["fault"] == ""
        assert (await ann.query(HEART)).documents


async def test_a_node_does_not_start_with_rules_that_it_cannot_read(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann")
    lab.homes["ann"].home.policy.write_text("[[rule]]")
    with pytest.raises(ConfigError, match="'name' is missing"):
        async with lab.node("ann"):
            pass


async def test_an_advertisement_follows_the_rules_at_once(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob", "cid")
    async with AsyncExitStack() as stack:
        ann, bob, cid = [await stack.enter_async_context(lab.node(name)) for name in lab.names]
        add(bob, HEART)

        def advertised_to(node: Node) -> int:
            held = node.core.peer.advertisements.get(bob.peer_id)
            return 0 if held is None else len(held.documents)

        await eventually(lambda: advertised_to(ann) == advertised_to(cid) == 1)
        await put_in_force(
            bob, '[[rule]]\nname = "not Cid"\neffect = "deny"\norganisations = ["Cid"]'
        )
        await eventually(lambda: advertised_to(ann) == advertised_to(cid) == 0)
        # Ann may still find it, and nobody tells Cid of it.
        assert (await ann.query(HEART)).documents
        report = await cid.query(HEART)
        assert not report.documents
        assert all(contact.evidence != "advertisement" for contact in report.contacts)


async def test_a_rule_about_questions_judges_a_fetch_by_its_question(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, HEART, sharing=None)
        await put_in_force(
            bob,
            f"""
            [[rule]]
            name = "about hearts"
            effect = "allow"
            near = ["{HEART}"]
            at_least = 0.6
            """,
        )
        (document,) = (await ann.query(HEART)).documents
        assert document.status is DocumentStatus.VERIFIED
        assert not (await ann.query(MIND)).documents
        assert "which one this is about is not known" in await denial(ann, bob)


async def test_a_count_tells_how_many_and_nothing_else(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob", "cid")
    async with AsyncExitStack() as stack:
        ann, bob, cid = [await stack.enter_async_context(lab.node(name)) for name in lab.names]
        add(bob, f"one {HEART}", f"two {HEART}", MIND, sharing=Sharing(view=View.COUNT))
        add(cid, f"three {HEART}", sharing=None)
        report = await ann.query(HEART, view=View.COUNT)
        assert report.count == 2
        assert report.documents == ()
        counts = {contact.organisation: contact.count for contact in report.contacts}
        assert counts == {"Bob": 2, "Cid": 0}
        assert (await ann.query(HEART, view=View.COUNT, at_least=-1.0)).count == 3
        assert not (await ann.query(HEART, view=View.TITLE)).documents
        assert bob.core.service.own_advertisement()[0].entries == ()


async def test_a_title_comes_without_what_the_text_is_about(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, HEART, sharing=Sharing(view=View.TITLE))
        (document,) = (await ann.query(HEART, view=View.TITLE)).documents
        assert document.status is DocumentStatus.VERIFIED
        assert (document.title, document.text) == (HEART[:20], "")
        assert not document.score_verified
        assert document.score == pytest.approx(0.05 * round(document.score / 0.05), abs=1e-9)
        assert not (await ann.query(HEART)).documents
        assert bob.core.service.own_advertisement()[0].entries == ()


GLASS = """
[[rule]]
name = "break glass"
effect = "emergency"
collections = ["notes"]
hours = 4
"""


async def test_emergency_access_needs_a_reason_raises_an_alarm_and_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    began = time.time()
    ahead = [0.0]

    def clock() -> float:
        return began + ahead[0]

    async with lab.node("ann", clock=clock) as ann:
        async with lab.node("bob", clock=clock) as bob:
            add(bob, HEART, sharing=None)
            await put_in_force(bob, GLASS)
            happened: list[Happening] = []
            with bob.watching(happened.append):
                assert not (await ann.query(HEART, purpose=Purpose.ETREAT)).documents
                assert not (await ann.query(HEART, reason="no kin")).documents
                assert bob.status()["emergencies"] == {"accesses": 0, "grants": 0}
                report = await ann.query(HEART, purpose=Purpose.ETREAT, reason="no kin")
            assert [item.status for item in report.documents] == [DocumentStatus.VERIFIED]
            alarms = [item for item in happened if isinstance(item, EmergencyAccess)]
            assert [(item.request, item.first) for item in alarms] == [
                ("query", True),
                ("fetch", False),
            ]
            assert {item.reason for item in alarms} == {"no kin"}
            assert {item.audit for item in alarms} == {report.audit}
            warned = [item.getMessage() for item in caplog.records if item.levelname == "WARNING"]
            assert any("emergency access: Ann" in message for message in warned)
            assert "no kin" not in caplog.text
            assert bob.status()["emergencies"] == {"accesses": 2, "grants": 1}
            assert bob.core.service.own_advertisement()[0].entries == ()

        # The time goes on while the node is down.
        ahead[0] = 4 * 3_600.0
        async with lab.node("bob", clock=clock) as bob:
            await eventually(lambda: ann.core.sessions.get(bob.peer_id) is not None)
            urgent = partial(ann.query, HEART, purpose=Purpose.ETREAT, reason="again")
            over = await urgent()
            assert [contact.outcome for contact in over.contacts] == ["answered"]
            assert not over.documents
            assert bob.core.service.emergencies.rearm(ann.peer_id) == 1
            assert (await urgent()).documents


async def test_what_is_allowed_anyway_raises_no_alarm(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, HEART)
        await put_in_force(bob, GLASS)
        assert (await ann.query(HEART, purpose=Purpose.ETREAT, reason="no kin")).documents
        assert bob.status()["emergencies"] == {"accesses": 0, "grants": 0}


async def test_damaged_grants_are_not_taken_for_none(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann")
    lab.homes["ann"].home.emergencies.write_bytes(b"\xff")
    with pytest.raises(LocalError, match=r"emergencies\.cbor is damaged"):
        async with lab.node("ann"):
            pass


async def test_a_question_never_reaches_whom_our_rules_keep_it_from(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob", "cid", "dan")
    async with AsyncExitStack() as stack:
        ann, bob, cid, dan = [await stack.enter_async_context(lab.node(name)) for name in lab.names]
        for node in (bob, cid, dan):
            add(node, f"{HEART} at {node.organisation}")
        await eventually(lambda: len(ann.core.peer.advertisements) == 3)
        await put_in_force(
            ann,
            f"""
            [[outbound]]
            name = "not to Bob"
            effect = "deny"
            organisations = ["Bob"]
            marks = ["private"]

            [[outbound]]
            name = "hearts to Cid"
            effect = "only"
            organisations = ["Cid"]
            near = ["{HEART}"]
            at_least = 0.6
            """,
        )
        both = await ann.query(HEART, marks=["private"])
        assert [contact.organisation for contact in both.contacts] == ["Cid"]
        assert [document.owner.organisation for document in both.documents] == ["Cid"]
        assert {member.organisation for member in both.withheld} == {"Bob", "Dan"}
        assert both.outbound == ("not to Bob", "hearts to Cid")
        marked = await ann.query(MIND, marks=["private"])
        assert {contact.organisation for contact in marked.contacts} == {"Cid", "Dan"}
        free = await ann.query(MIND)
        assert {contact.organisation for contact in free.contacts} == {"Bob", "Cid", "Dan"}
        assert free.outbound == ()
        assert bob.core.activity.counts.answered == 1


async def test_a_question_leaves_as_our_rules_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, "memory", ["ann", "bob"], routing="paper")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        add(bob, "a letter about heart failure")
        asked: list[QueryRequest] = []
        answer = bob.core.peer.answer

        def listen(request: QueryRequest, *others: object) -> object:
            asked.append(request)
            return answer(request, *others)  # type: ignore[arg-type]

        monkeypatch.setattr(bob.core.peer, "answer", listen)
        await put_in_force(
            ann,
            """
            [[outbound]]
            name = "careful"
            effect = "allow"
            purposes = ["treatment"]
            redact = ["identifiers"]
            remember = false
            pseudonym = true
            """,
        )
        text = "heart failure of Mrs Catherine Okonkwo, born 3 May 1951"
        reports = [await ann.query(text, user="dr-lee") for _ in range(2)]
        plain = await ann.query(text, user="dr-lee", purpose=Purpose.HRESCH)
        first, second, third = asked
        assert "Catherine" not in reports[0].sent
        assert "1951" not in reports[0].sent
        assert set(reports[0].removed) == {"name", "date"}
        assert reports[0].query == text
        expected = await ann.embed_question(reports[0].sent)
        assert (first.embedding == expected).all()
        assert not (third.embedding == expected).all()
        assert first.remember_until is None
        assert third.remember_until is not None
        assert len({first.user, second.user, "dr-lee"}) == 3
        assert third.user == plain.sent_as == "dr-lee"
        assert [report.sent_as for report in reports] == [first.user, second.user]
        assert bob.status()["remembered_queries"] == 1


@pytest.mark.parametrize(
    ("near", "elsewhere", "embedded"),
    [
        ("", False, ["heart failure of Mrs [name]"]),
        ("heart failure", False, [NAMED, "heart failure of Mrs [name]"]),
        ("heart failure", True, ["heart failure of Mrs [name]"]),
        ("the weather in May", False, [NAMED]),
        ("the weather in May", True, ["heart failure of Mrs [name]"]),
    ],
)
async def test_only_rules_on_example_questions_see_a_question_whole_and_on_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: str, elsewhere: bool, embedded: list[str]
) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob"):
        rule = '[[outbound]]\nname = "x"\neffect = "allow"\nredact = ["name"]\n'
        await put_in_force(ann, rule + (f'near = ["{near}"]\nat_least = 0.3' if near else ""))
        monkeypatch.setattr(type(ann.models), "elsewhere", elsewhere)
        seen: list[str] = []
        embed = ann.models.embed_question

        def listen(text: str) -> dict[str, Vector]:
            seen.append(text)
            return embed(text)

        monkeypatch.setattr(ann.models, "embed_question", listen)
        report = await ann.query(NAMED)
        assert seen == embedded
        assert report.sent == embedded[-1]
        await ann.embed_question(NAMED)  # as it is done to search our own documents
        assert seen[-1] == ("heart failure of Mrs [name]" if elsewhere else NAMED)


async def test_a_question_that_cannot_be_redacted_is_not_sent(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, "ann", "bob")
    async with lab.node("ann") as ann, lab.node("bob") as bob:
        await put_in_force(
            ann, '[[outbound]]\nname = "x"\neffect = "allow"\nredact = ["no such rule"]'
        )
        with pytest.raises(ConfigError, match="no such rule"):
            await ann.query(HEART)
        with pytest.raises(PolicyDenied, match="to be redacted"):
            await ann.core.query(HEART, await ann.embed_question(HEART))
        assert bob.core.activity.counts.answered == 0
