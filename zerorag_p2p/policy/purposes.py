"""Purposes of use, as people name them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from zerorag_p2p.errors import UsageError
from zerorag_p2p.model import Purpose

_BY_NAME: Final = MappingProxyType(
    {
        "treatment": Purpose.TREAT,
        "emergency": Purpose.ETREAT,
        "research": Purpose.HRESCH,
        "payment": Purpose.HPAYMT,
        "operations": Purpose.HOPERAT,
        "public-health": Purpose.PUBHLTH,
        "patient-request": Purpose.PATRQT,
    }
)


def parse_purpose(text: str) -> Purpose:
    """Read a purpose by its plain name or its HL7 code, in any case.

    Raises:
        UsageError: There is no such purpose.
    """
    if text.lower() in _BY_NAME:
        return _BY_NAME[text.lower()]
    if text.upper() in _BY_NAME.values():
        return Purpose(text.upper())
    known = ", ".join(f"{name} ({code})" for name, code in _BY_NAME.items())
    raise UsageError(f"{text!r} is no purpose of use; choose one of {known}")
