"""Rules as their owners write them: read, found fault with, and what they remember."""

from __future__ import annotations

import numpy as np
import pytest

from zerorag_p2p.config import (
    JUDGED_QUESTIONS_PER_PEER,
    MAX_EMERGENCY_GRANTS,
    QUESTION_JUDGED_S,
)
from zerorag_p2p.errors import ConfigError, DecodeError
from zerorag_p2p.identity.keys import Identity
from zerorag_p2p.model import PeerId, Purpose, View
from zerorag_p2p.policy.emergency import EmergencyGrants
from zerorag_p2p.policy.lint import Surroundings, lint
from zerorag_p2p.policy.outbound import pseudonym
from zerorag_p2p.policy.questions import RecentQuestions
from zerorag_p2p.policy.reading import read_policy
from zerorag_p2p.policy.rules import Act, Effect, OutboundEffect
from zerorag_p2p.policy.sharing import Sharing

CLINIC, UNIVERSITY = (Identity.from_seed(bytes([number]) * 32).peer_id for number in (1, 2))

WHOLE = f"""
[[rule]]
name = "cardiology for clinics"
effect = "allow"
organisations = ["City Clinic"]
members = ["{CLINIC}"]
roles = ["care"]
collections = ["cardiology"]
purposes = ["treatment", "HRESCH"]
acts = ["result", "fetch"]
near = ["heart failure", "arrhythmia"]
at_least = 0.4
far = ["psychiatry"]
below = 0.3
view = "passage"
reason = "agreed on 2026-11-02"

[[rule]]
name = "break glass"
effect = "emergency"
collections = ["cardiology"]
hours = 4

[[outbound]]
name = "private questions"
effect = "only"
roles = ["care"]
marks = ["private"]
redact = ["identifiers"]
remember = false
pseudonym = true
"""


def test_everything_that_can_be_written_is_read() -> None:
    policy = read_policy(WHOLE)
    rule, emergency = policy.rules
    assert (rule.name, rule.effect, rule.view) == (
        "cardiology for clinics",
        Effect.ALLOW,
        View.PASSAGE,
    )
    assert rule.who.members == (CLINIC,)
    assert rule.purposes == (Purpose.TREAT, Purpose.HRESCH)
    assert rule.acts == (Act.RESULT, Act.FETCH)
    assert (rule.question.near.texts, rule.question.at_least) == (
        ("heart failure", "arrhythmia"),
        0.4,
    )
    assert (rule.question.far.texts, rule.question.below) == (("psychiatry",), 0.3)
    assert (emergency.effect, emergency.hours) == (Effect.EMERGENCY, 4.0)
    (outbound,) = policy.outbound
    assert outbound.effect is OutboundEffect.ONLY
    assert (outbound.redact, outbound.remember, outbound.pseudonym) == (
        ("identifiers",),
        False,
        True,
    )
    assert policy.judges_questions


def rule(**fields: str) -> str:
    values = {"name": '"x"', "effect": '"allow"'} | fields
    return "[[rule]]\n" + "\n".join(f"{key} = {value}" for key, value in values.items() if value)


def outbound(**fields: str) -> str:
    return rule(**fields).replace("[[rule]]", "[[outbound]]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]", "not valid TOML"),
        ("[rules]", "unknown table 'rules'"),
        ("[rule]\nname = 'x'", r"write \[\[rule\]\]"),
        (rule(name=""), "number 1: 'name' is missing"),
        (rule(name='" "'), "not empty"),
        (rule(name='"default"'), "choose another name"),
        (rule(name='"sharing of x"'), "choose another name"),
        (rule(effect=""), "'x': 'effect' is missing"),
        (rule(effect='"permit"'), "one of allow, deny, emergency"),
        (rule() + "\n" + rule(), "two rules named 'x'"),
        (rule() + "\n" + outbound(), "two rules named 'x'"),
        (rule(organisation='"Clinic"'), "unknown setting 'organisation'"),
        (rule(organisations='"Clinic"'), "list of 1 to"),
        (rule(organisations="[]"), "leave it out for any"),
        (rule(organisations='["A", "A"]'), "twice"),
        (rule(members='["nobody"]'), "members"),
        (rule(purposes='["fun"]'), "no purpose of use"),
        (rule(acts='["read"]'), "one of result, fetch, advertise"),
        (rule(view='"all"'), "one of count, title, passage, whole"),
        (rule(near='["a"]'), "belong together"),
        (rule(at_least="0.4"), "belong together"),
        (rule(far='["a"]', below="2"), "from -1 to 1"),
        (rule(far='["a"]', below='"0.5"'), "has to be a number"),
        (rule(effect='"deny"', view='"title"'), "denies has no view"),
        (rule(hours="4"), "only an emergency rule has hours"),
        (rule(effect='"emergency"'), "needs hours"),
        (rule(effect='"emergency"', hours="4", purposes='["treatment"]'), "emergency.*only"),
        (rule(effect='"emergency"', hours="4", acts='["advertise"]'), "never"),
        (rule(reason='"a\\nb"'), "one line"),
        (outbound(effect='"only"'), "names organisations"),
        (outbound(effect='"allow"', roles='["care"]'), 'effect = "only"'),
        (outbound(remember='"no"'), "true or false"),
        (outbound(collections='["c"]'), "unknown setting 'collections'"),
    ],
)
def test_a_mistake_is_refused_and_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_policy(text)


SURROUNDINGS = Surroundings(
    members={CLINIC: ("City Clinic", ("care",)), UNIVERSITY: ("University", ("research",))},
    collections={"cardiology": Sharing(), "notes": None, "quiet": Sharing(advertise=False)},
    redactions=("identifiers", "date"),
)
ALLOW = {"collections": '["notes"]'}
DENY = {"name": '"y"', "effect": '"deny"'}


@pytest.mark.parametrize(
    ("text", "severity", "message"),
    [
        (rule(organisations='["City Clinik"]', **ALLOW), "error", "organisation 'City Clinik'"),
        (rule(roles='["nurse"]', **ALLOW), "error", "role 'nurse'"),
        (
            rule(members=f'["{Identity.from_seed(bytes(32)).peer_id}"]', **ALLOW),
            "error",
            "no other member",
        ),
        (rule(collections='["note"]'), "error", "no collection 'note'"),
        (
            rule(organisations='["City Clinic"]', roles='["research"]', **ALLOW),
            "error",
            "never matches: no member fits",
        ),
        (
            rule(near='["a"]', at_least="0.5", far='["a"]', below="0.5", **ALLOW),
            "error",
            "near and far of the same example",
        ),
        (rule(), "error", "every collection out to every member"),
        (rule(roles='["care"]'), "warning", "every collection, those to come"),
        (rule(**ALLOW) + "\n" + rule(**DENY, **ALLOW), "error", "contradicts rule 'y'"),
        (
            rule(**DENY) + "\n" + rule(**ALLOW),
            "error",
            "never has an effect: rule 'y' denies wherever",
        ),
        (
            rule(**DENY, acts='["fetch"]') + "\n" + rule(**ALLOW),
            "error",
            "never has an effect",
        ),
        (
            rule(name='"y"', **ALLOW) + "\n" + rule(purposes='["research"]', **ALLOW),
            "warning",
            "adds nothing: rule 'y'",
        ),
        (
            rule(**DENY) + "\n" + rule(name='"z"', effect='"deny"', **ALLOW),
            "warning",
            "adds nothing: rule 'y'",
        ),
        (rule(acts='["fetch"]', **ALLOW), "warning", "that no query finds"),
        (rule(acts='["result"]', **ALLOW), "warning", "only counted"),
        (
            rule(acts='["advertise"]', roles='["care"]', **ALLOW),
            "warning",
            "an advertisement reaches every member",
        ),
        (
            rule(acts='["advertise"]', view='"title"', **ALLOW),
            "warning",
            "more than the view title",
        ),
        (
            rule(acts='["advertise"]', collections='["quiet"]'),
            "warning",
            "shared without being advertised",
        ),
        (
            rule(effect='"emergency"', hours="1", view='"count"', **ALLOW),
            "error",
            "nothing is counted",
        ),
        (outbound(effect='"deny"'), "error", "no question leaves"),
        (outbound(effect='"only"', organisations='["X"]'), "error", "organisation 'X'"),
        (
            outbound(effect='"only"', organisations='["University"]', roles='["care"]'),
            "error",
            "nobody is asked",
        ),
        (outbound(redact='["dates"]'), "error", "no redaction 'dates'"),
        (outbound(), "warning", "no effect"),
        (
            outbound(effect='"only"', roles='["care"]')
            + "\n"
            + outbound(name='"y"', effect='"deny"', organisations='["City Clinic"]'),
            "error",
            "leaves out whom it names",
        ),
        (
            outbound(effect='"only"', roles='["care"]')
            + "\n"
            + outbound(name='"y"', effect='"only"', roles='["research"]'),
            "error",
            "leaves out whom it names",
        ),
    ],
)
def test_lint_names_what_looks_wrong(text: str, severity: str, message: str) -> None:
    findings = lint(read_policy(text), SURROUNDINGS)
    assert [item for item in findings if item.severity == severity and message in item.sentence], (
        findings
    )


def test_lint_is_silent_about_sound_rules() -> None:
    sound = [
        rule(collections='["cardiology"]', roles='["care"]', view='"passage"'),
        rule(name='"b"', effect='"deny"', organisations='["University"]'),
        rule(name='"c"', effect='"emergency"', hours="4", collections='["notes"]'),
        rule(name='"d"', collections='["notes"]', acts='["result", "fetch"]'),
        outbound(name='"e"', effect='"only"', roles='["care"]', marks='["private"]'),
        outbound(name='"f"', redact='["date"]', remember="false"),
        outbound(name='"g"', effect='"deny"', organisations='["University"]'),
    ]
    assert lint(read_policy("\n".join(sound)), SURROUNDINGS) == []


def test_emergency_access_lasts_its_hours_and_no_longer_until_it_is_rearmed() -> None:
    grants = EmergencyGrants()

    def open_at(now: float, peer: PeerId = CLINIC) -> bool:
        return grants.is_open("glass", peer, hours=4, now=now)

    assert open_at(0)
    assert grants.begin("glass", CLINIC, 1_000)
    assert not grants.begin("glass", CLINIC, 9_000)
    assert open_at(1_000 + 4 * 3_600 - 1)
    assert not open_at(1_000 + 4 * 3_600)
    assert open_at(1e9, UNIVERSITY)
    assert grants.rearm(UNIVERSITY) == 0
    assert grants.rearm(CLINIC) == 1
    assert open_at(1e9)


def test_emergency_grants_survive_a_restart_and_are_bounded() -> None:
    grants, restored = EmergencyGrants(), EmergencyGrants()
    grants.begin("glass", CLINIC, 1_000)
    restored.restore(grants.encode())
    assert restored.entries() == [("glass", CLINIC, 1_000)]
    with pytest.raises(DecodeError):
        restored.restore(b"\xa0")
    assert restored.entries()
    for number in range(MAX_EMERGENCY_GRANTS):
        grants.begin("glass", PeerId(str(number)), 0)
    assert not grants.is_open("glass", UNIVERSITY, hours=4, now=0)


def test_a_question_is_known_by_its_reference_for_a_while() -> None:
    questions = RecentQuestions()
    x, y = np.eye(2, dtype=np.float32)
    questions.note(CLINIC, "a", x, 0)
    questions.note(UNIVERSITY, "a", y, 1)
    assert questions.find(CLINIC, "a", 2) is x
    assert questions.find(CLINIC, "b", 2) is None
    questions.note(CLINIC, "a", y, 3)
    assert questions.find(CLINIC, "a", 4) is y
    assert questions.find(UNIVERSITY, "a", 1 + QUESTION_JUDGED_S) is None
    assert len(questions) == 1


def test_nobody_can_push_out_the_questions_of_others() -> None:
    questions = RecentQuestions()
    x = np.eye(1, dtype=np.float32)[0]
    questions.note(CLINIC, "mine", x, 0)
    for number in range(3 * JUDGED_QUESTIONS_PER_PEER):
        questions.note(UNIVERSITY, str(number), x, 0)
    assert questions.find(CLINIC, "mine", 1) is x
    assert len(questions) == JUDGED_QUESTIONS_PER_PEER + 1
    assert questions.find(UNIVERSITY, str(3 * JUDGED_QUESTIONS_PER_PEER - 1), 1) is x


def test_a_pseudonym_is_of_one_question_and_the_secret_tells_whose() -> None:
    first = pseudonym(b"secret", user="ann", audit="1")
    assert first == pseudonym(b"secret", user="ann", audit="1")
    others = {
        pseudonym(b"secret", user="ann", audit="2"),
        pseudonym(b"secret", user="bob", audit="1"),
        pseudonym(b"another", user="ann", audit="1"),
    }
    assert len(others | {first}) == 4
