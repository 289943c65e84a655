"""Words for "source" in many languages, as citation markers and lists of sources use them.

A missing word costs one iteration: the marker becomes an issue, and its message names the requested spelling.
"""

# ruff: noqa: RUF001  (words of many scripts)

import re

_SOURCE = """
    source sources quelle quellen fuente fuentes fonte fontes fonti font fonts bron bronnen bronne kilde kilden kilder
    kilderne källa källan källor källorna lähde lähteet lähteen heimild heimildir allikas allikad avots avoti šaltinis
    šaltiniai kaynak kaynaklar mənbə nguồn źródło źródła źródeł zdroj zdroje zdroja zdrojů forrás források sursa sursă
    surse sursele izvor izvori vir viri burim burimi sumber sanggunian chanzo foinse ffynhonnell iturri iturria fonto
    fontoj πηγή πηγές источник источники источника джерело джерела крыніца източник източници извор извори дереккөз
    წყარო աղբյուր מקור המקור מקורות המקורות مصدر المصدر مصادر المصادر منبع منابع ماخذ स्रोत स्रोतों উৎস সূত্র ஆதாரம்
    แหล่งที่มา แหล่งข้อมูล ที่มา ប្រភព 来源 來源 出典 出处 出處 資料 资料 ソース 情報源 출처 자료 소스
"""
_DOCUMENT = """
    src doc docs document documents dokument dokumente documento documentos documenti reference references ref refs
    referenz referenzen référence références referencia referencias riferimento riferimenti beleg belege chunk chunks
    passage passages excerpt excerpts snippet snippets citation citations cite cites context contexts
    文档 文檔 文献 文獻 参考文献 參考文獻 参考资料 引用 문서 문헌
"""


def _alternatives(*lists: str) -> str:
    words = {word for words in lists for word in words.split()}
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))


SOURCE = _alternatives(_SOURCE)
"""Words for a source, as a part of a regular expression that ignores case."""

CITED = _alternatives(_SOURCE, _DOCUMENT)
"""Words for a source or a kind of source, such as a document or a passage, as a part of a regular expression."""

NUMBER_SIGN = r"(?:\b(?:no|nr|num|number|núm|nummer|numéro|número|č|п|رقم)(?:\b\.?|(?=\d))|n\.?[°o]|[:：#第])"
"""The characters that may stand between a word for a source and its number."""
