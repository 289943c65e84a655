"""Guess the language of a text, as an ISO 639-1 code.

CLD3 is a small model that its package contains. It works offline and is deterministic, so a repeated check has the same
result.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

# Below this number of letters, the guess is unreliable.
LETTERS_MIN = 20
# A guess below this confidence rejects no answer. docs/checks.md has the error rate of guesses above it.
CONFIDENCE_MIN = 0.95
# Languages that CLD3 names differently, and those that it does not distinguish.
_ISO = {"iw": "he", "fil": "tl"}
_GUESSED_AS = {"nb": "no", "nn": "no"}
_BYTES_READ = 4000
_LEFT_OUT = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)

_NAMES = """
    af Afrikaans, am Amharic, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, bs Bosnian, ca
    Catalan, co Corsican, cs Czech, cy Welsh, da Danish, de German, el Greek, en English, eo Esperanto, es Spanish, et
    Estonian, eu Basque, fa Persian, fi Finnish, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl
    Galician, gu Gujarati, ha Hausa, he Hebrew, hi Hindi, hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, id
    Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese, jv Javanese, ka Georgian, kk Kazakh, km Khmer, kn
    Kannada, ko Korean, ku Kurdish, ky Kyrgyz, la Latin, lb Luxembourgish, lo Lao, lt Lithuanian, lv Latvian, mg
    Malagasy, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, nb
    Norwegian Bokmål, ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, ny Chichewa, pa Punjabi, pl Polish, ps
    Pashto, pt Portuguese, ro Romanian, ru Russian, sd Sindhi, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn
    Shona, so Somali, sq Albanian, sr Serbian, st Southern Sotho, su Sundanese, sv Swedish, sw Swahili, ta Tamil, te
    Telugu, tg Tajik, th Thai, tl Tagalog, tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, xh Xhosa, yi
    Yiddish, yo Yoruba, zh Chinese, zu Zulu
"""
LANGUAGES = {pair[:2]: pair[3:] for pair in " ".join(_NAMES.split()).split(", ")}


@dataclass(frozen=True, slots=True)
class Guess:
    """The likeliest language of a text: its code in ISO 639-1, else in ISO 639-2, and the confidence (0..1)."""

    code: str
    confidence: float


def name_of(code: str) -> str:
    """Return name and code: `German (de)`."""
    return f"{LANGUAGES[code]} ({code})" if code in LANGUAGES else f"'{code}'"


def is_language(code: str, guessed: str) -> bool:
    """Whether a guess matches a code. CLD3 does not distinguish the two forms of Norwegian."""
    return _GUESSED_AS.get(code, code) == guessed


def prose_of(text: str) -> str:
    """Return the text without code and URLs, because these are in no natural language."""
    return _LEFT_OUT.sub(" ", text)


def guess_language(text: str) -> Guess:
    """Guess the language of a text, which must not contain lone surrogates.

    The confidence is low for a text without words.
    """
    import gcld3

    found = cast("Any", gcld3).NNetLanguageIdentifier(0, _BYTES_READ).FindLanguage(text)
    code = str(found.language).split("-", 1)[0]
    return Guess(_ISO.get(code, code), float(found.probability))
