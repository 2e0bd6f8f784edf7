"""The life of keys: rotation with overlap, several authorities, and what runs out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerorag_p2p.control import consortium, keys
from zerorag_p2p.control.setup import init_home
from zerorag_p2p.errors import (
    IntegrityError,
    KeyFileError,
    LocalError,
    RosterError,
)
from zerorag_p2p.home import Home
from zerorag_p2p.identity.enrolment import (
    JoinRequest,
    approve,
    create_roster,
    open_join_request,
    renew,
    revoke,
    sign_hand_over,
    sign_join_request,
)
from zerorag_p2p.identity.expiry import Expiring, expiring
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import (
    Member,
    Roster,
    Standing,
    accept_roster,
    open_roster,
    read_roster,
    sign_roster,
    standing,
)
from zerorag_p2p.model import Fingerprint
from zerorag_p2p.node.files import load_identity, load_peer_id
from zerorag_p2p.node.rotation import complete_rotation, due_key

ALICE, BOB, CAROL, DAVE = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3, 4))
NOW = 1_800_000_000
DAY = 86_400
MINILM = Fingerprint("all-MiniLM-L6-v2", "53aa", 384)


def founded() -> Roster:
    bob = Member(BOB.peer_id, "North", ("hospital",), NOW, NOW + 366 * DAY)
    return create_roster("sample", [ALICE.peer_id], fingerprints=[MINILM], members=[bob], now=NOW)


def request(
    new: Identity, old: Identity | None = None, *, organisation: str = "North", consortium: str = ""
) -> JoinRequest:
    hand_over = None
    if old is not None:
        title = consortium or founded().consortium
        hand_over = sign_hand_over(old, new.peer_id, consortium=title, now=NOW)
    data = sign_join_request(
        new,
        organisation=organisation,
        addresses=[],
        fingerprints=[MINILM],
        now=NOW,
        hand_over=hand_over,
    )
    return open_join_request(data)


def approved(roster: Roster, asked: JoinRequest, **changes: float) -> Roster:
    settings = {"not_after": NOW + 300 * DAY, "now": NOW + 10, "overlap_s": 14 * DAY, **changes}
    return approve(roster, asked, roles=(), **settings)  # type: ignore[arg-type]


class TestHandOver:
    def test_both_keys_are_members_for_the_overlap_and_the_old_one_runs_out(self) -> None:
        roster = approved(founded(), request(DAVE, BOB))
        new, old = roster.member(DAVE.peer_id), roster.member(BOB.peer_id)
        assert new is not None
        assert old is not None
        assert (new.organisation, new.roles) == ("North", ("hospital",))
        assert old.not_after == NOW + 10 + 14 * DAY
        for moment, expected in ((NOW + 11, Standing.MEMBER), (NOW + 20 * DAY, Standing.EXPIRED)):
            assert standing(roster, BOB.peer_id, moment) is expected
            assert standing(roster, DAVE.peer_id, moment) is Standing.MEMBER
        assert accept_roster(founded(), sign_roster(roster, ALICE), NOW + 10) == roster

    def test_the_overlap_prolongs_no_membership(self) -> None:
        roster = approved(founded(), request(DAVE, BOB), overlap_s=1_000 * DAY)
        old = roster.member(BOB.peer_id)
        assert old is not None
        assert old.not_after == NOW + 366 * DAY

    def test_the_same_request_prolongs_after_the_old_key_has_run_out(self) -> None:
        roster = approved(founded(), request(DAVE, BOB))
        again = approved(roster, request(DAVE, BOB), now=NOW + 100 * DAY, not_after=NOW + 500 * DAY)
        new = again.member(DAVE.peer_id)
        assert new is not None
        assert new.not_after == NOW + 500 * DAY

    @pytest.mark.parametrize(
        ("asked", "reason"),
        [
            (request(DAVE, CAROL), "which is not in the roster"),
            (request(DAVE, BOB, organisation="South"), "is of 'South' and cannot take"),
            (request(DAVE, BOB, consortium="other-1"), "hands over in other-1"),
        ],
    )
    def test_who_cannot_hand_over(self, asked: JoinRequest, reason: str) -> None:
        with pytest.raises(RosterError, match=reason):
            approved(founded(), asked)

    def test_a_revoked_key_hands_nothing_over(self) -> None:
        roster = revoke(founded(), BOB.peer_id, "stolen", NOW + 5)
        with pytest.raises(RosterError, match="it was revoked"):
            approved(roster, request(DAVE, BOB))

    def test_a_hand_over_is_for_one_key(self) -> None:
        stolen = sign_hand_over(BOB, DAVE.peer_id, consortium=founded().consortium, now=NOW)
        with pytest.raises(IntegrityError, match="is used by"):
            sign_join_request(
                CAROL,
                organisation="North",
                addresses=[],
                fingerprints=[MINILM],
                now=NOW,
                hand_over=stolen,
            )


class TestExpiry:
    @given(st.integers(0, 400 * DAY), st.integers(1, 366 * DAY), st.integers(1, 366 * DAY))
    def test_warns_of_what_ends_within_thirty_days_and_of_nothing_else(
        self, passed: int, membership: int, terms: int
    ) -> None:
        bob = Member(BOB.peer_id, "North", (), NOW, NOW + membership)
        roster = create_roster(
            "sample", [ALICE.peer_id], fingerprints=[MINILM], members=[bob], now=NOW
        )
        now = NOW + passed
        ends = {
            Expiring.ROSTER: roster.expires_at,
            Expiring.MEMBERSHIP: NOW + membership,
            Expiring.TERMS: NOW + terms,
        }
        found = expiring(roster, BOB.peer_id, now, terms={"notes": NOW + terms})
        assert {item.what for item in found} == {
            what for what, end in ends.items() if end <= now + 30 * DAY
        }
        for item in found:
            assert item.expires_at == ends[item.what]
            assert item.days_left == (item.expires_at - now) // DAY
            assert ("ran out" in item.sentence) == (item.expires_at < now)
        assert [item.expires_at for item in found] == sorted(item.expires_at for item in found)

    def test_a_stranger_has_no_membership_to_lose(self) -> None:
        found = expiring(renew(founded(), NOW), CAROL.peer_id, NOW + 500 * DAY)
        assert [item.what for item in found] == [Expiring.ROSTER]


@pytest.fixture
def homes(tmp_path: Path) -> list[Home]:
    made = []
    for name in ("north", "south", "east"):
        home = Home(tmp_path / name)
        init_home(home, organisation=name.title(), embedder="hashing")
        made.append(home)
    return made


class TestSeveralAuthorities:
    def test_two_of_three_found_change_and_hand_over(self, homes: list[Home]) -> None:
        north, south, east = homes
        others = [keys.create_authority(home)["authority"] for home in (south, east)]
        draft = consortium.create(north, "lab", authorities=others)
        assert not north.roster.exists()
        first = consortium.progress(north, draft)
        assert not first["complete"]
        (side,) = first["sides"]
        assert (side["signed"], side["needed"], side["authorities"]) == (1, 2, 3)
        assert sorted(side["missing"]) == sorted(others)
        with pytest.raises(RosterError, match="signed by 1 of its 3 authorities and needs 2"):
            consortium.install(north, draft, trusted=others[:1])

        complete = consortium.sign(south, draft)
        assert consortium.progress(north, complete)["complete"]
        for home in homes:
            consortium.install(home, complete, trusted=others[:1])

        asked = consortium.request(south)[0]
        proposal = consortium.approve(north, [asked])
        assert "new member: South" in consortium.changes(east, proposal)[0]
        with pytest.raises(RosterError, match="needs 2"):
            consortium.install(north, proposal)
        both = consortium.combine([consortium.sign(home, proposal) for home in (south, east)])
        assert len(read_roster(both).signatures) == 3
        for home in homes:
            consortium.install(home, both)

        handed = consortium.change_authorities(north, others, 2)
        rows = consortium.progress(north, handed)["sides"]
        assert [(row["signed"], row["needed"]) for row in rows] == [(0, 2), (1, 2)]
        for home in (south, east):
            assert not consortium.progress(north, handed)["complete"]
            handed = consortium.sign(home, handed)
        assert consortium.progress(north, handed)["complete"]
        for home in homes:
            consortium.install(home, handed)
        with pytest.raises(LocalError, match="is none of"):
            consortium.sign(north, consortium.renew(south))

    def test_one_authority_alone_is_enough_where_it_is_the_only_one(
        self, homes: list[Home]
    ) -> None:
        consortium.create(homes[0], "lab")
        assert open_roster(consortium.read(homes[0])).threshold == 1

    def test_what_is_in_force_is_not_signed_again(self, homes: list[Home]) -> None:
        north, south, _ = homes
        other = keys.create_authority(south)["authority"]
        draft = consortium.sign(south, consortium.create(north, "lab", authorities=[other]))
        for home in (north, south):
            consortium.install(home, draft, trusted=[other])
        with pytest.raises(RosterError, match="version 1 is in force"):
            consortium.sign(south, draft)

    def test_copies_of_different_rosters_are_not_combined(self, homes: list[Home]) -> None:
        north, south, _ = homes
        other = keys.create_authority(south)["authority"]
        draft = consortium.sign(south, consortium.create(north, "lab", authorities=[other]))
        consortium.install(north, draft, trusted=[other])
        with pytest.raises(RosterError, match="different rosters, of version 1 and 2"):
            consortium.combine([draft, consortium.renew(north)])

    def test_a_home_without_an_authority_signs_nothing(self, homes: list[Home]) -> None:
        north, south, east = homes
        other = keys.create_authority(south)["authority"]
        draft = consortium.create(north, "lab", authorities=[other])
        with pytest.raises(LocalError, match="has no authority's key"):
            consortium.sign(east, draft)


class TestRotation:
    def test_the_next_key_takes_its_place_once_it_is_a_member_and_others_know(
        self, homes: list[Home]
    ) -> None:
        north = homes[0]
        consortium.create(north, "lab")
        old = load_peer_id(north.key)
        made = keys.rotate(north)
        assert made["peer_id"] == old
        new = made["next_peer_id"]
        with pytest.raises(LocalError, match="a rotation is under way"):
            keys.rotate(north)
        roster = open_roster(consortium.read(north))
        assert due_key(north, roster, roster.issued_at) is None

        data, asked = consortium.request(north)
        assert asked["peer"] == new
        assert asked["hand-over"]["old"] == old
        consortium.install(north, consortium.approve(north, [data], overlap_days=3))
        roster = open_roster(consortium.read(north))
        member = roster.member(new)
        assert member is not None
        assert due_key(north, roster, member.not_before + 599) is None
        assert due_key(north, roster, member.not_before + 600) == north.next_key

        complete_rotation(north)
        assert load_peer_id(north.key) == new
        assert load_peer_id(north.previous_key) == old
        assert not north.next_key.exists()
        rows = {row["key"]: row for row in keys.show(north)}
        assert rows["identity"]["standing"] == rows["previous"]["standing"] == "member"
        assert rows["previous"]["until"] < rows["identity"]["until"]
        assert rows["authority"]["standing"] == "authority"

    def test_a_crash_between_the_two_steps_is_made_good(self, homes: list[Home]) -> None:
        north = homes[0]
        consortium.create(north, "lab")
        made = keys.rotate(north)
        # As far as a crash lets the first run come: the old key has both names.
        north.previous_key.hardlink_to(north.key)
        complete_rotation(north)
        assert load_peer_id(north.key) == made["next_peer_id"]
        assert load_peer_id(north.previous_key) == made["peer_id"]

    def test_the_next_key_of_an_encrypted_home_is_encrypted(
        self, homes: list[Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        north = homes[0]
        consortium.create(north, "lab")
        passphrase = tmp_path / "passphrase"
        passphrase.touch(mode=0o600)
        passphrase.write_text("correct horse battery\n")
        keys.encrypt(north, b"correct horse battery")
        with pytest.raises(KeyFileError, match="is encrypted"):
            keys.rotate(north)
        assert not north.next_key.exists()
        monkeypatch.setenv("ZERORAG_PASSPHRASE_FILE", str(passphrase))
        made = keys.rotate(north)
        rows = {row["key"]: row for row in keys.show(north)}
        assert rows["next"]["encrypted"]
        assert not rows["authority"]["encrypted"]
        assert load_identity(north.next_key).peer_id == made["next_peer_id"]

    def test_without_a_consortium_there_is_nothing_to_hand_over(self, homes: list[Home]) -> None:
        with pytest.raises(LocalError, match="has no roster"):
            keys.rotate(homes[0])
