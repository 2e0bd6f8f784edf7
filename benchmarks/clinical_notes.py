"""Short clinical texts with every identifier labelled, made from templates written by hand.

The templates, the names and the numbers were written for this project and describe nobody. They
were written apart from the rules: a name may be in the engine's lists or not. The texts alternate
between a "development" half, whose misses the rules were improved by, and a "held out" half, of
which only the figures were looked at.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

#: Texts made from each template with identifiers.
COPIES: Final = 4

_SLOT: Final = re.compile(r"\{([a-z-]+)(?:\.([a-z0-9]+))?\}")


@dataclass(frozen=True)
class Label:
    """An identifier: characters `start` up to `end`, to be removed by `rule`."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True)
class Note:
    """A text and its identifiers; `held_out` tells the halves apart."""

    text: str
    labels: tuple[Label, ...]
    held_out: bool


FILLERS: Final[dict[str, tuple[str, ...]]] = {
    "name.full": (
        "Margaret Holloway",
        "Tomasz Wrona",
        "Oluwaseyi Bankole",
        "Priya Venkataraman",
        "Jean-Luc Moreau",
        "Siobhán Ní Bhriain",
        "Wei Zhang",
        "Ayşe Kaplan",
        "Dmitri Volkonsky",
        "Fatoumata Keita",
        "Hiroko Tanizaki",
        "Lars Fredriksen",
        "María José Quintero",
        "Yusuf Abdirahman",
        "Harpreet Gill",
        "Beatrix Pemberton",
        "Kwabena Sarpong",
        "Nguyen Thi Lan",
        "Elif Arslan",
        "Gwendolyn Price",
        "Ioannis Kalogeropoulos",
        "Zsuzsanna Balint",
        "Rukmini Iyengar",
        "Thabo Mokoena",
        "Aleksandra Pawlak",
        "Caoimhe Gallagher",
        "Noor van den Heuvel",
        "Rashida Chowdhury",
        "Bob Underhill",
        "Dorothea Quist",
        "Emmanuel Tetteh",
        "Ludmila Horáčková",
        "Desmond Achebe",
        "Chen Xiuying",
        "Solveig Aaberg",
        "Marco De Luca",
    ),
    "name.surname": (
        "Holloway",
        "Wrona",
        "Bankole",
        "O'Sullivan",
        "McAllister",
        "van der Berg",
        "Tanizaki",
        "Keita",
        "Kaplan",
        "Fairweather",
        "Quintero",
        "Abdirahman",
        "Nakagawa",
        "Pemberton",
        "Smith-Okoye",
        "Das",
        "Ferrante",
        "Goldstein",
        "Lindgren",
        "Thorne",
        "Vasilenko",
        "Young",
        "Parkinson",
        "Bell",
        "Green",
    ),
    "name.given": (
        "Margaret",
        "Tomasz",
        "Seyi",
        "Priya",
        "Siobhán",
        "Ayşe",
        "Hiroko",
        "Lars",
        "Thabo",
        "Gwen",
        "Rukmini",
        "Caoimhe",
        "Marco",
        "Beatrix",
        "Elif",
    ),
    "name.inverted": (
        "Holloway, Margaret",
        "Wrona, Tomasz",
        "KEITA, Fatoumata",
        "Venkataraman, Priya",
        "BANKOLE, Seyi",
        "Quintero, María José",
        "Taylor, Grace",
        "PRICE, Gwendolyn",
        "Hussain, Nabeel",
        "O'Sullivan, Eithne",
    ),
    "name.initial": (
        "M. Holloway",
        "T Wrona",
        "P. Venkataraman",
        "J.L. Moreau",
        "A. Goldstein",
        "R. Chowdhury",
        "H. Singh",
        "K Johansson",
        "E. Fernandez",
        "D. Walsh",
    ),
    "name.upper": ("MARGARET HOLLOWAY", "TOMASZ WRONA", "GRACE TAYLOR", "AHMED HUSSAIN"),
    "date.numeric": (
        "14/03/2023",
        "3/11/23",
        "07.09.2021",
        "2022-12-30",
        "1-2-2024",
        "11/30/2022",
        "28/02/19",
        "2023/06/05",
        "5. 4. 2020",
        "20230917",
    ),
    "date.long": (
        "14 March 2023",
        "the 3rd of November 2022",
        "March 9, 2021",
        "Tuesday 8 August 2023",
        "12th January 2020",
        "Sept. 5, 2022",
        "1 Feb 2024",
        "30-Dec-2022",
        "22nd Oct 21",
        "Dec 1st, 2019",
    ),
    "date.short": ("14 March", "3rd of November", "June 21", "8 Aug", "on 5/11", "12th of May"),
    "date.month": ("March 2023", "Nov 2021", "09/2022", "April of 2020", "December 2018"),
    "date.birth": ("12/05/1947", "1961-08-23", "3 Jan 1990", "30.11.1938", "2/29/1952"),
    "age": (
        "91-year-old",
        "97 year old",
        "102-year-old",
        "94 yo",
        "ninety-three-year-old",
        "95 years old",
        "99-yr-old",
    ),
    "phone": (
        "020 7946 0123",
        "+44 20 7946 0958",
        "07700 900471",
        "(0113) 496 0812",
        "555-0142",
        "(212) 555-0199",
        "212-555-0174",
        "+1 415 555 0132",
        "+49 30 901820 14",
        "01 99 00 45 67",
        "0117 496 0155",
        "+353 1 555 0147",
        "+91 98765 43210",
        "07700900982",
    ),
    "phone.short": ("4417", "5520", "22908", "301"),
    "email": (
        "m.holloway@northgate.example",
        "tomasz_wrona@post.example.org",
        "gp.team+urgent@surgery.example",
        "p.venkataraman@uni-hospital.example.de",
        "ward7@trust.example.uk",
    ),
    "url": (
        "https://portal.northgate.example/patients/8841?tab=labs",
        "www.larkmoor.example/referrals",
        "http://pacs.example.org/study/77120",
        "https://records.example.net/u/mholloway",
    ),
    "ip": ("192.0.2.44", "198.51.100.7", "2001:db8:0:0:8:800:200c:417a", "203.0.113.201"),
    "record-number": (
        "4471902",
        "RK-208813",
        "H0092817",
        "00318846",
        "A1 774512",
        "78-44-120",
        "X9920417",
        "2023/004417",
        "SPC20817",
    ),
    "record-number.bare": ("00447120983", "RYJ4471902", "H00928174", "1100448271"),
    "national-number": (
        "943 476 5919",
        "485 777 3456",
        "078-05-1120",
        "219-09-9999",
        "QQ 12 34 56 C",
        "401-023-2137",
        "9434765919",
        "1 85 05 78 006 084 36",
    ),
    "national-number.bare": ("943 476 5919", "219-09-9999", "QQ123456C", "485-777-3456"),
    "address": (
        "14 Elmhurst Road, Leeds LS8 2QJ",
        "Flat 3, 27 Mill Lane, Cambridge CB1 2AD",
        "4021 Larkspur Avenue, Dayton, OH 45402",
        "9 The Crescent, Bath BA1 5LR",
        "Lindenstraße 18, 10969 Berlin",
        "12 rue des Lilas, 75020 Paris",
        "221 Harrow Hill, Apt 4",
        "PO Box 1182, Ennis",
        "Calle Mayor 22, 28013 Madrid",
        "77 St Aldate's Street, Oxford OX1 1AA",
        "1600 North Fairview Drive",
    ),
    "address.postcode": ("LS8 2QJ", "CB1 2AD", "M13 9WL", "EH3 9YL", "OH 45402"),
}

#: Templates with identifiers. A slot is a rule, or a rule and a kind of filler.
_TEMPLATES: Final = (
    "Dear Dr {name.surname},\n\nThank you for referring {name.full}, DOB {date.birth}, whom I saw "
    "in clinic on {date.numeric}. HbA1c has fallen from 82 to 61 mmol/mol on metformin 1 g twice "
    "daily.\n\nYours sincerely,\nDr {name.full}\nConsultant Diabetologist",
    "DISCHARGE SUMMARY\nPatient: {name.inverted}\nMRN: {record-number}\nNHS No: {national-number}\n"
    "Admitted: {date.numeric}\nDischarged: {date.numeric}\nDiagnosis: "
    "community-acquired pneumonia, "
    "CURB-65 2. Treated with amoxicillin 500 mg tds for 5 days.",
    "{age} woman brought in by ambulance after a fall at home. Next of kin: "
    "{name.full} (daughter), "
    "tel {phone}. GCS 15/15, BP 148/82, hip X-ray shows an intracapsular fracture.",
    "Tel. call {date.long}. Mr {name.surname} rang from {phone}, ankle swelling "
    "worse since Monday. "
    "Furosemide up to 80 mg. Ring back if weight above 84 kg.",
    "Pt reviewed with Prof {name.surname}. Plan: restart apixaban 5 mg bd, repeat U&E in one week. "
    "Discussed with wife {name.given}, who will call {phone} if there is bleeding.",
    "Radiology report. Accession {record-number}. Exam date {date.numeric}. CT chest: 8 mm nodule "
    "in the right upper lobe, Fleischner follow-up at 6 months. Reported by {name.initial}.",
    "Nursing note: Mrs {name.surname} comfortable overnight, ate half of breakfast. Pressure areas "
    "intact, Waterlow 14. Son {name.given} visited. Sister {name.surname} to update the family.",
    "To: {email}\nSubject: transfer of {name.full}\n\nBed agreed on ward 7 for {date.short}. "
    "Please send the drug chart. Bleep {phone.short} on arrival.",
    "Pathology: specimen no. {record-number} received {date.numeric}. Sigmoid colon, moderately "
    "differentiated adenocarcinoma, pT3 N1b, KRAS G12D, MSI stable. Dr {name.initial}",
    "Social history: lives alone at {address}. Retired teacher, never smoked, 4 units a week. "
    "Neighbour, {name.full}, shops for her.",
    "Re: {name.full}, {address}\n\nThis gentleman attended on {date.long} with chest "
    "pain. Troponin "
    "7 ng/L and 8 ng/L, ECG sinus rhythm. Discharged with aspirin 75 mg.",
    "First seen in {date.month}; relapse in {date.month}. EDSS 3.5. Started ocrelizumab 300 mg, "
    "second dose two weeks later. MS nurse {name.full} has explained the infusion.",
    "ED triage {date.numeric} 02:14. {name.upper}, f, headache 3 days, photophobia. Temp 38.6. "
    "LP after CT. Lives at {address}. GP: Dr {name.surname}.",
    "Safeguarding referral for child {name.full}, born {date.birth}, hospital number "
    "{record-number}. Mother {name.full} present. Images are at {url}.",
    "Patient portal login failed from {ip}; the patient, {name.full}, was asked to use {url} "
    "and to write to {email}.",
    "Operation note. Surgeon: {name.full}. Anaesthetist: Dr {name.surname}. "
    "Procedure: laparoscopic "
    "cholecystectomy. Date: {date.numeric}. Blood loss 50 ml. Clips x3 to cystic artery.",
    "Clinic letter dictated by {name.full} and typed {date.numeric}. cc {name.full}, "
    "{address.postcode}. Levothyroxine 100 micrograms, TSH 3.1 mU/L.",
    "Insurance claim no {record-number}, policy {record-number}. Patient SSN {national-number}. "
    "Dx: lumbar radiculopathy. MRI {date.numeric} L5/S1 disc. Phone {phone}.",
    "Known to our service since {date.month}. Aged {age}, frail, Rockwood 7. Daughter {name.full} "
    "holds power of attorney ({email}, mobile {phone}).",
    "Pharmacy query from {name.full}, ext {phone.short}: vancomycin trough 22 mg/L, "
    "reduce to 750 mg "
    "bd? Answered by Dr {name.surname} on {date.short}.",
    "Ms {name.full} missed her appointment on {date.long}. Second letter sent to {address}. "
    "If no reply by {date.long}, discharge to GP.",
    "Interpreter {name.full} attended. Pt says she fled in {date.month}, arrived {date.month}. "
    "TB screen: IGRA positive, CXR clear. Rifampicin and isoniazid for 3 months.",
    "{name.inverted}  {date.birth}  {national-number.bare}\nDiabetic foot clinic. "
    "Texas grade 2B ulcer, "
    "left hallux. Offloading, co-amoxiclav 625 mg tds. Review 1/52.",
    "Cardiac rehab: {name.full} completed 8 of 10 sessions. Last session "
    "{date.numeric}. Contact her "
    "on {phone} in the evening. Signed: {name.full}",
    "Dear {name.full},\n\nYour scan of {date.long} shows no change. We will see you again in 12 "
    "months. If you move from {address}, please tell us on {phone}.",
    "Family history: sister {name.given} had breast cancer at 44 (BRCA1 c.68_69delAG). Genetics "
    "clinic letter {date.numeric}, family number {record-number}.",
    "Psychiatric liaison: {name.full} is a 34-year-old man under Section 2 since {date.long}. His "
    "partner {name.given} rang; he has not slept for 4 days. Olanzapine 10 mg nocte.",
    "Renal transplant follow-up, {name.full} ({record-number.bare}). Creatinine 141, "
    "tacrolimus level "
    "6.8 ng/ml. Donor kidney from her brother {name.given}, operated {date.month}.",
    "Frau {name.surname}, geb. {date.birth}, wohnhaft {address}, wurde am {date.numeric} mit "
    "Vorhofflimmern aufgenommen. Apixaban 5 mg 1-0-1.",
    "Mme {name.full}, née le {date.birth}, a été vue le {date.long}. Dyspnée stade "
    "II. Tél. {phone}.",
    "Paciente: {name.full}. Fecha de nacimiento: {date.birth}. Ingresa el {date.numeric} por dolor "
    "abdominal. Dirección: {address}.",
    "Police brought {name.full} from {address.postcode}. Capacity assessed by Dr {name.surname} at "
    "23:40. Lithium level 1.4 mmol/L. Sgt to be phoned on {phone}.",
    "death certificate completed {date.numeric} by Dr {name.full}; {age} man, 1a aspiration "
    "pneumonia. Relatives informed, his niece {name.full} will collect.",
    "Home visit by {name.full} RN. {name.full} on oxygen 2 L/min, sats 91%. Concentrator serial "
    "number {record-number}. Rescue pack given. Next visit {date.short}.",
    "Study participant {record-number}, consented {date.numeric} by {name.initial}. "
    "Randomised 1:1, "
    "baseline eGFR 47. Questions to {email}.",
    "Handover: bed 4 {name.surname} - chest drain, bed 5 {name.full} - for theatre, bed 6 Mrs "
    "{name.surname} - home with husband {name.given} {date.short}.",
    "Ambulance sheet: collected from {address}, {age} lady, SOB since this morning. "
    "Sats 84% on air. "
    "Son {name.full} on {phone}. NHS {national-number.bare}.",
    "I met this {age} gentleman and his carer {name.given} at {address} on {date.numeric}. He was "
    "born {date.birth}. AMTS 6/10. National insurance {national-number}.",
    "Audit trail: record {record-number} of {name.inverted} opened from {ip} on {date.numeric} by "
    "{email}. Reason given: medication query.",
    "Address: {address}\nEmail: {email}\nCarer: {name.full}\nThe device reports from {ip}; last "
    "upload {date.long}. A {age} neighbour helps with the inhaler.",
)

#: Texts without anybody in them, that look as if there were.
_NOBODY: Final = (
    "Parkinson's disease with Lewy body dementia; a trial of levodopa 100 mg three times a day.",
    "Hodgkin lymphoma, nodular sclerosis, Ann Arbor stage IIA. ABVD for two cycles.",
    "Graves' disease was treated with carbimazole 20 mg; Hashimoto thyroiditis was excluded.",
    "Murphy's sign positive, McBurney's point tender, Rovsing sign negative.",
    "Glasgow Coma Scale 9/15, Wells score 4.5, Child-Pugh class B, Apgar 7 and 9.",
    "BRCA1 and PALB2 were sequenced; TP53 R175H, EGFR L858R, CYP2C19*2 and HLA-B27 were found.",
    "NICE guideline NG28 was published in 2015 and updated in 2022; see also CG181 and TA875.",
    "Registered as NCT04280705 and ISRCTN50189673; PMID: 31562797; doi 10.1056/NEJMoa1911303.",
    "Give alteplase 0.9 mg/kg, 10% as a bolus over 1 minute and 90% over 60 minutes.",
    "Sodium 139, potassium 4.2, urea 6.1, creatinine 88, eGFR 72, CRP 4, platelets 245.",
    "Blood pressure 135/85, heart rate 72, SpO2 98% on air, temperature 36.8, weight 74.5 kg.",
    "HIV viral load was 1200000 copies/ml and fell below 50; CD4 count 350 cells.",
    "An 89-year-old man and a 72-year-old woman were randomised 1:1; follow-up was 90 days.",
    "Median age was 64 (IQR 52 to 71); 95 patients completed the study and 92% were alive.",
    "Insert a Foley catheter, 16 Fr, and a Ryle's tube; use a Hartmann's solution 1000 ml bag.",
    "Stevens-Johnson syndrome, Guillain-Barré syndrome and Epstein-Barr virus infection.",
    "Staphylococcus aureus and E. coli were cultured; C. difficile toxin was negative.",
    "May be repeated after 4 hours. Max 4 g in 24 hours. Will need dose reduction if "
    "eGFR below 30.",
    "Marked improvement. Grace period over. Faith in the treatment and hope for recovery remain.",
    "Mitral valve replaced, Hancock bioprosthesis; Starr-Edwards valve in the aortic position.",
    "The Barthel index rose from 45 to 80; Waterlow 12; Braden scale 18; MUST score 1.",
    "Ratio 3/4, a 2:1 block, a 12-lead ECG, a 24-hour tape, and a 6-minute walk of 320 m.",
    "Use Ringer lactate at 10 ml/kg/h, then Dextrose 5%. Check glucose every 4-6 hours.",
    "Barrett's oesophagus, Prague C2M4; Los Angeles grade B oesophagitis; Z-line at 38 cm.",
    "Step 1: SABA. Step 2: low-dose ICS. Step 3: ICS-LABA. Refer if FEV1 is below 60%.",
    "Vitamin B12 180 ng/L, folate 4.1 mcg/L, ferritin 9; oral iron 200 mg on alternate days.",
    "Salter-Harris type II fracture; Colles fracture; Garden grade III; Weber B ankle.",
    "Rockwood score 6; Charlson index 4; ASA grade 3; Mallampati 2; Cormack-Lehane grade 1.",
    "Cochrane review of 23 trials with 14,512 patients; relative risk 0.81 (0.72 to 0.91).",
    "Protocol version 3.2.1 replaces version 2.10.19. Section 4.1.12 describes withdrawal.",
    "Tube feeding 1500 kcal at 63 ml/h over 24 h; flush with 30 ml; aspirate above 500 ml: stop.",
    "Kawasaki disease: IVIG 2 g/kg over 12 hours, aspirin 30 to 50 mg/kg/day in four doses.",
    "Paracetamol level 112 mg/L at 4 hours is above the Rumack-Matthew line: start acetylcysteine.",
    "Bed 12, bay 3, theatre 4, ward 7B. Sharps bin full. Doctor on call informed. Nurse in charge.",
    "Patient: stable. Plan: Cardiology review. Re: Annual diabetes check. Contact: Ward clerk.",
    "ANA positive 1:640, dsDNA negative, anti-Ro and anti-La positive. ELISA repeated.",
    "Rinne positive both sides, Weber central, Dix-Hallpike negative, Romberg steady.",
    "The Oxford knee score was 22; Harris hip score 61; Constant score 40.",
    "Norfolk and Norwich protocol; Birmingham hip; Bristol stool chart type 6; Sheffield table.",
    "Cushing's syndrome was excluded by a 1 mg dexamethasone test; Addison's crisis is unlikely.",
)


def clinical_notes(seed: int = 0) -> list[Note]:
    """The labelled set; the same for the same seed."""
    generator = random.Random(seed)
    decks = {kind: _Deck(fillers, generator) for kind, fillers in FILLERS.items()}
    notes = []
    for number, template in enumerate(_TEMPLATES):
        notes += [_fill(template, decks, held_out=number % 2 == 1) for _ in range(COPIES)]
    notes += [Note(text, (), number % 2 == 1) for number, text in enumerate(_NOBODY)]
    return notes


class _Deck:
    """Fillers in random order, each once before any comes again."""

    def __init__(self, fillers: tuple[str, ...], generator: random.Random) -> None:
        self._fillers = fillers
        self._generator = generator
        self._left: list[str] = []

    def draw(self) -> str:
        if not self._left:
            self._left = self._generator.sample(self._fillers, len(self._fillers))
        return self._left.pop()


def _fill(template: str, decks: dict[str, _Deck], *, held_out: bool) -> Note:
    text, after = "", 0
    labels = []
    for slot in _SLOT.finditer(template):
        rule, kind = slot.groups()
        filler = decks[f"{rule}.{kind}" if kind else rule].draw()
        text += template[after : slot.start()]
        after = slot.end()
        start = len(text)
        text += filler
        if filler.startswith("on "):  # the word before a short date stays
            start += len("on ")
        labels.append(Label(start, len(text), rule))
    return Note(text + template[after:], tuple(labels), held_out)
