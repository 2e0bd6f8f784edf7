"""Files that tests read documents from, made from their texts."""

import io
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def make_pdf(pages: Sequence[str], *, title: str = "") -> bytes:
    """A PDF whose pages have one line of text each; a blank one for ""."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, text in enumerate(pages):
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        drawn = f"BT /F1 12 Tf 72 720 Td ({escaped}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn.encode('cp1252'))} >>\nstream\n{drawn}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    out = io.BytesIO(b"")
    out.write(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252"))
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    for offset in offsets:
        out.write(f"{offset:010} 00000 n \n".encode())
    trailer = f"/Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R"
    out.write(f"trailer\n<< {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def make_docx(
    body: str, *, styles: str = "", parts: dict[str, str] | None = None, main: str = ""
) -> bytes:
    """A Word document.

    Args:
        body: XML inside of its body.
        styles: XML inside of its styles.
        parts: Other parts by name.
        main: Its main part, instead of one around `body`.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/word/document2.xml" ContentType="{MAIN}"/></Types>',
        )
        whole = f"<w:document {W}><w:body>{body}</w:body></w:document>"
        archive.writestr("word/document2.xml", main or whole)
        archive.writestr("word/styles.xml", f"<w:styles {W}>{styles}</w:styles>")
        for name, text in (parts or {}).items():
            archive.writestr(name, text)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    """The XML of a paragraph."""
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{escape(text)}</w:t></w:r></w:p>"
