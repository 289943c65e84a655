"""Function words of eight languages. They occur in every text, so they do not show that two texts are related.

The lists contain articles, pronouns, prepositions, conjunctions, auxiliaries, and words with which answers refer to
their sources. In other languages, function words count as content words, which changes the overlap only slightly.
"""

# ruff: noqa: RUF001  (Cyrillic words)

_ENGLISH = """
    a about above after again all also although an and any are aren't as at be because been before being below between
    both but by can can't cannot could did didn't do does doesn't doing don't down during each either else etc even
    ever every few for from further had has have having he hence her here hers him his how however i if in into is
    isn't it its itself just let many may me might more moreover most much must my neither no nor not now of off on
    once one only or other our out over own per rather same shall she should since so some such than that the their
    them then there therefore these they this those through thus to too under until up upon us very was wasn't we well
    were weren't what when where whereas whether which while who whom whose why will with within without won't would
    yet yes you your according context document documents mention mentioned mentions provided source sources stated
    states
"""
_GERMAN = """
    ab aber alle allem allen aller als also am an andere anderen auch auf aus bei beim bin bis bist da dabei dadurch
    dafür damit dann daran darauf das dass davon dazu dem den denn der deren des dessen die dies diese diesem diesen
    dieser dieses doch dort du durch ein eine einem einen einer eines er es etwa etwas für gegen hat hatte hatten hier
    ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jedoch kann kein keine können man mehr mit
    muss nach nicht noch nun nur ob oder ohne sehr sein seine seinem seinen seiner sich sie sind so sowie über um und
    uns unter vom von vor war waren was weil wenn wer werden wie wird wo wurde wurden zu zum zur zwischen laut quelle
    quellen
"""
_FRENCH = """
    à au aux avec ce ces cette comme dans de des du elle elles en entre est et été était être eux il ils je la le les
    leur leurs lui ma mais même mes ne nos notre nous on ont ou où par pas plus pour qu que qui sa sans se ses si son
    sont sur ta te tes toi ton très tu un une vos votre vous selon
"""
_SPANISH = """
    al algo ante aunque cada como con contra cual cuando del desde donde dos el ella ellas ellos entre era eran es esa
    ese eso esta este esto están está fue fueron ha hacia han hasta hay la las lo los más me mi muy ni no nos o otra
    otro para pero por porque que quien se según ser si sin sobre son su sus también tan te un una unas uno unos y ya
"""
_ITALIAN = """
    agli ai al alla alle anche che chi ci col come con cui da dal dalla dalle degli dei del della delle di dove e è ed
    era erano gli ha hanno i il in io la le lo loro ma nel nella nelle non o per perché più quale questa queste questi
    questo se secondo si sono su sua sue sui sul sulla suo tra un una uno
"""
_PORTUGUESE = """
    ao aos as até com como da das de do dos e ela elas ele eles em entre era essa esse esta este foi foram há isso isto
    já mais mas na nas não no nos o os ou para pela pelo por que se sem ser seu sua são também um uma
"""
_DUTCH = """
    aan al alle als bij dan dat de der deze die dit door een en er had heeft hem het hij hoe hun ik in is je kan maar
    meer met na naar niet nog nu of om onder ook op over te tot uit van veel voor want waren was wat we wel werd wie
    zal ze zich zij zijn zo zou
"""
_RUSSIAN = """
    а без бы был была были было быть в вы где да для до его ее если есть же за и из или им их к как когда который мы на
    не него нет но о об он она они оно от по при с со так также то только у что чтобы это этот я
"""
FUNCTION_WORDS = frozenset(
    f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH} {_ITALIAN} {_PORTUGUESE} {_DUTCH} {_RUSSIAN}".split()
)
