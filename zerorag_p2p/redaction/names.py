"""Lists of names and of words about names, written for this project. Lower case, no accents.

The lists hold names that are common somewhere; nobody's names are complete. Names that are also
words, places or eponyms are kept apart: alone they prove nothing.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Given names that, capitalised, hardly are anything else.
GIVEN: Final = _words(
    """
    aaliyah aaron abdul abdullah abena abigail abimbola adaeze adam adebayo adele adriana adrian
    agata agnes agnieszka ahmad ahmed aidan aiko aisha aishwarya akash akiko akira akosua alan
    alejandra alejandro aleksandra alessandro alexander alexandra alexei alexis alfred ali alice
    alicia alina alison alistair amanda amara ameera amelia amina amir amit amy ana anastasia
    anders andrea andreas andrei andrew andrzej angela angelika angus anita anjali ann anna
    annabel anne annette annika anthony antoine anton antonia antonio anwar aoife archie arjun
    arthur arturo asha ashley asif astrid audrey ava ayaan ayesha aylin ayumi barbara beatrice
    beatriz ben benjamin bernadette bernard bethany beverley bhavna bilal birgit boris brenda
    brian brigid bridget bronwyn bruno callum camila camille carl carla carlos carmen carol
    caroline catalina catherine cathy cecilia celine charlotte cheng chiamaka chidi chinedu
    chioma chloe chris christina christine christopher ciara claire clara clive colette colin
    connor cristina cyril daniel daniela danielle darius daria david deborah deepak deirdre
    denise dennis derek devi diana diane diego dieter dilip dimitris dina dmitri dominic dominik
    donald donna doreen doris dorothy douglas duncan ebony edith eduardo edward eileen eilidh
    einar ekaterina elaine eleanor elena elif elisabeth eliza elizabeth ellen elsa emeka emil
    emilia emily emma emmanuel enrique eric erik erika ernest ernesto esther ethan eugene eva
    evelyn ewa fabian fatima fatma fatou felix femi fernanda fernando finn fiona florence folake
    francesca francesco francis francisco francois franz freya frieda friedrich gabriel gabriela
    gareth gary gavin gemma genevieve geoffrey george georgia georgina gerald gerard gertrude
    gillian giovanni giulia giuseppe glenn gloria gonzalo gordon graham greta gudrun guillermo
    gunter gustav hamza hana hannah hans harald hari harold harriet harry hassan haruki hassan
    helen helena helga henrik henry hector hilary hiroshi holger hui hugh hugo hussein ian
    ibrahim ifeoma igor ilse imran indira ines ingrid irena irene isaac isabel isabella isla
    ivan ivana jack jacob jacqueline jacques jaime jakub james jamila jane janet janice janine
    jean jeffrey jennifer jeremy jessica jiang jill jing joan joanna joanne joao joel johann
    johanna john jonas jonathan jorge jose josef joseph josephine joshua juan judith julia
    julian juliette justyna kamal kamala karen karim karin karl karolina katarzyna kate
    katherine kathleen kathryn katrin kavita keith kelechi kelly kenji kenneth kerry kevin
    khadija khalid kieran kirsten klaus krishna kristina krzysztof kumar kwabena kwame lakshmi
    lara lars laszlo laura lauren laurent leah leila lena leon leonard leonardo leroy leslie
    leticia lewis liam lidia linda lindsay lisa lois lorenzo lorraine louis louise lucas lucia
    lucy luigi luis luisa lukas lydia lynn magdalena mahmoud maja malcolm malik mandla manuel
    marcel marcin marco marcus margaret margarita maria marian mariam marianne marie marina
    mario marjorie marlene marta martha martin mary mateo matilda matteo matthew matthias
    maureen maurice megan mehmet mei melanie mercy michael michel michelle miguel mikael mike
    milan mildred minh miriam mohamed mohammad mohammed moira monica monika morag muhammad
    murali muriel mustafa nabila nadia naomi natalia natalie natasha nathan neil ngozi nia
    nicholas nicola nicolas nicole niamh nigel nikhil nikolai nina nisha nkechi noah noor nora
    norman nuria obinna olaf olga oliver olivia olu oluwaseun omar oscar osman otto pablo padma
    padraig pamela paolo patricia patrick paul paula paulina pauline pawel pedro peter petra
    philip philippa phoebe phyllis pierre piotr pooja prakash priya priyanka rachel radu rafael
    rahul raj rajesh ralf ramesh rania rashid ravi raymond rebecca reginald rehana renata rene
    rhiannon riaz ricardo richard rita robert roberto rohan roland ronald rosa rosemary rosie
    roxana ruben rukhsana rupert ruth ryan sabine sadia saeed saira sakura salma samantha samir
    samuel sandeep sandra sanjay santiago sara sarah saskia sean sebastian selina serena sergei
    seyi shabana shanice sharon shaun sheila shirley shreya siddharth sigrid silvia simon simone
    sinead siobhan sofia sonia sophia sophie soren stanley stanislaw stefan stella stephanie
    stephen steven stuart sunil suresh susan susanne suzanne svetlana sven sylvia takeshi tamara
    tanvir tariq tatiana temitope teresa terence thandiwe theo theodore theresa thi thomas tiago
    timothy tobias tomas tomasz tracey trevor tunde uchenna ulrich ulrike ursula usha uwe
    valentina valerie vanessa vera verena veronica vijay vikram vincent viola violet viktor
    vivian vladimir wanjiru wayne wei wendy werner wilfred wilhelm william winifred wojciech
    xavier xiao yan yasmin yasmine yetunde ying yolanda yuki yuri yusuf yvonne zachary zahra
    zainab zara zeinab zoe zoltan zsofia
    """
)

#: Given names that are also words, months, flowers or places.
AMBIGUOUS_GIVEN: Final = _words(
    """
    amber angel april art august autumn basil bill bob carter chad chase christian claude dale
    dan dawn dean dick don drew ed ernest eve faith frank gene ginger glen grace grant guy hazel
    heather holly hope iris ivy jasmine jay jordan joy jules june kay kim lance lee li lily mark
    max may melody milo myrtle nat olive pat patience paris pearl penny peter pierce ray rich
    rob robin rod rose ruby rusty sage sally sam sandy scott sky stone sue summer sunny ted tim
    tom tony troy van victor wade wen will woody
    """
)

#: Surnames that, capitalised, hardly are anything else.
SURNAMES: Final = _words(
    """
    abbott abdi abdullahi abe abubakar acheampong achterberg adams adebayo adeleke adeyemi
    afolabi aguilar ahmed akhtar akinyemi alexander allen almeida alvarez amadi andersen
    anderson andersson andrews antonopoulos anwar appiah arora asante ashworth aslan atkinson
    ato avila aydin azevedo bagshaw bailey balogun banerjee barbosa barnes bartlett batista
    bauer baumann becker begum bennett berger bergmann bernard bhatt bhattacharya bianchi
    boateng bondarenko boyle bradley braun brennan briggs brzezinski burke butler byrne caldwell
    cameron campbell cardoso carey carlsson carroll carvalho castillo castro celik cervantes
    chakraborty chan chandra chapman chatterjee chaudhary chavez chen cheung chopra choudhury
    chowdhury christensen chukwu cohen coleman collins colombo connolly conti contreras cooper
    correia costa coughlan cunningham dahl davies davis delgado demir desai deshmukh diallo diaz
    dimitriou dixon dlamini dogan doherty donnelly dragomir dubois dupont duran edwards egan
    ekwueme ellis eriksson escobar espinoza evans eze farah fernandes fernandez ferrari ferreira
    fiala fischer fitzgerald fitzpatrick flores flynn fontana fournier francis friedman fuentes
    fujimoto gallagher gallo garcia gardner georgiou gibson gill gomez goncalves gonzalez gordon
    goswami graf griffiths grigorescu guerrero gunawardena gupta gutierrez haddad hakimi hall
    hamilton hansen haque harris harrison hashemi hassan hayashi hayes healy henderson hernandez
    herrera hoang hoffmann hofmann hopkins horvat horvath hosseini howard hughes hussain hussein
    huynh ibrahim ilves inoue ionescu islam ito ivanov iyer jackson jacobs jacobsen jain
    jankowski jansen janssen jenkins jensen jimenez johansson johnson johnston jones joshi
    kamara kaminski kang kapoor kariuki karlsson kaur kaya keane kelly kennedy khan khatun
    kimani klein kobayashi koch kofi kovac kovacs kowalczyk kowalski kozlov kramer krause
    krishnan kruger kulkarni kumari kuznetsov lambert larsen larsson laurent lebedev leblanc
    lefebvre lehmann lewandowski lewis lindberg lindqvist lindholm lopez lombardi lowe lukacs
    macdonald mackenzie maclean mahlangu mahmood maier malik maloney mancini marchetti marino
    marques martin martinez martins masood matsumoto mazur mccarthy mcdonald mcgrath mckenna
    mclaughlin mehta mendes mendoza mensah meyer michalski mikkelsen miller milosevic mishra
    mitchell mitsotakis mohamed molina molnar moore morales moran moreau moreno moretti morgan
    morris morrison moyo mueller mukherjee muller munoz mutasa mwangi nagy nair nakamura naidoo
    navarro ncube ndlovu nel nelson neumann nguyen nielsen nikolaidis nkosi novak novotny nowak
    nwosu obi odhiambo oduya ogunleye okafor okeke okonkwo okoro olaleye olsen onyango oliveira
    olofsson omondi ortega ortiz osei osman otieno owusu ozturk papadopoulos parker patel pathak
    paterson pavlov pereira perera perez petersen peterson petrov pham phan phiri pietrzak
    pillai pinto popescu popov powell pritchard qureshi rahman ramirez ramos rao rasmussen reddy
    rees reilly reyes ribeiro ricci richards richardson rinaldi rivera robertson robinson rocha
    rodrigues rodriguez rojas romano romero rosenberg rossi roux rowe ruiz russo ryan sahin
    saleh salazar saito sanchez sanders sandoval santoro santos sato sauer schmid schmidt
    schmitt schneider scholz schroeder schubert schulz schwarz sengupta serrano shah shapiro
    sharma shevchenko siddiqui sikora silva simmons simpson singh sinha sithole smirnov smith
    sokolov soto sorensen souza stewart suarez subramanian sullivan suzuki svensson svoboda
    swanson szabo szymanski tadesse takahashi tanaka tan taylor teixeira tembo tesfaye thapa
    thompson thomsen torres toth tran tremblay truong tshabalala tucker tudor tunde urquhart
    usman vargas varga vasquez vega vieira villanueva vogel volkov vosloo vu wagner walker
    wallace walsh wang wanjiku warren watanabe watson werner wieczorek williams williamson
    wisniewski wojcik wolff wozniak wu xu yadav yamada yamamoto yang yildirim yildiz yilmaz
    yusuf zhang zhao zheng zhou zielinski zimmermann zulu
    """
)

#: Surnames that are also words, places, or names of diseases, signs and instruments.
AMBIGUOUS_SURNAMES: Final = _words(
    """
    addison alzheimer babinski baker ball bannister barrett barlow bell best bird bishop black
    bond brook brooks brown bush carpenter chambers charcot chase church clark cole cook crohn
    cross cushing day dean doppler down duke ewing field fisher foley ford foster fowler fox
    gilbert glasgow gleason good grant graves gray green grey hand harper hart hashimoto head
    hill hodgkin holmes hunt hunter huntington hurst kawasaki kent king knight lake lamb lane
    law lee li lin little liu ho long love lynch lyon marfan marsh mason may murphy murray mills
    moon nash newman noble north osler page paget park parkinson parsons pearson penn perry
    pickering pike pope porter potter power price quick reed reid rice rich roberts rose rush
    russell scott sharp shaw short sims small south steel stone strong summers swift todd turner
    underwood vaughan wade waller ward waters webb weber wells west white whipple wilson wolf
    wong wood woods wright yates york young
    """
)

#: Titles before a name. Those of the first list may be followed by a full stop.
SHORT_TITLES: Final = _words(
    "dr drs mr mrs ms mx prof rev hr fr mme mlle sr sra srta dott sig dhr mevr ing dra"
)
LONG_TITLES: Final = _words(
    """
    doctor miss professor sister nurse matron sir dame lady lord father reverend pastor imam
    rabbi judge captain sergeant constable herr frau monsieur madame senor senora dottore
    signora mevrouw
    """
)

#: Small words inside a name.
PARTICLES: Final = _words(
    "van von der den de del della di da dos das du la le el al bin bint ibn ter ten af zu y e ap"
)

#: What follows the name of a disease, sign or score, which is nobody's name then.
EPONYM_NOUNS: Final = _words(
    """
    disease diseases syndrome sign signs test tests score scores scale criteria classification
    staging stage grade grading lymphoma sarcoma tumour tumor palsy chorea phenomenon reflex
    manoeuvre maneuver catheter drain tube line procedure operation repair position stain index
    formula equation rule law method virus bacillus body bodies cell cells node nodes fracture
    ulcer oesophagus esophagus thyroiditis encephalopathy hernia incision forceps needle tree
    model chart ring rings crisis agar disability ataxia dystrophy anaemia anemia diverticulum
    protocol technique regimen bandage splint collar curve plot estimator effect duct gland
    canal fever contracture deformity spots triad guideline guidelines trial study factor
    syndromes type wort questionnaire inventory cyst arthropathy nodule nodules patch approach
    """
)

#: Words that begin a sentence or a heading, and what hospitals write with a capital.
NOT_NAMES: Final = _words(
    """
    a about above abdomen abdominal accident acute address admission admitted adult after again
    age aged alert allergies allergy also although always am an and annual another any apart
    appointment arrange as assessment at bed because bed before below between blood board both
    breast but by call cardiac care case cc centre center chest child children clinic clinical
    college committee community complaint consultant contact continue council ct current date
    dear department diagnosis did diabetes discharge discharged discussed do does dose drug due
    during each ecg echo emergency ent every examination family follow following for from
    further general given glucose good gp group had has have he head health heart her here his
    history home hospital however i icu if immediate impression in infection infectious
    information institute insulin intensive investigations is it its kind known last later lead
    left letter liver local lung management many medical medication medications medicine mental
    mid midwife more most mri name national nearly neither neurological new next nhs no none nor
    normal not note noted now nok of officer oh ok old on once one only operation or oral other
    our out outcome outpatient over pain past patient patients pelvic per phone plan please post
    practice practitioner pre presented previous primary private problem problems procedure
    psychiatric ray re reason receptionist recommend referral referred regards regular relevant
    report research respiratory result results review reviewed right road room routine royal
    scan school secretary see seen senior service services she signed since sincerely smoker so
    social some specialist specialty staff start started status stop surgery surgical telephone
    tel team test thank thanks that the their then there therefore these they this those though
    three thus to today together tomorrow tonight trauma treatment triage trust two type
    ultrasound under unit university unless until up urgent us usual very view visit vital ward
    was we weekly were west when where which while who whose why will with without women x xray
    yesterday yet you your yours january february march april may june july august september
    october november december monday tuesday wednesday thursday friday saturday sunday nursing
    student trainee registrar manager lead in-charge sister on-call physio physiotherapist
    pharmacist dietitian paramedic therapist doctor nurse dr mr mrs ms prof professor mother
    father wife husband son daughter partner brother carer friend neighbour neighbor english
    french german spanish italian polish dutch african asian american british european
    """
)

#: Relatives and others who are named beside a patient.
RELATIONS: Final = _words(
    """
    wife husband son daughter mother father mum dad partner brother sister carer caregiver
    guardian neighbour neighbor friend aunt uncle cousin grandson granddaughter grandmother
    grandfather nephew niece stepson stepdaughter fiance fiancee
    """
)
