"""Sentences that state nothing: small talk, and such as say that the sources do not tell.

Small talk is a sentence of which every word is on a list of such words, so that nothing can hide behind "I hope". A
denial must say that the sources do not *tell*: that they are not needed, or do not deny, is a statement.
"""

# ruff: noqa: RUF001  (Cyrillic letters)

import re
from collections.abc import Iterable

from redraft.domain.function_words import FUNCTION_WORDS

_CHARS_MAX = 250
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019\u2011-][^\W\d_]+)*")

_TALK = frozenset(
    word
    for words in (
        """
        i me ich mir mich course
        hope hopes helps help helped helpful useful clear clarifies clarify clears sure certainly absolutely okay ok
        great good excellent question questions thank thanks welcome happy glad please feel free hesitate ask asking
        know need needs want wish like need further additional answer answers answered answering below following
        follows above summary overview explanation explain assist assistance information details detail anything
        something else based reach i'd i'm i'll i've here's that's let's you're you'd it's it'll overall brief short
        quick concise fact facts point points key main list response respond provide provide elaborate expand request
        requested asked found find tell set given text texts material things thing
        """,
        """
        hoffe hoffentlich hilft helfen geholfen weiter weiterhilft weiteren weitere fragen frage gerne gern natürlich
        sicher selbstverständlich klar danke bitte hier folgende folgenden folgt antwort antworten zusammenfassung
        überblick lassen lass wissen falls sagen melden meld bescheid stehe verfügung hilfe ihnen dir euch nachfragen
        unten gut gute wünschen möchten brauchen benötigen details informationen
        """,
        """
        j'espère espère aide aider aidera cela ceci voici réponse réponses bien sûr n'hésitez n'hésite hésitez demander
        question questions besoin d'autres d'informations informations merci avec plaisir résumé suivant suivants peut
        avez as si d'aide
        """,
        """
        espero ayude ayuda ayudar claro supuesto aquí está tiene tienes respuesta resumen pregunta preguntas gracias
        dudas duda más información avísame siguiente siguientes útil esto tienes necesitas necesita
        """,
        """
        spero aiuti utile ecco risposta certo certamente domande domanda grazie prego
        """,
    )
    for word in words.split()
)
_TALK_HAN = re.compile(
    "(?:当然|好的|谢谢|不客气)?[,\uff0c、!\uff01。\\s]*(?:希望(?:这|以上|上述|我的)?\\S{0,6}?(?:有帮助|有所帮助|帮到你|帮到您)"
    "|(?:以下|下面)是?(?:答案|回答|总结|概述|要点|内容)|如(?:果|有)\\S{0,8}(?:问题|疑问|需要)\\S{0,14})?[。!\uff01:\uff1a\\s]*"
)

_DET = r"(?:the|these|those|any|your|this|my|our|all|both|each|every|either)"
_KIND = r"(?:provided|given|retrieved|available|supplied|attached|above|cited|listed|source|reference|relevant)"
_NOUN = (
    r"(?:sources?|contexts?|documents?|passages?|excerpts?|texts?|chunks?|materials?|information|articles?|snippets?"
    r"|references|documentation)"
)
_SOURCES = rf"{_DET}(?: {_KIND}){{0,2}} {_NOUN}(?! of\b)"
_IN = "(?:of|in|by|from|within|with|using|on|through)"
_TELL = (
    r"(?:mention|say|state|tell|specif|cover|contain|answer|includ"
    r"|provid|give|describ|discuss|address|indicat|explain"
    r"|name|list|note|report|reveal|show|clarif|defin"
    r"|have (?:any |enough |the )?(?:information|details|data|answer|mention)"
    r"|touch on|refer|go into|make|confirm)"
)
_TELLS = rf"{_TELL}(?:s|es|ies|y|e)?"
_TOLD = (
    r"(?:mentioned|stated|said|told|specified|covered|contained|answered|included|provided|given|described|discussed"
    r"|addressed|indicated|explained|named|listed|noted|reported|revealed|found|known|available|clear|there|present)"
)
_NOT = r"(?:not|n['\u2019]t|cannot|never)"
_ASKS = r"(?:if|whether|what|who|when|where|why|how|which|this|that|it|the (?:answer|question)|your|from|based)"
_BEHIND = rf"(?: {_IN} {_SOURCES}|(?=[.!\"'\u2019]*\Z))"
_ENDS = r"(?=[.!\"'\u2019]*\Z|,| (?:that|who|when|where|whether|why|how|what|if|which|provided|given|i|you)\b)"
_WORDS = r"(?:[\w'\u2019]{1,20} )"
_LEAD = rf"(?:(?:sorry|unfortunately|i['\u2019]m (?:sorry|afraid)|(?:based on|from|given|with) {_SOURCES}),? )?"
# What stands before these is no more than a lead-in.
_SUBJECT = re.compile(
    # The sources do not mention; the sources I was given contain nothing.
    rf"\b{_SOURCES}(?: (?:i (?:was|am|have been) given|(?:you )?(?:gave"
    rf"|provided|given|supplied)))?(?: \w{{2,8}}ly| also)?"
    rf" (?:(?:do|does|did|can|could|would)(?: ?not|n['\u2019]t)|never|neither)"
    rf"(?: [\w]{{2,12}}ly| even| actually| directly| anywhere)? {_TELLS}\b"
    rf"|\b{_SOURCES} {_WORDS}?(?:{_TELLS}|makes?|ha(?:s|ve)|holds?) (?:no|nothing|neither)\b"
    rf"|\b{_SOURCES} (?:is|are|was|were) (?:silent|(?:not|in)sufficient)\b"
    rf"|\b{_SOURCES} {_WORDS}?fails? to {_TELL}",
    re.IGNORECASE,
)
_ENGLISH = re.compile(
    # None of the documents says; no source mentions; nothing in the texts tells.
    rf"\b(?:none of {_SOURCES}|no(?: {_KIND})? {_NOUN}|neither(?: {_NOUN}| of {_SOURCES})|nothing in {_SOURCES})"
    rf" {_WORDS}?{_TELLS}\b"
    rf"|\bno(?: {_KIND})? {_NOUN} (?:(?:was|were|is|are|has been"
    rf"|have been) )?(?:given|provided|supplied|available|attached)"
    rf"(?=[.!,]|\Z| (?:to (?:answer|me|us)|for|on|about|with|here)\b)"
    # There are no sources to answer this; there's nothing on that in the texts.
    rf"|\bthere (?:is|are) (?:not enough|insufficient|not sufficient) {_NOUN}\b"
    rf"|\bthere(?: is|['\u2019]s| are| was| were) (?:no|not any)(?: {_KIND}| \w{{1,12}})? {_NOUN}"
    rf"(?: (?:given|provided|available|to \w{{2,12}}|on|about|regarding|concerning|for|in|here)\b|(?=[.!]*\Z))"
    rf"|\b(?:nothing|no (?:information|mention|details?|word"
    rf"|answer))\b[^.;:,]{{0,80}} (?:in|from|within|by) {_SOURCES}"
    rf"(?: (?:(?:that )?(?:i|we) (?:was|were|am|have)(?: been)?(?: given)?"
    rf"|(?:that )?you \w{{2,8}}|provided|given|available))?"
    rf"[.!]*\Z"
    # This is not stated in the sources; it cannot be answered from them.
    rf"|{_NOT} (?:be )?{_WORDS}{{0,2}}{_TOLD}\b[^.;:,]{{0,60}} {_IN} {_SOURCES}{_ENDS}"
    rf"|\b(?:is|are|was|were)(?: not|n['\u2019]t) (?:\w{{2,12}} )?(?:in|part of|within) {_SOURCES}(?=[.!]*\Z)"
    rf"|\b(?:cannot|can['\u2019]t|can not|could not|couldn['\u2019]t|unable to|impossible to|not possible to)"
    rf" (?:be )?(?:answer|determin|tell|told|say|said|f[io]und|find"
    rf"|conclud|deriv|infer|see|establish|locat)\w{{0,4}}\b"
    rf"[^.;:,]{{0,60}} {_IN} {_SOURCES}"
    # I cannot answer this; I don't know.
    rf"|^{_LEAD}(?:but )?(?:i"
    rf"|we) (?:cannot|can['\u2019]t|could not|couldn['\u2019]t"
    rf"|am not able to|am unable to|are unable to|do not"
    rf"|don['\u2019]t) (?:\w{{2,12}}ly )?(?:answer|know|tell|say|determine)"
    rf"(?=[.!]*\Z| {_ASKS}\b)"
    rf"|^{_LEAD}(?:i|we) (?:could not|couldn['\u2019]t"
    rf"|cannot|can['\u2019]t|did not|didn['\u2019]t) (?:find|see)"
    rf" [^.;:,]{{1,80}} {_IN} {_SOURCES}"
    rf"|^{_LEAD}(?:i|we) (?:do not"
    rf"|don['\u2019]t) have (?:any |enough |sufficient |the )?(?:{_KIND} )?"
    rf"(?:{_NOUN}|answer)\b(?=[.!]*\Z| (?:to|on|about|for|regarding)\b)"
    rf"|^not (?:\w{{2,12}}ly )?{_TOLD}{_BEHIND}",
    re.IGNORECASE,
)
_QUELLEN = (
    r"\b(?:quellen?|kontext|dokumente?n?|texte?n?|auszügen?|auszug|unterlagen|materials?|materialien|informationen"
    r"|abschnitte?n?|textstellen?|passagen?)\b"
)
_NICHT = r"\b(?:nicht|nichts|keine?[nrms]?|nirgends|weder)\b"
_SAGT = re.compile(
    r"\b(?:nenn\w*|genannt|erwähn\w*|sag\w*|gesagt|steh\w*|enth[aä]lt\w*"
    r"|hervor\w*|hervorgeht|entnehmen|beantwort\w*|angegeben"
    r"|angab\w*|(?:gibt|geben)(?=[^.,;:]*\b(?:an|her|hin\w*|wieder)\b)|beschr[ie]\w*|behandel\w*|find\w*|gefunden"
    r"|verrat\w*|auskunft|liefer\w*|belegt?|vor|vorliegend"
    r"|vorhanden|ersichtlich|antwort\w*|aufgeführt|klar)\b",
    re.IGNORECASE,
)
_NICHT_QUELLEN = (re.compile(_NICHT, re.IGNORECASE), re.compile(_QUELLEN, re.IGNORECASE), _SAGT)
_CLAUSES = re.compile(r"[.,;:]|\b(?:dass|daß)\b", re.IGNORECASE)
_ICH = re.compile(
    r"^(?:leider )?(?:(?:das )?(?:weiß|weiss) ich (?:leider )?nicht|ich (?:weiß|weiss) (?:es|das)? ?(?:leider )?nicht"
    r"|(?:das|dies|diese frage) kann ich (?:leider )?nicht (?:beantworten|sagen)"
    r"|ich kann (?:das|dies|diese frage|die frage) (?:leider )?nicht (?:beantworten|sagen))(?=[.!]*\Z|,)",
    re.IGNORECASE,
)
_FR = r"(?:sources?|contexte|documents?|textes?|extraits?|passages?|informations fournies)"
_DIT = r"(?:dis|dit|mentionn|indiqu|précis|conti|répond|donn|parl|fourni|évoqu|trouv|figur|spécifi)\w{0,6}"
_ES = r"(?:fuentes?|contexto|documentos?|textos?|pasajes?|fragmentos?)"
_DICE = (
    r"(?:dic|menciona|indica|contien|respond|especifica|da|informa|habla|encuentra|figura|aparec|proporciona)\w{0,3}"
)
_IT = r"(?:fonti|fonte|contesto|documenti?|testi|testo|brani|brano)"
_RU = r"(?:источник|контекст|документ|текст|материал)\w{0,4}"
_SKAZANO = r"(?:указ|упом|сказа|говор|содерж|сообща|отвеча|описа|привод|найд)\w{0,8}"
_OTHERS = re.compile(
    rf"\b{_FR} (?:\w{{1,12}} ){{0,2}}n(?:e |['\u2019])(?:\w{{1,3}} |l['\u2019]|y )?{_DIT}\b"
    rf"|\baucune?(?: des| de ces)? (?:\w{{1,12}} )?{_FR}[^.,;:]{{0,20}}\bn(?:e\b|['\u2019])"
    rf"|\bn(?:e |['\u2019])(?:est|sont|a|figure|se trouve)\b[^.,;:]{{0,20}}(?:pas"
    rf"|nulle part)?[^.,;:]{{0,25}}\b(?:dans|par) (?:\w{{1,5}} )?{_FR}\b"
    r"|^je (?:ne (?:sais|peux) pas|n['\u2019]ai pas trouvé)(?=[.!]*\Z| (?:si|répondre|le dire|cela|cette))"
    rf"|\b{_ES} (?:\w{{1,12}} ){{0,2}}no (?:(?:lo|la|se|nos) ){{0,2}}{_DICE}\b"
    rf"|\b(?:ninguna?|ninguno)(?: de (?:las|los))? {_ES} (?:lo )?{_DICE}\b"
    rf"|\bno (?:se )?(?:{_DICE}|está) [^.,;:]{{0,40}}\ben (?:las?|los|el|estas?|estos) {_ES}\b"
    r"|^no (?:lo )?sé(?=[.!]*\Z| si\b)|\bno hay [^.,;:]{0,30}\b(?:en (?:las?|los|el) )?(?:fuentes|contexto)\b"
    rf"|\b{_IT} (?:\w{{1,12}} )?non (?:(?:lo|la|ne|ci) )?(?:dic|menzion|indic"
    rf"|conten|contien|rispond|specific|parl|fornis)\w{{0,5}}\b"
    rf"|\bnon (?:è|sono) (?:\w{{1,14}} )[^.,;:]{{0,20}}\b(?:in|nel|nei|nelle"
    rf"|dalle) (?:\w{{1,5}} )?{_IT}\b|^non lo so(?=[.!]*\Z)"
    rf"|\bне {_SKAZANO}[^.,;:]{{0,30}}\b(?:в|во|из) (?:\w{{1,14}} )?{_RU}|\b{_RU} [^.,;:]{{0,20}}\bне {_SKAZANO}"
    rf"|\bв (?:\w{{1,14}} )?{_RU} (?:об этом )?(?:нет|ничего не)\b|^я не знаю(?=[.!]*\Z)"
    "|^(?:根据|基于)?\\S{0,12}\uff0c?(?:我)?无法(?:回答|确定|得知)\\S{0,12}$|(?:来源|资料|資料|文档|上下文|文本|材料)[^。\uff0c]{0,10}(?:没有|沒有|未|并未)[^。\uff0c]{0,4}"
    "(?:提|说|說|包含|涉及|给出|回答|记载|提供|说明|找到|相关信息|信息)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:no|not|none|nothing|never|neither|cannot|silent|insufficient"
    r"|unable|impossible|fails?|nicht|nichts|keine?[nrms]?"
    r"|nirgends|weder|ne|aucune?|non|ninguna?|не|нет)\b|n['\u2019]|没有|沒有|未|无法",
    re.IGNORECASE,
)
# What follows is no longer the denial.
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|yet|because|therefore|thus|hence"
    r"|nevertheless|instead|still|aber|jedoch|sondern"
    r"|trotzdem|weil|daher|deshalb|mais|pourtant|donc|parce|pero|sino|porque"
    r"|ma|però|но)\b|,\s+(?:which|since|as|also)\b|但",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"^[*_\"'\s]*(?:(?:i['\u2019]m|i am) (?:sorry|afraid)|sorry|unfortunately|i apologi[sz]e|however|leider"
    r"|tut mir leid)\b"
    r"[,.]?\s*(?:but |that |aber )?",
    re.IGNORECASE,
)
_SUBORDINATES = re.compile(r"\s*(?:as|since|while|if|because|although|though|even|whom|which)\b", re.IGNORECASE)
_REGARDING = re.compile(r"(?:regarding|concerning|as for|as to|when it comes to) [^,.;:]{1,80}, ?", re.IGNORECASE)
_FRAGMENT_WORDS = 3
_IS = re.compile(r"\b(?:is|are|was|were|ist|sind|war|est|sont|es|son)\b", re.IGNORECASE)
_PARTS = re.compile(r"[;:\u2014]|\s\u2013\s|,\s+(?:so|and|und|et|y|e|и)\s", re.IGNORECASE)
_ASKS_FOR_SOURCES = re.compile(
    r"\b(?:provide|share|send|give|upload|attach|paste|supply|add|include"
    r"|bring|schicken|senden|geben|teilen|hochladen|stellen"
    r"|fournir|envoyer|partager|envía\w*|comparte\w*|proporcion\w*|enviar)\b[^.;:]{0,60}"
    r"\b(?:sources?|documents?|texts?|context|materials?|excerpts?"
    r"|passages?|files?|quellen?|dokumente?|texte|unterlagen"
    r"|textes|fuentes?|documentos?|textos?)\b|\b(?:quellen|dokumente"
    r"|unterlagen)\b[^.;:]{0,40}\b(?:schicken|senden|geben|teilen|bereit)",
    re.IGNORECASE,
)


_ASKS_FOR_SOME = re.compile(
    r"(?:please|kindly|could you|can you|would you)(?: please)?"
    r" (?:send|share|provide|give|upload|attach|paste|supply|add|include)\b",
    re.IGNORECASE,
)


def is_aside(plain: str) -> bool:
    """Whether a sentence without marks is small talk, or says that the sources do not tell; none with a number is."""
    return not any(map(str.isdecimal, plain)) and (is_small_talk(plain) or is_denial(plain))


def is_small_talk(plain: str) -> bool:
    """Whether a sentence only speaks to the reader, as "Sure!", "I hope this helps." and "Here is the answer." do."""
    if len(plain) > _CHARS_MAX:
        return False
    return all(map(_is_talk, _WORD.findall(plain))) or _TALK_HAN.fullmatch(plain) is not None


def _is_talk(word: str) -> bool:
    plain = word.lower().replace("\u2019", "'")
    return plain in _TALK or plain in FUNCTION_WORDS


def is_denial(plain: str) -> bool:
    """Whether all that a sentence says is that the sources do not tell, or that its writer does not know."""
    if len(plain) > _CHARS_MAX or not _NEGATIVE.search(plain):
        return False
    plain = _SORRY.sub("", plain)
    if _GOES_ON.search(plain):
        return False
    parts = [" ".join(part.split()).strip("*_\"' ") for part in _PARTS.split(plain)]
    return any(map(_denies, parts)) and _all_harmless(parts)


def _all_harmless(parts: Iterable[str]) -> bool:
    return all(_denies(part) or is_small_talk(part) or _is_fragment(part) for part in parts)


def _is_fragment(part: str) -> bool:
    """The last of a list: `the price, the author, and the date`."""
    return len(part.split()) <= _FRAGMENT_WORDS and not _IS.search(part)


def _denies(part: str) -> bool:
    subject = _SUBJECT.search(part)
    return (
        (subject is not None and _leads_in(part[: subject.start()]))
        or _ENGLISH.search(part) is not None
        or _OTHERS.search(part) is not None
        or _ICH.search(part) is not None
        or any(all(word.search(clause) for word in _NICHT_QUELLEN) for clause in _CLAUSES.split(part))
    )


def _leads_in(before: str) -> bool:
    return (is_small_talk(before) and not _SUBORDINATES.match(before)) or _REGARDING.fullmatch(before) is not None


def asks_for_sources(plain: str) -> bool:
    return len(plain) <= _CHARS_MAX and (
        _ASKS_FOR_SOURCES.search(plain) is not None or _ASKS_FOR_SOME.match(plain) is not None
    )
