"""Sentences that state nothing: small talk, and such as say that the sources do not tell.

Small talk is a sentence of which every word is on a list of such words, so that nothing can hide behind "I hope". A
denial names the sources, a negation and a verb of telling in one clause: that sources are not needed, or do not deny,
is a statement. What is missed here is only counted as a statement.
"""

# ruff: noqa: RUF001  (Cyrillic letters)

import re

from redraft.domain.grounding.source_words import CITED
from redraft.domain.text.function_words import FUNCTION_WORDS

_CHARS_MAX = 250
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019\u2011-][^\W\d_]+)*")

_TALK_WORDS = """
    i me ich mir mich course hope hopes helps help helped helpful useful clear clarifies clarify clears sure
    certainly absolutely okay ok great good excellent question questions thank thanks welcome happy glad please feel
    free hesitate ask asking know need needs want wish like further additional answer answers answered answering
    below following follows above summary overview explanation explain assist assistance information details detail
    anything something else based reach i'd i'm i'll i've here's that's let's you're you'd it's it'll overall brief
    short quick concise fact facts point points key main list response respond provide elaborate expand request
    requested asked found find tell set given text texts material things thing retrieved available supplied attached
    relevant hoffe hoffentlich hilft helfen geholfen weiter weiterhilft weiteren weitere fragen frage gerne gern
    natürlich sicher selbstverständlich klar danke bitte hier folgende folgenden folgt antwort antworten
    zusammenfassung überblick lassen lass wissen falls sagen melden meld bescheid stehe verfügung hilfe ihnen dir
    euch nachfragen unten gut gute wünschen möchten brauchen benötigen informationen anhand j'espère espère aide
    aider aidera cela ceci voici réponse réponses bien sûr n'hésitez n'hésite hésitez demander besoin d'autres
    d'informations informations merci avec plaisir résumé suivant suivants peut avez as si d'aide espero ayude ayuda
    ayudar claro supuesto aquí está tiene tienes respuesta resumen pregunta preguntas gracias dudas duda más
    información avísame siguiente siguientes útil esto necesitas necesita spero aiuti utile ecco risposta certo
    certamente domande domanda grazie prego
"""
_TALK = frozenset(_TALK_WORDS.split())
_TALK_HAN = re.compile(
    "(?:当然|好的|谢谢|不客气)?[,\uff0c、!\uff01。\\s]*(?:希望(?:这|以上|上述|我的)?\\S{0,6}?(?:有帮助|有所帮助|帮到你|帮到您)"
    "|(?:以下|下面)是?(?:答案|回答|总结|概述|要点|内容)|如(?:果|有)\\S{0,8}(?:问题|疑问|需要)\\S{0,14})?[。!\uff01:\uff1a\\s]*"
)

_SOURCES = re.compile(
    rf"\b(?:{CITED}|dokumenten|texts?|materials?|(?<!no )(?<!enough )information|articles?|documentation"
    rf"|kontext|texte?n?|auszügen?|auszug|unterlagen"
    r"|materialien|informationen|textstellen?|contextes?|textes?|extraits?|contexto|textos?|fragmentos?|pasajes?"
    r"|contesto|testi|testo|brani|brano|(?:источник|контекст|документ|текст|материал)\w{0,4})\b(?! of\b)",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:no|not|none|nothing|never|neither|cannot|silent|insufficient|unable|impossible|fails?|nicht|nichts"
    r"|keine?[nrms]?|nirgends|weder|ne|aucune?|non|ninguna?|не|нет)\b|n['\u2019]",
    re.IGNORECASE,
)
_TELL = re.compile(
    r"\b(?:(?:mention|stat(?=e|ed|es\b)|specif|cover|contain|answer|includ|describ|discuss|address|indicat|explain"
    r"|report|reveal|clarif|determin|nenn|genannt|erwähn|gesagt|steh|enth[aä]lt|hervor|entnehm|beantwort|angegeben"
    r"|beschr|behandel|gefunden|mentionn|précis|répond|trouv|figur|spécifi|indiqu|indica|menciona|contien|especific"
    r"|encuentr|aparec|menzion|rispond|указ|упом|сказа|говор|содерж|сообща|отвеча|найд)\w{0,10}|says?|said|tells?"
    r"|told|names?|lists?|shows?|gives?|finds?|found|provides?|silent|clear|there|enough|details?|answer|sagt|sagen"
    r"|auskunft|klar|finden|findet|dit|disent|dice|dicen|dicono|parlent|hablan?|parlano?)\b",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"[.,;:]|\b(?:that(?! (?:i|you|we|in|from|by)\b)|dass|daß|que|che|что)\b", re.IGNORECASE)
# Behind sources that are named last: nothing that could be stated.
_ENDS = re.compile(
    r"[.!\"'\u2019 ]*\Z|,? (?:on|about|regarding|concerning|for|to|here|available|provided|given|who|when|where"
    r"|whether|why|how|what|if|which|that (?:i|you|we)|i|you|we|zu|über|sur|sobre|su|о|об)\b"
    r"|,? (?:[^\W\d_]+ ){0,4}(?:"
    rf"{_TELL.pattern}|{_NOT.pattern})",
    re.IGNORECASE,
)
_I_DO_NOT = re.compile(
    r"(?:i|we) (?:cannot|can['\u2019]t|could not|couldn['\u2019]t|am not able to|am unable to|are unable to|do not"
    r"|don['\u2019]t) (?:\w{2,12}ly )?(?:answer|know|tell|say|determine)(?=[.!]*\Z| (?:if|whether|what|who|when"
    r"|where|why|how|which|this|that|it|the (?:answer|question)|your|from|based)\b)|(?:i|we) (?:do not"
    r"|don['\u2019]t) have (?:any|enough|sufficient|the) \w+(?=[.!]*\Z| (?:to|on|about|for)\b)|(?:(?:das|dies"
    r"|diese frage) )?(?:wei(?:ß|ss)|kann) ich (?:es |das )?nicht(?: beantworten| sagen)?(?=[.!]*\Z|,)"
    r"|ich (?:wei(?:ß|ss)|kann) (?:es|das|dies|die(?:se)? frage)? ?nicht(?: beantworten| sagen)?(?=[.!]*\Z|,)"
    r"|je ne (?:sais|peux) pas(?=[.!]*\Z| (?:si|répondre|le dire))|no (?:lo )?sé(?=[.!]*\Z| si\b)"
    r"|non lo so(?=[.!]*\Z)|я не знаю(?=[.!]*\Z)|no (?:sources?|documents?|context|texts?) (?:was|were|is|are"
    r"|has been|have been) (?:given|provided|supplied|available|attached)(?=[.!,]|\Z| (?:to me|to us|for|on|about"
    r"|with|here)\b)|not (?:\w{2,12}ly )?(?:mentioned|stated|said|covered|found|known|given|available)(?=[.!]*\Z)",
    re.IGNORECASE,
)
_HAN = re.compile(
    "\\A(?:根据|基于)?\\S{0,12}\uff0c?(?:我)?无法(?:回答|确定|得知)\\S{0,12}\\Z|(?:来源|资料|資料|文档|上下文|文本|材料)"
    "[^。\uff0c]{0,10}(?:没有|沒有|未|并未)[^。\uff0c]{0,4}(?:提|说|說|包含|涉及|给出|回答|记载|提供|说明|找到|相关信息|信息)"
)
# What follows is no longer the denial.
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|yet|because|therefore|thus|hence|nevertheless|instead|still|aber|jedoch"
    r"|sondern|trotzdem|weil|daher|deshalb|mais|pourtant|donc|parce|pero|sino|porque|ma|però|но)\b|,\s+(?:which"
    r"|since|as|also)\b|但",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"^[*_\"'\s]*(?:(?:i['\u2019]m|i am) (?:sorry|afraid)|sorry|unfortunately|i apologi[sz]e|however|leider"
    r"|tut mir leid)\b[,.]?\s*(?:but |that |aber )?",
    re.IGNORECASE,
)
_SUBORDINATES = re.compile(r"\s*(?:as|since|while|if|because|although|though|even|whom|which)\b", re.IGNORECASE)
_REGARDING = re.compile(
    r"(?:regarding|concerning|as for|as to|when it comes to) [^,.;:]{1,80}, (?:the )?", re.IGNORECASE
)
# The sources are no subject: `Der Preis wird in den Quellen nicht genannt.`
_WITHIN = re.compile(r"\b(?:in|aus|von|from|by|dans|par|en|nei|nelle|dalle|в|из)(?: [^\W\d_]+){0,2} \Z", re.IGNORECASE)
_FRAGMENT_WORDS = 3
_IS = re.compile(r"\b(?:is|are|was|were|ist|sind|war|est|sont|es|son)\b", re.IGNORECASE)
_PARTS = re.compile(r"[;:\u2014]|\s\u2013\s|,\s+(?:so|and|und|et|y|e|и)\s", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:please|kindly|could you|can you|would you)(?: please)? (?:send|share|provide|give|upload|attach|paste"
    r"|supply|add|include)\b|(?s:.*?)\b(?:provide|share|send|give|upload|attach|paste|supply|add|include|bring"
    r"|schicken|senden|geben|teilen|hochladen|stellen|fournir|envoyer|partager|envía\w*|comparte\w*|proporcion\w*"
    r"|enviar)\b[^.;:]{0,60}"
    rf"{_SOURCES.pattern}|(?s:.*?)\b(?:quellen|dokumente|unterlagen)\b[^.;:]{{0,40}}\b(?:schicken|senden|geben"
    rf"|teilen"
    r"|bereit)",
    re.IGNORECASE,
)


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
    if len(plain) > _CHARS_MAX:
        return False
    plain = _SORRY.sub("", plain)
    if _GOES_ON.search(plain):
        return False
    parts = [" ".join(part.split()).strip("*_\"' ") for part in _PARTS.split(plain)]
    denials = [_denies(part) for part in parts]
    return any(denials) and all(
        denies or is_small_talk(part) or _is_fragment(part) for part, denies in zip(parts, denials, strict=True)
    )


def _is_fragment(part: str) -> bool:
    """The last of a list: `the price, the author, and the date`."""
    return len(part.split()) <= _FRAGMENT_WORDS and not _IS.search(part)


def _denies(part: str) -> bool:
    own = _I_DO_NOT.search(part)
    if (own and _leads_in(part[: own.start()])) or _HAN.search(part):
        return True
    at = 0
    for clause in _CLAUSES.split(part):
        start = part.index(clause, at)
        at = start + len(clause)
        sources, denial = _SOURCES.search(clause), _NOT.search(clause)
        if not sources or not denial or not _tells(clause, sources):
            continue
        before, behind = part[: start + sources.start()], clause[sources.end() :]
        if sources.start() < denial.start():
            is_end = is_small_talk(_TELL.sub("", _NOT.sub("", behind)))
            return _leads_in(before) or (is_end and _WITHIN.search(before) is not None)
        last = list(_SOURCES.finditer(clause))[-1]
        return _ENDS.match(part, start + last.end()) is not None
    return False


def _tells(clause: str, sources: re.Match[str]) -> bool:
    return any(found.start() != sources.start() for found in _TELL.finditer(clause))


def _leads_in(before: str) -> bool:
    return (is_small_talk(before) and not _SUBORDINATES.match(before)) or _REGARDING.fullmatch(before) is not None


def asks_for_sources(plain: str) -> bool:
    return len(plain) <= _CHARS_MAX and _ASKS.match(plain) is not None
