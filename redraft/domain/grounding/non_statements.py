"""Recognise sentences that state nothing: small talk, and denials.

A denial says that the sources do not contain the answer. Short lists of words and patterns recognise both. The whole
sentence has to match, so that no statement passes because it begins with "I hope" or "unfortunately". A sentence that
is not recognised counts as a statement without a source, which costs an iteration.
"""

# ruff: noqa: RUF001  (Cyrillic letters)

import re

from redraft.caching import lazy_pattern
from redraft.domain.grounding.source_words import CITED
from redraft.domain.text.function_words import FUNCTION_WORDS

_CHARS_MAX = 250
_WORD = lazy_pattern(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
# A sentence is small talk if each of its words is in this list, or is a function word.
_TALK_LIST = """
    i me sure certainly absolutely okay ok course great good question questions thank thanks welcome happy glad please
    feel free hope helps help helpful let know need want else anything more further ask asking here answer below text
    texts following summary overview explain provide ich mir mich hoffe hilft gerne gern natürlich danke hier antwort
    folgende zusammenfassung fragen weiter j'espère aide voici réponse bien sûr merci espero ayude claro aquí respuesta
    gracias spero aiuti ecco risposta certo grazie
"""
_TALK_WORDS = frozenset(_TALK_LIST.split()) | FUNCTION_WORDS
_TALK_HAN = lazy_pattern(r"(?:当然|好的|希望(?:这|以上)?对(?:你|您)有(?:所)?帮助|以下是(?:答案|回答)|[,，。!！:：\s])+")

_SOURCES = rf"(?:{CITED}|texts?|materials?|information|unterlagen|texte|textes|textos|testi|источник\w*|документ\w*)"
_ARTICLES = "the|any|your|these|provided|given|retrieved|supplied|attached|die|den|les|las|los|le|nei|nelle"
_NAMED = rf"(?:(?:{_ARTICLES}) )*{_SOURCES}"
_STATED = "mentioned|stated|said|specified|given|covered|named|found|clear|known|answered"
# "I cannot say" is a denial only at the end or before a question word: "I cannot tell you to stop" is a statement.
_ASKED = "if|whether|what|who|when|where|why|how|which|this|that|it|the|on|about|to|from|based|your|in|any"
_WHAT = rf"(?:$| (?:{_ASKED})\b.*)"
_DENIAL = lazy_pattern(
    rf"(?:i|we) (?:cannot|can't|could not|couldn't|do not|don't) (?:answer|know|tell|say|determine|find){_WHAT}"
    rf"|(?:i|we) (?:do not|don't) have (?:any|enough|sufficient|the) (?:information|context|sources|documents)\b.*"
    rf"|{_NAMED}(?: (?:provided|given|i was given))? (?:(?:do not|don't|does not|doesn't|did not|didn't)"
    r" (?:say|tell|mention|state|contain|include|cover|answer|specify|name|give|provide|describe|explain)\b.*"
    r"|(?:is|are) silent on .*)"
    rf"|(?:no|none of) {_NAMED} (?:says?|tells?|mentions?|states?|contains?|covers?|answers?|names?)\b.*"
    rf"|no {_SOURCES} (?:was|were|is|are|has been|have been) (?:given|provided|supplied|available|attached)"
    r"(?: (?:to me|to us|for|on|about|with|here)\b.*)?"
    rf"|there(?: is| are|'s)(?: no| not enough) {_SOURCES}(?: (?:on|about|in|to)\b.*)?"
    rf"|there(?: is|'s) nothing (?:on|about) (?:that|this|it) in {_NAMED}(?: i was given)?"
    rf"|(?:(?:it|this|that)(?: is|'s)|(?:the )?(?:\w+ ){{1,3}}(?:is|are|was|were)) not (?:{_STATED}|in)"
    rf"(?: in| from| by)? {_NAMED}(?: (?:if|whether|what|who|when|where|why|how)\b.*)?"
    rf"|not (?:{_STATED})(?: in {_NAMED})?"
    rf"|(?:the question|this) cannot be answered (?:from|with) {_NAMED}"
    rf"|(?:\w+ ){{1,3}}(?:wird|werden|ist|sind) in {_NAMED} nicht (?:genannt|erwähnt|angegeben)"
    rf"|das (?:steht nicht in {_NAMED}|weiß ich nicht)|{_NAMED} nennen .* nicht|keine der quellen nennt .*"
    rf"|aucune source ne .*|{_NAMED} ne (?:mentionnent|disent|précisent) pas\b.*"
    rf"|{_NAMED} no (?:mencionan|dicen|indican)\b.*"
    rf"|il contesto non lo dice|это не указано в {_SOURCES}|(?:资料|来源|文档)中?(?:没有|未)(?:提到|说明|提供).*"
    r"|(?:根据\S{0,12}[,，])?(?:我)?无法回答\S{0,12}",
    re.IGNORECASE,
)
_LEAD_IN = lazy_pattern(
    r"\A(?:(?:i'm|i am) (?:sorry|afraid)|sorry|unfortunately|leider|(?:based on|from|regarding|as for) [^,]{1,60})"
    r",? (?:but |that )?",
    re.IGNORECASE,
)
_PARTS = lazy_pattern(r"[,;:\u2014]\s*(?:so |and |und )?")
_GOES_ON = lazy_pattern(
    r"\b(?:but|however|although|because|therefore|since|which|aber|jedoch|weil|mais|pero|ma|но)\b|但", re.IGNORECASE
)
_SEND = "send|share|provide|give|upload|attach|paste|supply|schicken|senden|fournir|envoyer|enviar"
_ASKS = lazy_pattern(
    rf"\A(?:please|could you|can you|would you)(?: please)? (?:{_SEND})\b|\b(?:{_SEND})\b[^.;:]{{0,60}}\b{_SOURCES}\b",
    re.IGNORECASE,
)


def is_small_talk(plain: str) -> bool:
    """Whether a sentence only addresses the reader, such as "Sure!" and "I hope this helps."."""
    words = [word.casefold().replace("\u2019", "'") for word in _WORD.findall(plain)]
    is_listed = _TALK_WORDS.issuperset(words)
    return len(plain) <= _CHARS_MAX and (is_listed or _TALK_HAN.fullmatch(plain) is not None)


def is_denial(plain: str) -> bool:
    """Whether a sentence says only that the sources do not contain the answer, or that its author does not know."""
    content = _LEAD_IN.sub("", " ".join(plain.split()).strip("*_\"' ").replace("\u2019", "'"))
    if len(plain) > _CHARS_MAX or _GOES_ON.search(content):
        return False
    return all(_DENIAL.fullmatch(part.rstrip(".!。 ")) for part in _PARTS.split(content))


def asks_for_sources(plain: str) -> bool:
    return len(plain) <= _CHARS_MAX and _ASKS.search(plain) is not None
