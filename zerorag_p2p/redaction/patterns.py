"""Patterns of identifiers that have a form of their own: dates, numbers, addresses.

No pattern can take long. Every repetition has a bound, almost all are possessive (what they took
they do not give back), and a match begins at the edge of a word, so that the work is at most
proportional to the length of the text. tests/unit/test_redaction_patterns.py checks this by the
structure of the patterns.
"""

from __future__ import annotations

import re
from typing import Final

_FLAGS: Final = re.VERBOSE

# Building blocks. A space is one within a line; a gap may end the line.
_S: Final = r"[^\S\n]"
_NOT_IN_WORD: Final = r"(?<![\w.])(?<![Vv]ersion[ ])(?<![Ss]ection[ ])"
_START: Final = r"(?<!\w)"
_END: Final = r"(?!\w)"

_MONTH: Final = r"""(?:
    [Jj]an(?:uary|uar|vier)?+ | [Ff]eb(?:ruary|ruar)?+ | [Mm]ar(?:ch|s|zo)?+ | [Mm]är(?:z)?+
  | [Aa]pr(?:il)?+ | [Mm]a[yi] | [Jj]une? | [Jj]uly? | [Jj]uni | [Jj]uli | [Aa]ug(?:ust)?+
  | [Ss]ept?+(?:ember|embre)?+ | [Oo]ct(?:ober|obre)?+ | [Oo]kt(?:ober)?+
  | [Nn]ov(?:ember|embre)?+ | [Dd]ec(?:ember)?+ | [Dd]ez(?:ember)?+ | [Dd]éc(?:embre)?+
  | février | avril | juin | juillet | août | enero | febrero | abril | junio | julio | agosto
  | septiembre | octubre | noviembre | diciembre | gennaio | febbraio | aprile | maggio | giugno
  | luglio | settembre | ottobre | dicembre | januari | februari | maart | mei | augustus
  | JAN | FEB | MAR | APR | MAY | JUN | JUL | AUG | SEP | OCT | NOV | DEC
)\b\.?+"""
#: Months whose English name is no other word, in a capital or not.
_CAPITAL_MONTH: Final = r"""(?:
    January | February | March | April | May | June | July | August | September | October
  | November | December | Jan | Feb | Mar | Apr | Jun | Jul | Aug | Sept? | Oct | Nov | Dec
)\b\.?+"""
_DAY: Final = r"(?:3[01]|[12]\d|0?[1-9])"
_ORDINAL: Final = rf"{_DAY}(?:st|nd|rd|th|er|\.|º)?+"
_MONTH_NUMBER: Final = r"(?:1[0-2]|0?[1-9])"
_YEAR: Final = r"(?:(?:18|19|20)\d\d)"
_ANY_YEAR: Final = rf"(?:{_YEAR}|['’]?\d\d)(?!\d)"
_TIME: Final = r"(?:[T ]\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6}+)?)?(?:Z|[+-]\d\d:?\d\d)?)"
_WEEKDAY: Final = (
    r"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,?[^\S\n]{1,2}+)"
)

DATE: Final = re.compile(
    rf"""
    {_NOT_IN_WORD}(?:
        {_YEAR}-{_MONTH_NUMBER}-{_DAY}(?!\d){_TIME}?
      | {_YEAR}([/.]){_MONTH_NUMBER}\1{_DAY}(?!\d)
      | (?:{_DAY}([/.-]){_MONTH_NUMBER}\2|{_MONTH_NUMBER}([/.-]){_DAY}\3)
        (?:{_YEAR}|\d\d)(?![\d.]\d|\d|%|/\d){_TIME}?
      | {_DAY}{_S}?[/.-]{_S}?{_MONTH_NUMBER}{_S}?[/.-]{_S}?{_YEAR}(?!\d)
      | {_MONTH_NUMBER}/{_YEAR}(?![\d/])
      | (?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)
    )
    | {_START}{_WEEKDAY}?(?:the{_S})?{_ORDINAL}[-/ ]?{_S}?(?:of{_S}|de{_S})?{_MONTH}
      [-/, ]{{0,2}}(?:de{_S})?{_ANY_YEAR}
    | {_START}{_WEEKDAY}?(?:the{_S})?{_ORDINAL}{_S}{{0,2}}(?:of{_S})?{_CAPITAL_MONTH}
      (?!\w|{_S}be\b)
    | {_START}{_WEEKDAY}?{_MONTH}{_S}{{1,2}}(?:the{_S})?{_DAY}(?:st|nd|rd|th)?+,?{_S}{{1,2}}
      {_ANY_YEAR}
    | {_START}{_WEEKDAY}?{_CAPITAL_MONTH}{_S}(?:the{_S})?{_DAY}(?:st|nd|rd|th)?+
      (?![\w.]|{_S}?(?:mg|mcg|g|ml|units?|tablets?|%)\b)
    | {_START}{_MONTH},?{_S}{{0,2}}(?:of{_S})?{_YEAR}(?!\d)
    """,
    _FLAGS,
)

#: A day and a month without a year, behind a word that makes a date of them. Group 1 is the date.
DATE_LABELLED: Final = re.compile(
    rf"""
    (?i:{_START}(?:on|dated?|dob|born|seen|until|since|from|by){_S}{{1,2}})
    ({_DAY}/{_MONTH_NUMBER}|{_MONTH_NUMBER}/{_DAY})(?![\d/])
    """,
    _FLAGS,
)

EMAIL: Final = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}+@[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}+"
)

URL: Final = re.compile(
    r"""(?<!\w)(?:(?i:https?|ftp|sftp)://|(?i:www)\.(?=\w))[^\s<>"'\)\]]{1,500}+"""
)

IP: Final = re.compile(
    r"""
    (?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)
    (?![\w.]\d|\w)
    | (?<![\w:])(?:[0-9A-Fa-f]{1,4}+:){7}[0-9A-Fa-f]{1,4}(?![\w:])
    | (?<![\w:])(?:[0-9A-Fa-f]{1,4}+:){1,6}:
      (?:[0-9A-Fa-f]{1,4}+(?::[0-9A-Fa-f]{1,4}+){0,5})?(?![\w:])
    | (?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:])
    """,
    _FLAGS,
)

_SEP: Final = r"[ .\u00a0\u2009\u2011-]"

PHONE: Final = re.compile(
    rf"""
    (?<![\w+])(?:
        (?:\+|00)[1-9]\d{{0,2}}{_SEP}?(?:\(0\){_SEP}?|\(\d{{1,4}}\){_SEP}?)?
        \d{{1,5}}(?:{_SEP}?\d{{2,8}}+){{1,5}}
      | \(0\d{{2,5}}\){_SEP}?\d{{3,4}}{_SEP}?\d{{3,4}}
      | 0\d{{2,5}}[ -]\d{{3,4}}[ -]?\d{{3,4}}
      | 0\d{{2,4}}[ -/]\d{{5,8}}
      | 0\d(?:[ .-]\d\d){{4}}
      | 0[1-9]\d{{8,9}}
      | (?:1[ .-])?(?:\([2-9]\d\d\){_SEP}?|[2-9]\d\d[.-])\d{{3}}[ .-]\d{{4}}
      | [2-9]\d\d-\d{{4}}
    )(?:{_S}?(?:x|ext\.?|extension){_S}?\d{{1,6}})?(?![\w-]\d|\w)
    """,
    _FLAGS,
)

#: What follows the word for a telephone is its number, however short. Group 1 is the number.
PHONE_LABELLED: Final = re.compile(
    rf"""
    (?i:{_START}(?:tel(?:ephone)?|phone|mobile|cell|fax|bleep|pager|ext(?:ension)?
      |landline|whatsapp)
    (?:{_S}(?:no|number|num))?[.:]{{0,2}}{_S}{{0,2}}(?:(?:is|on|at){_S})?\#?)
    (\(?\+?\d[\d\u00a0 ().-]{{1,20}}\d)(?!\w)
    """,
    _FLAGS,
)

#: Numbers that a country gives its people.
NATIONAL_NUMBER: Final = re.compile(
    rf"""
    {_START}(?:
        \d{{3}}-\d\d-\d{{4}}                                               # US SSN
      | \d{{3}}[ -]\d{{3}}[ -]\d{{4}}                                      # NHS number
      | [A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]{_S}?\d\d{_S}?\d\d{_S}?\d\d{_S}?[A-D]   # UK NI number
      | [1278]{_S}?\d\d{_S}?(?:0[1-9]|1[0-2]){_S}?\d[\dAB]{_S}?\d{{3}}{_S}?\d{{3}}
        (?:{_S}?\d\d)?                                                   # FR NIR
      | \d{{8}}-?[A-HJ-NP-TV-Z]                                            # ES DNI
      | [XYZ]-?\d{{7}}-?[A-Z]                                              # ES NIE
      | [A-Z]{{6}}\d\d[A-EHLMPRST]\d\d[A-Z]\d{{3}}[A-Z]                    # IT codice fiscale
      | (?:19|20)?\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])[-+]\d{{4}}        # SE, FI
      | \d{{4}}{_S}\d{{4}}{_S}\d{{4}}(?!{_S}\d)                            # IN Aadhaar
      | \d{{3}}\.\d{{3}}\.\d{{3}}-\d\d                                     # BR CPF
      | \d{{6}}[-/]\d{{3,4}}                                               # CZ, SK, IS, DK
      | 756\.\d{{4}}\.\d{{4}}\.\d\d                                        # CH AHV
    ){_END}
    """,
    _FLAGS,
)

#: Group 1 is the number.
NATIONAL_NUMBER_LABELLED: Final = re.compile(
    rf"""
    (?i:{_START}(?:nhs|ssn|social{_S}security|chi|bsn|pesel|dni|nie|nir|aadhaar|medicare|medicaid
      |passport|national{_S}(?:insurance|id|identity)|nino|h\s?&\s?c|ihi|hkid|nric)
    (?:{_S}(?:no|number|num|id))?[.:\#]{{0,2}}{_S}{{0,2}}(?:is{_S})?)
    ([A-Z]{{0,3}}+{_S}?\d[\dA-Z -]{{3,18}}[\dA-Z])(?!\w)
    """,
    _FLAGS,
)

#: Numbers of records, cases, samples and accounts, by the word before. Group 1 is the number.
RECORD_NUMBER_LABELLED: Final = re.compile(
    rf"""
    (?i:{_START}(?:mrn|mr|urn|uhid|pid|hosp(?:ital)?|patient|case|file|record|medical{_S}record
      |chart|episode|encounter|admission|visit|accession|specimen|sample|lab|order|account|acct
      |policy|claim|insurance|member(?:ship)?|licen[cs]e|device|serial|unit|registration|reg
      |reference|ref|request|barcode|study{_S}id|subject|participant|ward{_S}reg
      |id|nhi|vehicle|plate)
    (?:{_S}(?:no|nr|number|num|id|code|ref(?:erence)?))?(?:[.:\#°º]|{_S}){{1,4}}(?:is{_S})?\#?)
    ((?=(?:[A-Z/. -]{{0,6}}\d){{3}})[A-Z]{{0,5}}+[-/ ]?\d[\dA-Z]{{0,14}}+
    (?:[-/.][\dA-Z]{{1,10}}+|{_S}\d{{3,10}}+){{0,3}}+)(?!\w|{_S}?%)
    """,
    _FLAGS,
)

#: A quantity's unit behind a bare number: then it identifies nobody.
_UNIT: Final = (
    r"(?:copies|cells|IU|iu|U|units?|CFU|cfu|mg|g|ml|mL|L|l|cGy|Gy|x|years?|days?|patients?"
    r"|GBP|USD)"
)

RECORD_NUMBER: Final = re.compile(
    rf"""
    (?<![\w./+-])(?:
        (?!NCT|ISRCTN|PMID|PMC|DOI|CVE|ICD|EUDRACT|EudraCT|ISBN|ISSN|NG|TA|CG|GSE
          |ENSG|ENST|SNOMED|LOINC)
        [A-Z]{{1,4}}[-/]?\d{{6,10}}[A-Z]?
      | [A-Z]{{1,3}}-\d{{2,4}}-\d{{3,8}}
      | \d\d/\d{{5,8}}
      | \d{{7,12}}
    )(?![\w./-]\w|\w|{_S}?(?:{_UNIT}\b|%|/))
    """,
    _FLAGS,
)

#: Numbers of the literature and of registers, which name studies and not people.
NO_RECORD: Final = re.compile(
    rf"(?i:(?:PMID|PubMed|ISRCTN|NCT|DOI|SNOMED(?:{_S}CT)?|LOINC|ISBN|ICD|Orphanet|ORPHA|OMIM)"
    rf"[:#]?{_S}{{0,2}}\Z)"
)

_CAPITALISED: Final = r"(?:[A-ZÀ-Þ](?:[^\W\d_]|['’-]){1,24}+(?!\w))"
_STREET: Final = r"""(?:
    Street | St\b\.? | Road | Rd\b\.? | Avenue | Ave\b\.? | Lane | Ln\b\.? | Drive | Dr\b\.?
  | Close | Court | Ct\b\.? | Crescent | Place | Pl\b\.? | Way | Terrace | Gardens? | Square | Grove
  | Mews | Boulevard | Blvd\b\.? | Row | Walk | Parkway | Pkwy\b\.? | Highway | Hwy\b\.? | Quay
  | Circle | Trail | Hill | Rise | View | Green | Parade | Wharf | Villas
)"""
_UK_POSTCODE: Final = r"(?:[A-Z]{1,2}\d[A-Z\d]?[ \u00a0]?\d[ABD-HJLNP-UW-Z]{2})"
_US_STATE: Final = r"""(?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]
  |O[HKR]|P[AR]|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY])"""
_US_ZIP: Final = rf"(?:{_US_STATE}{_S}{{1,2}}\d{{5}}(?:-\d{{4}})?)"
_LOCALITY: Final = (
    rf"(?:,?[ \n]{{1,2}}(?:\d{{4,5}}{_S})?{_CAPITALISED}(?:[ -]{_CAPITALISED}){{0,2}}+)"
)
_UNIT_BEHIND: Final = rf"(?:,?{_S}(?:Flat|Apt\.?|Apartment|Unit|Suite|No\.?){_S}?\w{{1,5}})"
_REST: Final = (
    rf"(?:{_UNIT_BEHIND}?"
    rf"(?:,[ \n]{{0,2}}+(?!{_US_STATE}\b){_CAPITALISED}(?:{_S}{_CAPITALISED}){{0,2}}+){{0,3}}"
    rf"(?:,?[ \n]{{1,2}}(?:{_UK_POSTCODE}|{_US_ZIP}))?)"
)

ADDRESS: Final = re.compile(
    rf"""
    {_START}(?:
        (?:(?:Flat|Apt\.?|Apartment|Unit|Suite|Room|House){_S}\w{{1,5}},?{_S}{{1,2}})?
        \d{{1,5}}[A-Za-z]?(?:-\d{{1,4}})?,?{_S}{{1,2}}
        (?:{_CAPITALISED}{_S}){{1,4}}{_STREET}(?!\w){_REST}
      | [A-ZÀ-Þ][\w-]{{0,24}}{_S}?
        (?:[Ss]tra(?:ß|ss)e|[Ss]tr\.|weg|[Aa]llee|[Pp]latz|gasse|straat|laan|gracht|plein|gatan|vej)
        {_S}\d{{1,4}}{_S}?[a-z]?(?!\w){_LOCALITY}?
      | \d{{1,4}}(?:{_S}bis)?,?{_S}(?:rue|avenue|boulevard|place|impasse|chemin|allée|quai)
        {_S}(?:(?:de|du|des|la|le|les){_S}|de{_S}la{_S}|d['’]|l['’]){{0,2}}
        {_CAPITALISED}(?:[ -]{_CAPITALISED}){{0,2}}+{_LOCALITY}?
      | (?:[Cc]alle|[Aa]venida|[Pp]laza|[Vv]ia|[Vv]iale|[Pp]iazza|[Rr]ua){_S}
        (?:(?:de|del|di|da|do|dos|la|las|los){_S}){{0,2}}{_CAPITALISED}(?:{_S}{_CAPITALISED}){{0,2}}
        ,?{_S}(?:n[.º°]{{0,2}}{_S}?)?\d{{1,4}}{_LOCALITY}?
      | (?i:P\.?{_S}?O\.?{_S}?Box){_S}\d{{1,6}}{_REST}
      | {_UK_POSTCODE}(?!\w|{_S}?\d)
      | {_US_ZIP}(?!\w)
    )
    """,
    _FLAGS,
)

#: What follows the word "address", to the end of its line. Group 1 is the address.
ADDRESS_LABELLED: Final = re.compile(
    rf"(?i:{_START}(?:home{_S}|postal{_S}|current{_S})?address{_S}?[:=]{_S}{{0,2}})"
    r"((?:[^\n;.]|(?<=\bSt)\.|\.(?!\s|\Z)){4,120}+)"
)

_OLD: Final = r"(?:9\d|1[0-2]\d)"
_OLD_WORDS: Final = (
    r"(?i:ninety(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?|(?:one|a)[- ]hundred"
    r"(?:[- ]and)?(?:[- ](?:one|two|three|four|five|six|seven|eight|nine|ten))?)"
)

#: Ages of 90 and more. The Safe Harbor of HIPAA lets ages up to 89 stand.
AGE: Final = re.compile(
    rf"""
    {_START}(?:{_OLD}|{_OLD_WORDS}){_S}?-?
    (?:(?i:years?|yrs?|y)[- ]?(?i:old|of{_S}age)|(?i:yo|y/o))\b
    | {_START}{_OLD}(?:{_S}?(?:[MF]|male|female|man|woman)\b)
    | {_START}(?i:aged?|turned)(?i:{_S}(?:of|is))?[:]?{_S}{{0,2}}(?:{_OLD}|{_OLD_WORDS})\b
      (?:{_S}?-?(?:(?i:years?|yrs?|y)[- ]?(?i:old|of{_S}age)|(?i:yo|y/o))\b)?
      (?!{_S}?(?:%|mg|days?|weeks?|months?|minutes?|hours?))
    | {_START}(?i:in{_S}(?:his|her|their){_S}(?:(?:early|mid|late)[- ])?(?:nineties|90s|hundreds))\b
    | {_START}(?:{_OLD}(?:st|nd|rd|th)){_S}(?i:birthday|year)\b
    """,
    _FLAGS,
)
