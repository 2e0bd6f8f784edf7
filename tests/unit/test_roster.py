from __future__ import annotations

import dataclasses

import pytest

from zerorag_p2p import cbor
from zerorag_p2p.errors import RosterError, UsageError
from zerorag_p2p.identity.enrolment import (
    JoinRequest,
    approve,
    change_authorities,
    consortium_id,
    create_roster,
    open_join_request,
    renew,
    revoke,
    sign_join_request,
)
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.identity.roster import (
    Member,
    Roster,
    RosterState,
    Standing,
    accept_roster,
    add_signature,
    open_roster,
    read_roster,
    roster_state,
    sign_roster,
    standing,
)
from zerorag_p2p.model import Fingerprint

ALICE, BOB, CAROL, DAVE = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3, 4))
NOW = 1_800_000_000
DAY = 86_400
MINILM = Fingerprint("all-MiniLM-L6-v2", "53aa", 384)
MPNET = Fingerprint("all-mpnet-base-v2", "78c0", 768)


def founded(*authorities: Identity, threshold: int = 1) -> Roster:
    return create_roster(
        "sample",
        [identity.peer_id for identity in authorities or (ALICE,)],
        fingerprints=[MINILM],
        now=NOW,
        threshold=threshold,
        lifetime_s=90 * DAY,
        grace_s=14 * DAY,
    )


def request(identity: Identity, organisation: str = "North Hospital") -> JoinRequest:
    data = sign_join_request(
        identity,
        organisation=organisation,
        addresses=["/ip4/192.0.2.1/tcp/4001"],
        fingerprints=[MINILM],
        now=NOW,
    )
    return open_join_request(data)


def joined(roster: Roster, identity: Identity, now: float = NOW) -> Roster:
    return approve(
        roster, request(identity), roles=["hospital"], not_after=NOW + 366 * DAY, now=now
    )


class TestEnrolment:
    def test_request_approve_revoke(self) -> None:
        roster = joined(founded(), BOB, NOW + 10)
        assert roster.version == 2
        assert roster.member(BOB.peer_id) == Member(
            peer=BOB.peer_id,
            organisation="North Hospital",
            roles=("hospital",),
            not_before=NOW + 10,
            not_after=NOW + 366 * DAY,
            addresses=("/ip4/192.0.2.1/tcp/4001",),
        )
        roster = revoke(roster, BOB.peer_id, "left", NOW + 20)
        assert roster.version == 3
        assert roster.member(BOB.peer_id) is None
        former = roster.former_member(BOB.peer_id)
        assert former is not None
        assert (former.organisation, former.date, former.reason) == (
            "North Hospital",
            NOW + 20,
            "left",
        )
        assert open_roster(sign_roster(roster, ALICE)) == roster

    def test_approving_a_member_again_prolongs_and_keeps_its_beginning(self) -> None:
        roster = joined(joined(founded(), BOB, NOW), BOB, NOW + 100)
        assert len(roster.members) == 1
        assert roster.members[0].not_before == NOW

    def test_a_revoked_key_does_not_come_back(self) -> None:
        roster = revoke(joined(founded(), BOB), BOB.peer_id, "key stolen", NOW)
        with pytest.raises(RosterError, match=r"key stolen.*new identity"):
            joined(roster, BOB)

    def test_a_stranger_cannot_be_revoked(self) -> None:
        with pytest.raises(RosterError, match="not a member"):
            revoke(founded(), BOB.peer_id, "left", NOW)

    def test_an_authority_cannot_be_revoked_as_a_member(self) -> None:
        with pytest.raises(RosterError, match="change the authorities first"):
            revoke(joined(founded(), ALICE), ALICE.peer_id, "left", NOW)

    def test_a_peer_without_a_common_embedding_is_not_approved(self) -> None:
        stranger = dataclasses.replace(request(BOB), fingerprints=(MPNET,))
        with pytest.raises(RosterError, match=r"all-mpnet-base-v2.*all-MiniLM-L6-v2"):
            approve(founded(), stranger, roles=[], not_after=NOW + DAY, now=NOW)
        migrating = renew(founded(), NOW, fingerprints_next=[MPNET])
        assert approve(migrating, stranger, roles=[], not_after=NOW + DAY, now=NOW).members

    def test_every_version_renews(self) -> None:
        assert joined(founded(), BOB, NOW + 10 * DAY).expires_at == NOW + 100 * DAY
        renewed = renew(founded(), NOW + DAY, lifetime_s=7 * DAY)
        assert (renewed.version, renewed.expires_at) == (2, NOW + 8 * DAY)

    def test_two_consortia_of_one_name_have_different_ids(self) -> None:
        assert founded(ALICE).consortium != founded(BOB).consortium
        assert founded(ALICE, BOB).consortium == founded(BOB, ALICE).consortium
        assert founded().consortium.startswith("sample-")

    @pytest.mark.parametrize("name", ["", "Sample", "a b", "-a", "a-", "x" * 65, "a\n"])
    def test_malformed_consortium_names_are_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match="cannot name a consortium"):
            consortium_id(name, [ALICE.peer_id])

    def test_nobody_signs_a_request_that_others_would_refuse(self) -> None:
        with pytest.raises(UsageError, match="organisation"):
            request(BOB, organisation="")


class TestStanding:
    def test_follows_the_dates_and_the_revocation(self) -> None:
        roster = joined(founded(), BOB, NOW + 10)
        end = NOW + 366 * DAY
        assert standing(roster, BOB.peer_id, NOW + 9.9) is Standing.NOT_YET
        assert standing(roster, BOB.peer_id, NOW + 10) is Standing.MEMBER
        assert standing(roster, BOB.peer_id, end - 0.1) is Standing.MEMBER
        assert standing(roster, BOB.peer_id, end) is Standing.EXPIRED
        assert standing(roster, CAROL.peer_id, NOW) is Standing.UNKNOWN
        revoked = revoke(roster, BOB.peer_id, "left", NOW + 20)
        assert standing(revoked, BOB.peer_id, NOW + 20) is Standing.REVOKED

    def test_every_standing_can_be_described(self) -> None:
        assert len({item.describe() for item in Standing}) == len(Standing)

    def test_roster_passes_through_grace_to_its_end(self) -> None:
        roster = founded()
        assert roster_state(roster, NOW) is RosterState.VALID
        assert roster_state(roster, roster.expires_at) is RosterState.GRACE
        assert roster_state(roster, roster.expires_at + roster.grace_s) is RosterState.EXPIRED


class TestSignatures:
    def test_authorities_sign_one_after_the_other(self) -> None:
        roster = founded(ALICE, BOB, CAROL, threshold=2)
        data = sign_roster(roster, CAROL)
        with pytest.raises(RosterError, match="signed by 1 of its 3 authorities and needs 2"):
            open_roster(data)
        assert read_roster(data).roster == roster
        data = add_signature(data, ALICE)
        assert open_roster(data) == roster
        assert data == sign_roster(roster, ALICE, CAROL)

    def test_signing_twice_counts_once(self) -> None:
        data = sign_roster(founded(ALICE, BOB, threshold=2), ALICE)
        with pytest.raises(RosterError, match="signed by 1"):
            open_roster(add_signature(data, ALICE))

    def test_strangers_do_not_count(self) -> None:
        with pytest.raises(RosterError, match="signed by 0"):
            open_roster(sign_roster(founded(), BOB, CAROL))

    def test_nothing_is_added_to_a_roster_with_a_bad_signature(self) -> None:
        data = bytearray(sign_roster(founded(), ALICE))
        data[-1] ^= 1
        with pytest.raises(RosterError, match="does not verify"):
            add_signature(bytes(data), BOB)

    def test_a_signature_is_added_to_the_bytes_that_others_signed(self) -> None:
        roster = founded(ALICE, BOB, threshold=2)
        data = sign_roster(roster, ALICE)
        extended = cbor.decode(data, limit=1 << 20) | {"x-note": "lost, unlike what is signed"}
        assert open_roster(add_signature(cbor.encode(extended), BOB)) == roster

    @pytest.mark.parametrize("data", [b"", b"\xa0", b"\xff" * 100, cbor.encode({"roster": b""})])
    def test_malformed_rosters_say_so(self, data: bytes) -> None:
        with pytest.raises(RosterError, match="malformed roster"):
            open_roster(data)

    def test_nobody_signs_a_roster_that_others_would_refuse(self) -> None:
        roster = revoke(joined(founded(), BOB), BOB.peer_id, "two\nlines", NOW)
        with pytest.raises(RosterError, match="cannot be printed"):
            sign_roster(roster, ALICE)


class TestAcceptance:
    def test_the_first_roster_needs_a_trusted_authority(self) -> None:
        data = sign_roster(founded(), ALICE)
        assert accept_roster(None, data, NOW, trusted_authorities=[ALICE.peer_id]) == founded()
        with pytest.raises(RosterError, match="name the authorities that you trust"):
            accept_roster(None, data, NOW)
        with pytest.raises(RosterError, match=f"not signed by {BOB.peer_id}"):
            accept_roster(None, data, NOW, trusted_authorities=[BOB.peer_id])

    def test_every_authority_named_as_trusted_has_to_have_signed(self) -> None:
        # Carol, alone, makes a roster of her own and names herself its only authority.
        data = sign_roster(founded(CAROL), CAROL)
        with pytest.raises(RosterError, match="not signed by"):
            accept_roster(
                None, data, NOW, trusted_authorities=[ALICE.peer_id, BOB.peer_id, CAROL.peer_id]
            )

    def test_newer_versions_replace_older_ones_and_skipping_is_fine(self) -> None:
        current = founded()
        newer = joined(joined(current, BOB), CAROL)
        assert accept_roster(current, sign_roster(newer, ALICE), NOW) == newer

    def test_the_same_roster_changes_nothing(self) -> None:
        current = founded()
        assert accept_roster(current, sign_roster(current, ALICE), NOW) is current

    def test_going_back_is_refused(self) -> None:
        current = joined(founded(), BOB)
        with pytest.raises(RosterError, match="goes back to version 1, we hold 2"):
            accept_roster(current, sign_roster(founded(), ALICE), NOW)

    def test_a_fork_is_refused(self) -> None:
        current, other = joined(founded(), BOB), joined(founded(), CAROL)
        with pytest.raises(RosterError, match="two different rosters of version 2"):
            accept_roster(current, sign_roster(other, ALICE), NOW)

    def test_another_consortium_is_refused(self) -> None:
        other = joined(founded(BOB), CAROL)
        with pytest.raises(
            RosterError, match=f"{other.consortium}, ours is {founded().consortium}"
        ):
            accept_roster(founded(), sign_roster(other, BOB), NOW)

    def test_a_roster_that_only_its_own_authorities_signed_does_not_take_over(self) -> None:
        usurped = change_authorities(founded(), [BOB.peer_id], 1, NOW)
        with pytest.raises(RosterError, match="signed by 0 of the authorities of version 1"):
            accept_roster(founded(), sign_roster(usurped, BOB), NOW)

    def test_authorities_hand_over_when_both_sides_sign(self) -> None:
        handed_over = change_authorities(founded(), [BOB.peer_id], 1, NOW)
        with pytest.raises(RosterError, match="signed by 0 of its 1"):
            accept_roster(founded(), sign_roster(handed_over, ALICE), NOW)
        current = accept_roster(founded(), sign_roster(handed_over, ALICE, BOB), NOW)
        later = joined(current, CAROL)
        assert accept_roster(current, sign_roster(later, BOB), NOW) == later
        with pytest.raises(RosterError, match="import the versions between"):
            accept_roster(founded(), sign_roster(later, BOB), NOW)

    def test_the_threshold_of_the_roster_held_counts(self) -> None:
        current = founded(ALICE, BOB, threshold=2)
        lowered = change_authorities(current, [ALICE.peer_id], 1, NOW)
        with pytest.raises(RosterError, match="signed by 1 of the authorities of version 1"):
            accept_roster(current, sign_roster(lowered, ALICE), NOW)
        assert accept_roster(current, sign_roster(lowered, ALICE, BOB), NOW) == lowered

    def test_expired_is_refused_only_after_grace(self) -> None:
        roster = founded()
        data = sign_roster(roster, ALICE)
        trusted = [ALICE.peer_id]
        end = roster.expires_at + roster.grace_s
        assert accept_roster(None, data, end - 1, trusted_authorities=trusted) == roster
        with pytest.raises(RosterError, match=r"expired .* s ago, beyond its grace"):
            accept_roster(None, data, end, trusted_authorities=trusted)


def test_ten_thousand_members_fit() -> None:
    from zerorag_p2p.identity.keys import peer_id_from_public_key

    members = [
        Member(
            peer_id_from_public_key(number.to_bytes(32)),
            f"Hospital number {number}",
            ("hospital",),
            NOW,
            NOW + DAY,
            (f"/dns4/node-{number}.example.org/tcp/4001",),
        )
        for number in range(10_000)
    ]
    roster = create_roster(
        "large", [ALICE.peer_id], fingerprints=[MINILM], now=NOW, members=members
    )
    assert open_roster(sign_roster(roster, ALICE)) == roster
