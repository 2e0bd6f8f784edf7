"""Twenty documents that try to give orders: what the model is told stays what it is.

Asserted on what goes over the wire to the endpoint. What a model makes of a passage that it reads
is its own affair; that the passage is kept apart from its instructions is ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.node.lab import EVERYBODY
from tests.rag.language_model import Request, language_model, streams
from tests.rag.test_asking import ask, asking
from zerorag_p2p.library.loaders import Record
from zerorag_p2p.rag.prompt import SYSTEM

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.txt"))
QUESTION = "How is hyperkalaemia treated?"

#: What chat templates of common models are controlled by.
CONTROL = re.compile(
    r"<\||\|>.*<\||<\uff5c|<</?SYS|\[/?INST\]|</?s>|<(start|end)_of_turn>|</?think>|</?tool_call>"
    r"|<function=|\[/?SYSTEM_PROMPT\]|\[/?AVAILABLE_TOOLS\]|<!--"
)


def test_there_are_twenty() -> None:
    assert len(HOSTILE) == 20


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def parts(request: Request) -> tuple[str, list[list[str]], list[str]]:
    """The token, the lines of every passage, and those of the question, read as a model should."""
    first, *lines = request.user.split("\n")
    match = re.fullmatch(r"The token is ([0-9a-f]{32})\.", first)
    assert match is not None
    token = match[1]
    passages: list[list[str]] = []
    question: list[str] | None = None
    inside: list[str] | None = None
    for line in lines:
        if inside is None:
            if line == f"BEGIN QUESTION {token}":
                assert question is None
                question = inside = []
            else:
                assert line == f"BEGIN PASSAGE {len(passages) + 1} {token}"
                inside = []
                passages.append(inside)
        elif line in (f"END PASSAGE {len(passages)} {token}", f"END QUESTION {token}"):
            assert line.startswith("END QUESTION") == (inside is question)
            inside = None
        else:
            assert line == "|" or line.startswith("| ")
            inside.append(line.removeprefix("|").removeprefix(" "))
    assert inside is None
    assert question is not None
    return token, passages, question


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
async def test_a_hostile_document_changes_no_instruction(tmp_path: Path, path: Path) -> None:
    text = read(path)
    with language_model(streams("Nothing [1].")) as model:
        async with asking(tmp_path, model) as (_, bob, asker):
            harmless = Record(name="a", title="potassium", text="calcium protects the heart")
            # In the title, too, and under an organisation's name of its own making.
            hostile = Record(name="b", title=" ".join(text.split())[:200], text=text)
            bob.library.add_records([hostile, harmless], "notes")
            bob.library.share("notes", EVERYBODY)
            report = await ask(asker, QUESTION)
            await ask(asker, QUESTION, reuse=False)
    assert len(report.passages) == 2
    request, again = model.requests
    assert request.body.keys() == {"model", "messages", "max_tokens", "temperature", "stream"}
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert request.body["model"] == "scripted"
    assert request.system == again.system == SYSTEM
    token, passages, question = parts(request)
    assert question == [QUESTION]
    assert len(passages) == 2
    assert token not in text
    assert token not in "".join("".join(lines) for lines in passages)
    assert parts(again)[0] != token
    assert CONTROL.search(request.user) is None
    assert all(character.isprintable() or character == "\n" for character in request.user)
    # Nothing is lost that can be seen: letters and digits arrive as they are.
    sent = next(lines for lines in passages if "potassium" not in lines[0])
    seen = "".join(filter(str.isalnum, "".join(sent)))
    assert "".join(filter(str.isalnum, text)) in seen


async def test_all_of_them_at_once_stay_in_their_places(tmp_path: Path) -> None:
    with language_model(streams("Nothing [1].")) as model:
        async with asking(tmp_path, model) as (_, bob, asker):
            records = [Record(name=path.stem, title=path.stem, text=read(path)) for path in HOSTILE]
            bob.library.add_records(records, "notes")
            bob.library.share("notes", EVERYBODY)
            report = await ask(asker, QUESTION, k=20)
    assert len(report.passages) == 20
    (request,) = model.requests
    assert request.system == SYSTEM
    _, passages, question = parts(request)
    assert len(passages) == 20
    assert question == [QUESTION]
