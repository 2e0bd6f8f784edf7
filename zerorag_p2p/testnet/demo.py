"""`make demo`: a consortium of hospitals answers questions on this machine.

Eight node processes on loopback, each with its own key, documents and embedding model, enrolled in
one consortium. Ten questions travel from node to node; every document shown is verified.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from zerorag_p2p.control import consortium, saved_answer
from zerorag_p2p.errors import IntegrityError, ZeroRagError
from zerorag_p2p.testnet.processes import LocalConsortium

_QUESTIONS = 10
_SETTINGS: dict[str, object] = {
    "routing.stopping": "settled",
    "routing.initial_neighbors": 2,
    "network.maintenance_interval_s": 1.0,
    "network.advertisement_refresh_s": 2.0,
}

#: Hospitals that add their documents at the same time; each loads an embedding model for it.
_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Hospital:
    """A hospital of the built-in corpus."""

    slug: str
    name: str
    specialty: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the built-in corpus; it is answered by another hospital's documents."""

    asker: str
    text: str
    answers: tuple[str, ...]


def corpus_folder() -> Traversable:
    """The built-in corpus: inside the installed package, or in a source checkout."""
    packaged = resources.files("zerorag_p2p.testnet") / "corpora" / "hospitals"
    if packaged.is_dir():
        return packaged
    return Path(__file__).parents[2] / "testnet" / "corpora" / "hospitals"


def load_hospitals(folder: Traversable) -> list[Hospital]:
    """The hospitals of the corpus."""
    tables = tomllib.loads((folder / "hospitals.toml").read_text(encoding="utf-8"))["hospital"]
    return [Hospital(item["slug"], item["name"], item["specialty"]) for item in tables]


def load_questions(folder: Traversable) -> list[Question]:
    """The questions of the corpus, in their order."""
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    items = [json.loads(line) for line in lines if line]
    return [Question(item["asker"], item["question"], tuple(item["answers"])) for item in items]


class Demo:
    """The steps of the demonstration, each told as it happens."""

    def __init__(self, folder: Path, console: Console) -> None:
        corpus = corpus_folder()
        self._console = console
        self._corpus = corpus
        self._hospitals = load_hospitals(corpus)
        self._questions = load_questions(corpus)
        self._consortium = LocalConsortium(folder)
        self._folder = folder

    def run(self, *, keep: bool) -> None:
        """Tell the whole story; with `keep` the nodes run on until Ctrl-C."""
        began = time.monotonic()
        with self._consortium:
            self._enrol()
            self._start()
            self._share_documents()
            saved = self._ask_around()
            self._verify(saved)
            self._revoke()
            self._console.print(f"\nAll done in {time.monotonic() - began:.0f} s.")
            if keep:
                self._look_around()
            with self._step("Shutting the nodes down, each after its last request"):
                self._consortium.stop()

    def _enrol(self) -> None:
        with self._step(f"Enrolling {len(self._hospitals)} hospitals: a key and a home for each"):
            for hospital in self._hospitals:
                self._consortium.add(hospital.slug, hospital.name, _SETTINGS)
            self._consortium.enrol("demo-hospitals")
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for hospital in self._hospitals:
            peer_id = self._consortium[hospital.slug].peer_id
            table.add_row(f"   {hospital.name}", _short(peer_id))
        self._console.print(table)

    def _start(self) -> None:
        with self._step("Starting a process for each, on loopback"):
            self._consortium.start()

    def _share_documents(self) -> None:
        with (
            self._step("Each hospital adds its own documents and shares them"),
            ThreadPoolExecutor(_PARALLEL) as threads,
        ):
            count = sum(threads.map(self._add_documents, self._hospitals))
        self._console.print(
            f"   {count} documents; each stays with its owner until it is asked for"
        )

    def _add_documents(self, hospital: Hospital) -> int:
        with (
            resources.as_file(self._corpus / hospital.slug) as folder,
            self._consortium.client(hospital.slug) as client,
        ):
            report = client.add_documents([folder], "guidelines")
            client.share("guidelines")
        return sum(item["documents"] for item in report["files"])

    def _ask_around(self) -> Path:
        """Every question of the corpus, in rounds of ten; the first ten answers are shown."""
        saved = self._folder / "answer.json"
        until_best: list[list[int]] = []
        in_all: list[list[int]] = []
        self._console.print("\n[bold]Ten questions from different hospitals")
        for number, question in enumerate(self._questions):
            if number % _QUESTIONS == 0:
                until_best.append([])
                in_all.append([])
            if number == _QUESTIONS:
                self._console.print(
                    f"\n[bold]{len(self._questions) - number} more questions on the same themes"
                )
            with self._consortium.client(question.asker) as client:
                answer = client.query(question.text, k=3)
            until_best[-1].append(_contacts_until_best(answer))
            in_all[-1].append(len(answer["contacts"]))
            if number < _QUESTIONS:
                self._show(question, answer)
            if number == 0:
                saved.write_text(json.dumps(answer))
        table = Table(
            "   questions",
            "contacts until the best document",
            "in all",
            box=None,
            pad_edge=False,
        )
        for round_, counts in enumerate(until_best):
            first = round_ * _QUESTIONS + 1
            average = sum(counts) / len(counts)
            table.add_row(
                f"   {first}-{first + len(counts) - 1}",
                f"{average:.1f} " + "■" * round(4 * average),
                f"{sum(in_all[round_]) / len(counts):.1f}",
            )
        self._console.print(table)
        self._console.print(
            f"   Each could have asked {len(self._hospitals) - 1} others. What peers advertise "
            "tells whom to ask,\n   and when nothing better is to be had."
        )
        return saved

    def _show(self, question: Question, answer: dict[str, Any]) -> None:
        self._console.print()
        asked = Text.assemble((f"{self._name(question.asker)} asks: ", "cyan"), question.text)
        self._console.print(Padding(asked, (0, 0, 0, 3)))
        for document in answer["documents"][:1]:
            verified = document["status"] == "verified"
            mark = ("✓ attribution verified", "green") if verified else ("✗ rejected", "red")
            found = Text.assemble((document["title"], "bold"), f"  ({document['score']:.2f})\n")
            found.append(f"{document['owner']['organisation']}  ")
            found.append(*mark)
            found.append(
                f"  {len(answer['contacts'])} contacts, {answer['milliseconds']:.0f} ms", "dim"
            )
            self._console.print(Padding(found, (0, 0, 0, 6)))

    def _verify(self, saved: Path) -> None:
        asker = self._consortium[self._questions[0].asker]
        with self._step("Verifying the first answer again, from its file, without the network"):
            report = saved_answer.verify_saved_answer(
                saved, asker.home.roster, asker.home.withdrawals
            )
        self._console.print(f"   {report['verified']} documents verified")
        answer = json.loads(saved.read_text())
        answer["documents"][0]["text"] += " (altered)"
        altered = saved.with_name("altered.json")
        altered.write_text(json.dumps(answer))
        report = saved_answer.verify_saved_answer(
            altered, asker.home.roster, asker.home.withdrawals
        )
        if report["fault"] is None:
            raise IntegrityError("an altered answer was taken for a genuine one")
        self._console.print(f"   the same with a word added: rejected ({report['fault']})")

    def _revoke(self) -> None:
        leaving = self._consortium[self._hospitals[-1].slug]
        founder = self._consortium[self._hospitals[0].slug]
        with self._step(f"Revoking the membership of {leaving.organisation}"):
            roster = consortium.revoke(founder.home, leaving.peer_id, "left the consortium")
            for member in self._consortium:
                if member is not leaving:
                    with self._consortium.client(member.name) as client:
                        client.import_roster(roster)
        question = next(item for item in self._questions if item.asker == leaving.name)
        with self._consortium.client(leaving.name) as client:
            answer = client.query(question.text, k=3, timeout_s=10.0)
        if answer["documents"]:
            raise IntegrityError("a revoked member got an answer")
        self._console.print(
            f"   it asks all the same: {len(answer['contacts'])} of "
            f"{len(self._hospitals) - 1} members contacted, not one answers"
        )

    def _look_around(self) -> None:
        asker = self._hospitals[0].slug
        home = self._consortium[asker].home.root
        question = next(item.text for item in self._questions if item.asker == asker)
        self._console.print(
            "\nThe nodes run on until Ctrl-C. In another terminal, for instance:\n"
            f"   export PATH={Path(sys.executable).parent}:$PATH\n"
            f"   export ZERORAG_HOME={home}\n"
            "   zerorag status\n"
            "   zerorag neighbors\n"
            f"   zerorag query {shlex.quote(question)} --explain"
        )
        try:
            signal.pause()
        except KeyboardInterrupt:
            self._console.print()

    def _name(self, slug: str) -> str:
        return self._consortium[slug].organisation

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self._console.print(f"\n[bold]{title}")
        began = time.monotonic()
        with self._console.status("working"):
            yield
        self._console.print(f"   [dim]{time.monotonic() - began:.1f} s")


def _contacts_until_best(answer: dict[str, Any]) -> int:
    """How many peers were contacted until one returned the best document of the answer."""
    if not answer["documents"]:
        return len(answer["contacts"])
    best = answer["documents"][0]["holder"]["peer"]
    return [contact["peer"] for contact in answer["contacts"]].index(best) + 1


def _short(peer_id: str) -> str:
    return f"{peer_id[:12]}…{peer_id[-6:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m zerorag_p2p.testnet.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the nodes running at the end")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    # The homes hold sockets, whose paths have to be short.
    folder = Path(tempfile.mkdtemp(prefix="zerorag-demo-"))
    try:
        Demo(folder, console).run(keep=options.keep)
    except ZeroRagError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False)
        return error.exit_code
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
