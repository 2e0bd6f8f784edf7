"""A redacted collection as its reader sees it: two hospitals, two processes, one letter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.hospitals import set_up

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LETTER = "Mrs Holloway was seen on 14 March 2023 with swollen ankles. Tel 020 7946 0123."
REDACTED = "Mrs [name] was seen on [date] with swollen ankles. Tel [phone]."


def test_an_answer_says_what_was_redacted_and_verifies_offline(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = tmp_path_factory.mktemp("r")
    owner, asker = set_up(folder / "a", "General Hospital"), set_up(folder / "b", "Clinic")
    roster, asked = folder / "roster.cbor", folder / "clinic.request"
    founded = json.loads(owner.must("consortium", "create", "cardio", "--json"))
    asker.must("consortium", "request", "--out", asked)
    owner.must("consortium", "approve", asked, "--out", roster)
    asker.must("consortium", "import", roster, "--authority", founded["authorities"][0])
    config = owner.home / "config.toml"
    plain = config.read_text()

    config.write_text(plain + "\n[redaction.collections]\nletters = ['everything']\n")
    refused = owner.run("node", "run")
    assert refused.returncode == 2
    assert "there is no rule 'everything'; known: identifiers, name, date" in refused.stderr

    config.write_text(plain + "\n[redaction.collections]\nletters = ['identifiers']\n")
    (folder / "letter.txt").write_text(LETTER)
    owner.must("docs", "add", folder / "letter.txt", "--collection", "letters")
    owner.must("docs", "share", "letters")
    owner.start()
    asker.start()
    try:
        shown = asker.must("query", "swollen ankles", "-k", "1")
        assert REDACTED in shown
        assert "attribution verified, redacted by: name, date, phone" in shown
        assert "score as the owner says" not in shown
        saved = tmp_path / "answer.json"
        answer = json.loads(asker.must("query", "swollen ankles", "--json", "--save", saved))
        (document,) = answer["documents"]
        assert document["redaction"] == ["name", "date", "phone"]
        got = asker.must("get", document["content_hash"], "--peer", document["owner"]["peer"])
        assert "redacted by: name, date, phone" in got
        assert "verified: 1 document" in asker.must("verify", saved)
        # Whoever leaves out that the text was redacted is found out.
        saved.write_text(saved.read_text().replace('"phone"', '"date"'))
        forged = asker.run("verify", saved)
        assert forged.returncode == 7
        assert "redaction shown" in forged.stderr
        own = owner.must("get", document["content_hash"])
        assert LETTER in own
        assert "redacted by" not in own
    finally:
        for hospital in (owner, asker):
            if hospital.process is not None:
                hospital.stop()
