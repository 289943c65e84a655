"""Abbreviations of several languages, and words that decide whether the point after an abbreviation ends a sentence.

A missing abbreviation splits a sentence wrongly, but only before a capital letter. Abbreviations that often end a
sentence (`etc.`, `Inc.`, `usw.`) are missing on purpose.
"""

# ruff: noqa: RUF001  (Cyrillic words)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations that never end a sentence.
NEVER_LAST = _words("""
    mr mrs ms mx dr prof rev hon gov sen rep gen col capt lt sgt st mt messrs vs v e.g i.e eg ie cf viz approx al dept
    univ assn bros resp incl excl z.b d.h u.a o.ä z.t u.u i.d.r s.o s.u v.a bzw ca evtl ggf inkl exkl zzgl vgl sog fa
    hr lt bspw insb mme mlle env p.ex c.-à-d sr sra srta dra dn ud uds p.ej sig dott ing avv sig.ra bijv d.w.z o.a dhr
    mevr т.е т.к т.н ул им гр см ср jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri
    hab ul
""")
# Words that are abbreviations only before a number.
WITH_NUMBER = _words("""
    no nos n° nº nr nrs p pp pg vol vols fig figs eq eqs sec sect ch chap art arts para ex tab ver op cap s ss abs abb
    bd bde kap ziff ref rn rz bl núm n.º pág págs стр рис табл гл
""")
# Words that follow `a.m.`, but seldom begin a sentence.
_DATES = _words("""
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday januar februar märz april mai juni juli oktober dezember est edt pst utc gmt
""")
# Abbreviations that end no sentence before one of these words: `10 a.m. EST`, `& Co. KG`, `EE. UU.`, `av. J.-C.`.
CONTINUED = {
    "a.m": _DATES,
    "p.m": _DATES,
    "co": _words("kg kgaa ohg ltd inc"),
    "ee": _words("uu"),
    "av": _words("j"),
}
# Words that follow an ordinal number, which some languages write with a point: `19. Jahrhundert`.
ORDINALS = _words("""
    jahrhundert jahrhunderts jahrhunderten jahrtausend weltkrieg weltkriegs weltkrieges quartal quartals klasse auflage
    januar februar märz april mai juni juli august september oktober november dezember jan feb mär apr jun jul aug sep
    sept okt nov dez
""")
# Words that begin sentences more often than names.
STARTERS = _words("""
    the a an it its this that these those he she they we you i his her their our there here in on at as for from by
    with when while if but and or so then however also after before since although because both each all no not some
    many most one two what who how why where der die das ein eine er sie es wir ihr dies diese dieser dieses im am in
    auf bei mit wenn aber und so dann auch le la les un une il elle ils elles ce cette ces dans en el los las una ella
    ellos este esta estos это он она они в на но и если
""")
