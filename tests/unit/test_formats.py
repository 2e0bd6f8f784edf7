import base64
import contextlib
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.made_files import W, make_docx, make_pdf, paragraph
from zerorag_p2p import config
from zerorag_p2p.errors import LibraryError, UsageError
from zerorag_p2p.library import loaders
from zerorag_p2p.library.formats import docx, pdf, text
from zerorag_p2p.library.formats.source_file import ReadingOptions
from zerorag_p2p.library.loaders import load_file
from zerorag_p2p.library.outline import Mark
from zerorag_p2p.library.records import BadRecord, Record


def load(path: Path, data: bytes | str, **options: Any) -> list[Record | BadRecord]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(load_file(path, ReadingOptions(**options)))


def record(path: Path, data: bytes | str, **options: Any) -> Record:
    (found,) = load(path, data, **options)
    assert isinstance(found, Record), found
    return found


def records(path: Path, data: bytes | str, **options: Any) -> list[Record]:
    found = load(path, data, **options)
    assert all(isinstance(item, Record) for item in found), found
    return [item for item in found if isinstance(item, Record)]


def reason(path: Path, data: bytes | str, **options: Any) -> str:
    (found,) = load(path, data, **options)
    assert isinstance(found, BadRecord), found
    return found.reason


class TestEncodings:
    @pytest.mark.parametrize(
        ("sentence", "encoding"),
        [
            ("Fieber über 39 °C beim Säugling. Größe prüfen – „sofort“.", "cp1252"),
            ("Müller", "cp1252"),
            ("Señor Peña tiene fiebre. Niño de 5 años.", "latin-1"),
            ("L’hôpital a reçu le patient à l’été, crème.", "cp1252"),
            ("Пациент жалуется на головную боль и температуру.", "cp1251"),
            ("Zażółć gęślą jaźń, pacjent ma gorączkę.", "cp1250"),
            ("患者は発熱している。咳もある。", "cp932"),
            ("Ασθενής με πυρετό και βήχα.", "utf-16"),
            ("Fever and cough, 39 °C.", "utf-16-le"),
            ("Fever and cough, 39 °C.", "utf-16-be"),
            ("Fièvre.", "utf-32"),
            ("Fièvre.", "utf-8-sig"),
        ],
    )
    @pytest.mark.parametrize("suffix", [".txt", ".md"])
    def test_the_encoding_is_found(
        self, tmp_path: Path, sentence: str, encoding: str, suffix: str
    ) -> None:
        assert record(tmp_path / f"a{suffix}", sentence.encode(encoding)).text == sentence

    def test_one_foreign_byte_far_into_a_file_is_enough(self, tmp_path: Path) -> None:
        sentence = "The patient has fever. " * 100_000 + "Müller was informed."
        found = records(tmp_path / "a.txt", sentence.encode("cp1252"))
        assert "".join(item.text for item in found) == sentence

    def test_the_user_knows_better(self, tmp_path: Path) -> None:
        data = "Příznaky: žádné".encode("cp1250")
        assert record(tmp_path / "a.txt", data, encoding="cp1250").text == "Příznaky: žádné"
        for suffix in (".txt", ".md"):
            wrong = reason(tmp_path / f"a{suffix}", data, encoding="ascii")
            assert wrong.startswith("it is not valid ascii at byte 1; name its encoding")

    def test_binary_files_are_no_text(self, tmp_path: Path) -> None:
        assert "nor likely in another" in reason(tmp_path / "a.txt", bytes(range(256)) * 40)
        assert reason(tmp_path / "a.txt", b"some words\0") == "it is no text: it has zero bytes"

    def test_options_that_do_not_make_sense(self) -> None:
        for name in ("no-such", "base64", "a" * 1000, "\0"):
            with pytest.raises(UsageError, match="no text encoding"):
                ReadingOptions(encoding=name).check()
        with pytest.raises(UsageError, match="64 columns"):
            ReadingOptions(text_columns=("a",) * 65).check()
        options = ReadingOptions(encoding="cp1252", text_columns=("a", "b"), id_column="c")
        assert ReadingOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
        assert ReadingOptions().to_json() == {}


class TestLongTexts:
    @pytest.fixture(autouse=True)
    def short_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(text, "TEXT_BLOCK_CHARACTERS", 100)

    def test_they_are_several_records_that_make_up_the_text(self, tmp_path: Path) -> None:
        whole = "".join(
            f"Sentence {n} of it. é" + ("\n\n" if n % 5 == 0 else "\n" if n % 3 == 0 else " ")
            for n in range(60)
        )
        found = records(tmp_path / "book.txt", whole)
        assert [item.name for item in found] == [str(n) for n in range(1, len(found) + 1)]
        assert "".join(item.text for item in found) == whole
        assert all(len(item.text) <= 100 for item in found)
        assert all(item.text.endswith((" ", "\n")) for item in found)
        assert {item.title for item in found} == {"book"}

    @pytest.mark.parametrize("length", [99, 100, 101, 250])
    def test_nothing_is_lost_without_a_place_to_cut(self, tmp_path: Path, length: int) -> None:
        found = records(tmp_path / "a.txt", "é" * length)
        assert "".join(item.text for item in found) == "é" * length
        assert len(found) == (length + 99) // 100


class TestMarkdown:
    def test_headings_are_the_outline_and_code_is_none(self, tmp_path: Path) -> None:
        whole = "# Sepsis\ntext\n```\n# not one\n```\n## Fluids ##\nmore\n"
        found = record(tmp_path / "a.md", whole)
        assert (found.title, found.text) == ("Sepsis", whole)
        assert found.outline == (
            Mark(0, 1, "Sepsis"),
            Mark(whole.index("## Fluids"), 2, "Fluids"),
        )


class TestHtml:
    PAGE = """<!DOCTYPE html><html><head><title> Sepsis
      guideline</title><style>p {color: red}</style></head><body>
      <script>track("you")</script><noscript>enable it</noscript><!-- hidden -->
      <h1>Sepsis in <em>children</em></h1>
      <p>Give   fluids<br>at once, <b>30</b>&nbsp;ml/kg.</p>
      <h2>Doses</h2><table><tr><th>Drug</th><th>Dose</th></tr>
      <tr><td>Ceftriaxone</td><td>80 mg/kg</td></tr></table>
      <ul><li>one</li><li>two</li></ul>
      <pre>a  b
c</pre>after<p>unclosed <p>caf&eacute; &amp; co</body></html>"""

    def test_what_a_reader_sees(self, tmp_path: Path) -> None:
        found = record(tmp_path / "a.html", self.PAGE)
        assert found.title == "Sepsis guideline"
        assert found.text == (
            "Sepsis in children\n\nGive fluids\nat once, 30\u00a0ml/kg.\n\nDoses\n\n"
            "Drug | Dose\nCeftriaxone | 80 mg/kg\n\n- one\n- two\n\na  b\nc\n\nafter\n\n"
            "unclosed\n\ncafé & co"
        )
        assert found.outline == (
            Mark(0, 1, "Sepsis in children"),
            Mark(found.text.index("Doses"), 2, "Doses"),
        )

    @pytest.mark.parametrize(
        ("head", "encoding"),
        [
            ('<meta charset="windows-1251">', "cp1251"),
            ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-5">', "latin-5"),
            ('<?xml version="1.0" encoding="utf-8"?>', "utf-8"),
            ('<meta charset="utf-8">', "utf-16"),
            ('<meta charset="no-such">', "cp1251"),
        ],
    )
    def test_its_encoding_is_the_declared_one_if_that_can_be(
        self, tmp_path: Path, head: str, encoding: str
    ) -> None:
        encoding = "iso8859_5" if encoding == "latin-5" else encoding
        page = f"{head}<p>Пациент жалуется на головную боль и температуру."
        found = record(tmp_path / "a.htm", page.encode(encoding))
        assert found.text == "Пациент жалуется на головную боль и температуру."
        assert found.title == "a"

    def test_nothing_is_lost_in_a_deep_page(self, tmp_path: Path) -> None:
        page = "<div>" * 2_000 + "deep" + "</div>" * 2_000 + "<p>after it</p>"
        assert record(tmp_path / "a.html", page).text == "deep\n\nafter it"
        page = "<div>" * 5_000 + "deep" + "</div>" * 5_000 + "<p>after it</p>"
        assert reason(tmp_path / "a.html", page).startswith("its elements are nested too deep")

    @pytest.mark.parametrize("page", ["", " ", "<!-- -->", "<script>x</script>"])
    def test_empty_pages(self, tmp_path: Path, page: str) -> None:
        (found,) = load(tmp_path / "a.html", page)
        if isinstance(found, BadRecord):
            assert found.reason == "it has no text"
        else:
            with pytest.raises(LibraryError, match="it has no text"):
                found.check()


class TestPdf:
    def test_pages_are_told(self, tmp_path: Path) -> None:
        data = make_pdf(["First page (of three).", "", "Third: 39 °C."], title="A guideline")
        found = record(tmp_path / "a.pdf", data)
        assert found.title == "A guideline"
        assert found.text == "First page (of three).\n\nThird: 39 °C."
        assert found.outline[0] == Mark(0, 0, "1")
        assert found.outline[-1] == Mark(found.text.index("Third"), 0, "3")

    def test_what_cannot_be_read_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pdf"
        whole = make_pdf(["text"])
        assert reason(path, make_pdf(["", ""])).startswith("it has no text; scanned pages")
        assert reason(path, b"").startswith("it is no whole PDF")
        assert reason(path, b"%PDF-1.4 nonsense").startswith("it is no whole PDF")
        assert isinstance(load(path, whole[: len(whole) // 2])[0], BadRecord)

    def test_a_password_is_told(self, tmp_path: Path) -> None:
        from pypdf import PdfReader, PdfWriter

        (tmp_path / "plain.pdf").write_bytes(make_pdf(["secret"]))
        writer = PdfWriter(clone_from=PdfReader(tmp_path / "plain.pdf"))
        writer.encrypt("password", algorithm="AES-256")
        with (tmp_path / "a.pdf").open("wb") as file:
            writer.write(file)
        data = (tmp_path / "a.pdf").read_bytes()
        assert reason(tmp_path / "a.pdf", data) == "it is encrypted; remove its password first"

    def test_one_bad_page_does_not_take_the_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pypdf import PageObject

        extract = PageObject.extract_text

        def fail(page: PageObject) -> str:
            found: str = extract(page)
            if "two" in found:
                raise KeyError("/Font")
            return found

        monkeypatch.setattr(PageObject, "extract_text", fail)
        bad, found = load(tmp_path / "a.pdf", make_pdf(["one", "two", "three"]))
        assert isinstance(bad, BadRecord)
        assert (bad.where, bad.reason) == ("page 2", "it cannot be read: '/Font'")
        assert isinstance(found, Record)
        assert found.text == "one\n\nthree"

    def test_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pdf, "MAX_PDF_PAGES", 2)
        assert "more than 2 pages" in reason(tmp_path / "a.pdf", make_pdf(["a"] * 3))
        monkeypatch.setattr(pdf, "MAX_RECORD_BYTES", 10)
        assert "longer than 10 bytes" in reason(tmp_path / "a.pdf", make_pdf(["long text"] * 2))


class TestDocx:
    STYLES = (
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Mine"><w:name w:val="mine"/><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:styleId="Out"><w:name w:val="out"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr>'
        '</w:style><w:style w:styleId="Loop"><w:name w:val="loop"/><w:basedOn w:val="Loop"/>'
        '</w:style><w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>'
    )

    def test_paragraphs_headings_tables_and_notes(self, tmp_path: Path) -> None:
        cell = "<w:tc>{}</w:tc>"
        nested = f"<w:tbl><w:tr>{cell.format(paragraph('inner'))}</w:tr></w:tbl>"
        body = (
            paragraph("Discharge letter", "Titel")
            + paragraph("Diagnosis", "berschrift1")
            + "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>Pneumonia,</w:t><w:br/>"
            "<w:tab/><w:t>left</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
            "<w:ins><w:r><w:t> lower lobe</w:t></w:r></w:ins></w:p>"
            + paragraph("Therapy", "Out")
            + f"<w:sdt><w:sdtContent>{paragraph('Amoxicillin & rest', 'Loop')}"
            "</w:sdtContent></w:sdt>"
            + f"<w:tbl><w:tr>{cell.format(paragraph('CRP'))}{cell.format(paragraph('12'))}</w:tr>"
            f"<w:tr>{cell.format(paragraph('x') + nested)}</w:tr></w:tbl>"
            + paragraph("Plan", "Mine")
        )
        notes = f"<w:footnotes {W}><w:footnote>{paragraph('See the guideline.')}</w:footnote>"
        parts = {"word/footnotes.xml": f"{notes}</w:footnotes>"}
        found = record(tmp_path / "a.docx", make_docx(body, styles=self.STYLES, parts=parts))
        assert found.title == "Discharge letter"
        assert found.text == (
            "Discharge letter\n\nDiagnosis\n\nPneumonia,\n\tleft lower lobe\n\nTherapy\n\n"
            "Amoxicillin & rest\n\nCRP | 12\nx\ninner\n\nPlan\n\nSee the guideline."
        )
        assert [(mark.level, mark.label) for mark in found.outline] == [
            (1, "Diagnosis"),
            (2, "Therapy"),
            (1, "Plan"),
        ]

    def test_the_title_of_the_file_s_properties_goes_first(self, tmp_path: Path) -> None:
        core = (
            '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Proper title</dc:title></p>'
        )
        data = make_docx(paragraph("text"), parts={"docProps/core.xml": core})
        assert record(tmp_path / "a.docx", data).title == "Proper title"

    def test_what_cannot_be_read_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.docx"
        whole = make_docx(paragraph("text"))
        assert reason(path, whole[:-40]).startswith("it is no whole Word document")
        assert reason(path, b"not a zip").startswith("it is no whole Word document")
        assert reason(path, make_docx("<w:p>")).startswith("it is no whole Word document")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("[Content_Types].xml", "<Types/>")
        assert reason(path, path.read_bytes()) == "it is no Word document"
        monkeypatch.setattr(docx, "MAX_WHOLE_FILE_BYTES", 10_000)
        bomb = make_docx(paragraph("a" * 1_000_000))
        assert len(bomb) < 10_000
        assert "its content is longer than 10000 bytes" in reason(path, bomb)

    def test_entities_are_not_expanded(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("SECRET")
        body = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]><w:document {W}>'
        body += "<w:body><w:p><w:r><w:t>&e;text</w:t></w:r></w:p></w:body></w:document>"
        data = make_docx("", main=body)
        found = load(tmp_path / "a.docx", data)
        assert "SECRET" not in str(found)


class TestTables:
    def test_columns_by_name(self, tmp_path: Path) -> None:
        data = 'ID;Title;Ward;Note\n7;Sepsis;3;"Give fluids;\nat once"\n8;;4;Other\n'
        first, second = records(tmp_path / "a.csv", data)
        assert first == Record(
            name="7", title="Sepsis", text="Give fluids;\nat once", metadata={"Ward": "3"}
        )
        assert (second.title, second.metadata) == ("a", {"Ward": "4"})

    def test_the_column_with_long_values_is_the_text(self, tmp_path: Path) -> None:
        data = "when\twhat\n2026\t" + "The patient was discharged in a good state of health.\n"
        (found,) = records(tmp_path / "a.tsv", data)
        assert found.text.startswith("The patient")
        assert (found.metadata, len(found.name)) == ({"when": "2026"}, 16)

    def test_short_values_are_the_text_together(self, tmp_path: Path) -> None:
        (found,) = records(tmp_path / "a.csv", "drug,dose,\nMetformin,500 mg,\n")
        assert found.text == "drug: Metformin\ndose: 500 mg"

    def test_columns_by_choice(self, tmp_path: Path) -> None:
        data = "text,a,b,c\nnot this,one,two,three\n"
        (found,) = records(
            tmp_path / "a.csv", data, text_columns=("a", "b"), title_column="c", id_column="b"
        )
        assert found.text == "a: one\nb: two"
        assert (found.title, found.name, found.metadata) == ("three", "two", {"text": "not this"})
        assert reason(tmp_path / "a.csv", data, text_columns=("d",)) == (
            "it has no column 'd'; it has 'text', 'a', 'b', 'c'"
        )

    def test_bad_rows_are_told_by_number(self, tmp_path: Path) -> None:
        first, bad, last = load(tmp_path / "a.csv", "id,text\n1,one\n2,two,three\n\n3,three\n")
        assert isinstance(first, Record)
        assert bad == BadRecord("row 3", "it has 3 values for 2 columns")
        assert isinstance(last, Record)
        assert last.text == "three"
        found = load(tmp_path / "a.csv", "id,text\n" + "1\n" * 10_000)
        assert len(found) == config.MAX_BAD_RECORDS + 1
        assert "rows are bad" in str(found[-1])

    def test_what_is_no_table(self, tmp_path: Path) -> None:
        for data in ("", "id,text\n", "\n\n"):
            assert reason(tmp_path / "a.csv", data).startswith("it has no rows")

    def test_in_other_encodings(self, tmp_path: Path) -> None:
        data = "id,text\n1,Fieber über 39 °C\n"
        for encoding in ("cp1252", "utf-16", "utf-8-sig"):
            (found,) = records(tmp_path / "a.csv", data.encode(encoding))
            assert (found.name, found.text) == ("1", "Fieber über 39 °C")

    def test_more_rows_than_were_looked_at_first(self, tmp_path: Path) -> None:
        rows = [f'{n},"Note {n},\nline two {"x" * (n % 97)}"' for n in range(3_000)]
        found = records(tmp_path / "a.csv", "id,text\n" + "\n".join(rows))
        assert [item.name for item in found] == [str(n) for n in range(3_000)]
        assert found[1234].text == f"Note 1234,\nline two {'x' * (1234 % 97)}"


def attachment(data: bytes, kind: str, **more: str) -> dict[str, Any]:
    return {"contentType": kind, "data": base64.b64encode(data).decode(), **more}


def reference(number: str, *attachments: dict[str, Any], **more: Any) -> dict[str, Any]:
    content = [{"attachment": item} for item in attachments]
    return {"resourceType": "DocumentReference", "id": number, "content": content, **more}


def bundle(*resources: dict[str, Any]) -> str:
    entries = [{"fullUrl": f"urn:{n}", "resource": item} for n, item in enumerate(resources)]
    return json.dumps({"resourceType": "Bundle", "type": "collection", "entry": entries})


class TestFhir:
    def test_documents_inside_of_a_bundle(self, tmp_path: Path) -> None:
        data = bundle(
            reference(
                "a",
                attachment(b"Plain, 39 \xb0C", "text/plain; charset=iso-8859-1", title="Letter"),
                attachment(b"<h1>Page</h1><p>Hyper", "text/html"),
                status="current",
                date="2026-01-02T03:04:05Z",
                type={"coding": [{"display": "Discharge summary"}]},
                subject={"reference": "Patient/1"},
            ),
            reference("b", attachment(make_pdf(["In a PDF."]), "application/pdf")),
            {"resourceType": "Patient", "id": "1", "name": [{"family": "Müller"}]},
        )
        first, second, third = records(tmp_path / "a.json", data)
        assert (first.name, first.title, first.text) == (
            "DocumentReference/a",
            "Letter",
            "Plain, 39 °C",
        )
        assert first.metadata == {
            "resource": "DocumentReference",
            "date": "2026-01-02T03:04:05Z",
            "status": "current",
            "type": "Discharge summary",
            "subject": "Patient/1",
        }
        assert (second.name, second.title) == ("DocumentReference/a#2", "Page")
        assert second.text == "Page\n\nHyper"
        assert (third.title, third.text) == ("DocumentReference", "In a PDF.")
        assert third.outline == (Mark(0, 0, "1"),)

    def test_notes_narratives_and_prose(self, tmp_path: Path) -> None:
        data = bundle(
            {
                "resourceType": "Observation",
                "id": "o",
                "code": {"text": "Wound"},
                "valueString": "Red and warm.",
                "note": [{"text": "Looked at by two."}, {"time": "2026"}],
            },
            {
                "resourceType": "Condition",
                "text": {"status": "generated", "div": "<div><p>Heart <b>failure</b></p></div>"},
            },
            {
                "resourceType": "Composition",
                "id": "c",
                "title": "Report",
                "section": [
                    {
                        "title": "History",
                        "text": {"div": "<div>Fell.</div>"},
                        "section": [{"title": "Drugs", "text": {"div": "<div>None.</div>"}}],
                    },
                    {"title": "Plan", "text": {"status": "empty", "div": "<div>no</div>"}},
                ],
            },
            {"resourceType": "Observation", "id": "p", "valueQuantity": {"value": 3}},
        )
        note, condition, report = records(tmp_path / "a.json", data)
        assert (note.title, note.text) == ("Wound", "Red and warm.\n\nLooked at by two.")
        assert (condition.name, condition.text) == ("urn:1", "Heart failure")
        assert report.text == "History\n\nFell.\n\nDrugs\n\nNone.\n\nPlan"
        assert [(mark.level, mark.label) for mark in report.outline] == [
            (1, "History"),
            (2, "Drugs"),
            (1, "Plan"),
        ]

    def test_what_cannot_be_read_does_not_stop_the_others(self, tmp_path: Path) -> None:
        data = bundle(
            reference("a", {"url": "Binary/1", "contentType": "text/plain"}),
            reference("b", attachment(b"x", "image/png")),
            reference("c", {"data": "%%%", "contentType": "text/plain"}),
            reference("d", attachment(b"%PDF", "application/pdf")),
            reference("e", attachment(b"x", "text/plain; charset=klingon")),
            reference("f", attachment(b"good", "text/plain")),
            {"resourceType": 5},
        )
        *bad, good, no_type = load(tmp_path / "a.json", data)
        assert isinstance(good, Record)
        assert good.text == "good"
        told = [(item.where, item.reason) for item in bad if isinstance(item, BadRecord)]
        assert [where for where, _ in told] == [f"DocumentReference/{name}" for name in "abcde"]
        for (_, why), part in zip(
            told,
            ["elsewhere", "'image/png' is not", "base64", "no whole PDF", "klingon"],
            strict=True,
        ):
            assert part in why
        assert no_type == BadRecord(
            "entry 7", "it is no FHIR resource: 'resourceType' is not a text"
        )

    def test_a_single_resource_and_lines_of_them(self, tmp_path: Path) -> None:
        one = reference("a", attachment(b"first", "text/plain"))
        two = {"resourceType": "Binary", "id": "b", **attachment(b"second", "text/plain")}
        assert record(tmp_path / "a.json", json.dumps(one)).text == "first"
        lines = "\n".join(json.dumps(item) for item in (one, two, {"text": "third", "id": 3}))
        found = records(tmp_path / "a.ndjson", lines)
        assert [item.name for item in found] == ["DocumentReference/a", "Binary/b", "3"]
        assert [item.text for item in found] == ["first", "second", "third"]

    def test_what_has_no_text_is_told(self, tmp_path: Path) -> None:
        data = bundle({"resourceType": "Patient", "id": "1"})
        assert reason(tmp_path / "a.json", data) == "none of its resources has a text"
        cut = bundle(reference("a", attachment(b"good", "text/plain")))[:-20]
        found = load(tmp_path / "a.json", cut)
        assert "it is not valid JSON" in str(found[-1])

    def test_the_type_may_come_last(self, tmp_path: Path) -> None:
        data = {"entry": [{"resource": reference("a", attachment(b"x", "text/plain"))}]}
        data |= {"resourceType": "Bundle"}  # type: ignore[dict-item]
        assert record(tmp_path / "a.json", json.dumps(data)).text == "x"

    def test_bundles_inside_of_bundles_end_somewhere(self, tmp_path: Path) -> None:
        inner: dict[str, Any] = reference("a", attachment(b"x", "text/plain"))
        for _ in range(3):
            inner = {"resourceType": "Bundle", "entry": [{"resource": inner}]}
        assert record(tmp_path / "a.json", json.dumps(inner)).text == "x"
        for _ in range(50):
            inner = {"resourceType": "Bundle", "entry": [{"resource": inner}]}
        assert "nested more than" in reason(tmp_path / "a.json", json.dumps(inner))


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zerorag_p2p.library.formats import json_lines

    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 100)
    lines = json.dumps({"text": "good"}) + "\n" + json.dumps({"text": "x" * 200})
    good, bad = load(tmp_path / "a.jsonl", lines)
    assert isinstance(good, Record)
    assert "a line of it is longer than 100 bytes" in str(bad)


def test_json_lines_in_utf16(tmp_path: Path) -> None:
    line = json.dumps({"id": "a", "text": "Größe"}, ensure_ascii=False)
    assert record(tmp_path / "a.jsonl", f"{line}\n".encode("utf-16")).text == "Größe"


def test_a_defect_of_a_reader_is_a_bad_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(source: object) -> None:
        raise ZeroDivisionError("what the patient said")

    monkeypatch.setitem(loaders._READERS, ".txt", fail)
    assert reason(tmp_path / "a.txt", "x").startswith("it cannot be read: ZeroDivisionError")
    assert "test_formats.py" in caplog.text
    assert "what the patient said" not in caplog.text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("resourceType", "id", "text", "div", "note", "content", "attachment", "data"),
                    *("contentType", "entry", "resource", "section", "title", "code", "coding"),
                    *("display", "payload", "contentString", "subject", "CONTEXTS", "metadata"),
                ]
            ),
            inner | st.sampled_from(["Bundle", "DocumentReference", "Binary", "text/html"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    st.sampled_from(sorted(loaders._READERS)),
    st.binary(max_size=300)
    | st.text(alphabet='<>/ap&;,"\n\t{}[]:1 é\0', max_size=200).map(str.encode)
    | JSON_VALUES.map(lambda value: json.dumps(value).encode())
    | st.tuples(
        st.sampled_from([make_pdf(["a", "b"]), make_docx(paragraph("a"))]),
        st.integers(0, 2_000),
        st.binary(max_size=20),
    ).map(lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] + len(cut[2]) :]),
)
@settings(deadline=None)
def test_whatever_is_in_a_file_it_is_read_or_told_of(suffix: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for item in load(Path(folder, f"a{suffix}"), data):
            if isinstance(item, BadRecord):
                assert "while reading it" not in item.reason
            else:
                with contextlib.suppress(LibraryError):
                    item.check()
                    item.digest()
