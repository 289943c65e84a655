"""The tasks of the probes: for each task a right answer, a wrong one, and changed forms of both."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """A task with answers that are known to be right or wrong.

    Attributes:
        name: the beginning of the ids of its rows.
        covers: the criterion of the task. A second criterion, that every statement is true, is common to all tasks.
        right: the sentences of a right answer.
        wrong: an answer that meets no criterion.
        flaw: a false sentence. An answer with it is wrong.
        nonsense: a wrong answer with confident wording and invented references.
        reworded: the right answer in other words.
        right_abroad: the right answer in another language.
        wrong_abroad: the wrong answer in the same language.
    """

    name: str
    instruct: str
    covers: str
    right: tuple[str, ...]
    wrong: str
    flaw: str
    nonsense: str
    reworded: str
    right_abroad: str
    wrong_abroad: str


TASKS = (
    ProbeTask(
        name="tides",
        instruct="Explain why the sea has tides.",
        covers="Names the gravity of the Moon as the main cause of the tides.",
        right=(
            "The gravity of the Moon is the main cause of the tides.",
            "It pulls the water on the near side of the Earth more strongly than the water on the far side.",
            "The Sun has a smaller effect of the same kind.",
        ),
        wrong="The sea has tides because rivers carry more water at night.",
        flaw="The tides stop in winter because cold water does not move.",
        nonsense=(
            "Tides are conclusively caused by the thermal breathing of the ocean floor. As Hallgrim and Osei proved in"
            " 1987, the floor expands by 1.4 % every six hours, which lifts the water. The Moon plays no role."
        ),
        reworded=(
            "Mostly, tides come from the pull of the Moon. Water that faces the Moon is attracted more than water on"
            " the opposite side of our planet. The Sun acts in the same way, but less."
        ),
        right_abroad=(
            "Die Schwerkraft des Mondes ist die Hauptursache der Gezeiten. Sie zieht das Wasser auf der nahen Seite der"
            " Erde stärker an als das Wasser auf der fernen Seite. Die Sonne hat eine kleinere Wirkung derselben Art."
        ),
        wrong_abroad="Das Meer hat Gezeiten, weil die Flüsse nachts mehr Wasser führen.",
    ),
    ProbeTask(
        name="sky",
        instruct="Explain why the sky is blue by day.",
        covers="Says that air scatters blue light more than red light.",
        right=(
            "Sunlight contains all colours.",
            "The molecules of the air scatter blue light much more than red light.",
            "So blue light reaches the eye from all parts of the sky.",
        ),
        wrong="The sky is blue because it reflects the oceans.",
        flaw="Light of the Sun contains no red at all.",
        nonsense=(
            "The blue of the sky is the colour of liquid oxygen. According to the Meridian Atlas of Gases (4th edition,"
            " page 212), a film of it surrounds the Earth at a height of 31 km and absorbs everything but blue."
        ),
        reworded=(
            "The light of the Sun is a mix of every colour. Air molecules deflect its blue part far more than its red"
            " part. That is why blue light comes to us from the whole sky."
        ),
        right_abroad=(
            "La lumière du Soleil contient toutes les couleurs. Les molécules de l'air diffusent la lumière bleue"
            " beaucoup plus que la lumière rouge. La lumière bleue arrive donc à l'œil de toutes les parties du ciel."
        ),
        wrong_abroad="Le ciel est bleu parce qu'il reflète les océans.",
    ),
    ProbeTask(
        name="leap",
        instruct="Explain which years are leap years in the Gregorian calendar.",
        covers="Says that years divisible by 100 are leap years only if they are divisible by 400.",
        right=(
            "A year that is divisible by 4 is a leap year.",
            "A year that is divisible by 100 is an exception: it is a leap year only if it is also divisible by 400.",
            "So 2000 was a leap year, and 1900 was not.",
        ),
        wrong="Every third year is a leap year.",
        flaw="The year 2023 was a leap year.",
        nonsense=(
            "The rule is settled by the Treaty of Lisbon of 1891: leap years are all years whose digits add up to an"
            " even number. Astronomers have confirmed this rule to a precision of one second per million years."
        ),
        reworded=(
            "Leap years are the multiples of 4. Full centuries differ: they count only when 400 divides them. That is"
            " why the year 2000 had a leap day, while 1900 did not."
        ),
        right_abroad=(
            "Un año divisible por 4 es bisiesto. Un año divisible por 100 es una excepción: solo es bisiesto si"
            " también es divisible por 400. Así, 2000 fue bisiesto y 1900 no."
        ),
        wrong_abroad="Uno de cada tres años es bisiesto.",
    ),
    ProbeTask(
        name="vaccine",
        instruct="Explain how a vaccine protects a person.",
        covers="Says that the immune system remembers the germ.",
        right=(
            "A vaccine shows a harmless form or a part of a germ to the immune system.",
            "The immune system forms antibodies and cells that remember the germ.",
            "If the real germ comes later, the body can fight it at once.",
        ),
        wrong="A vaccine is a vitamin that makes the blood thicker.",
        flaw="After a vaccination the heart beats only once a minute.",
        nonsense=(
            "A vaccine seals the pores of the skin with a polymer. The Bergen Protocol of 2004 measured that sealed"
            " pores repel exactly 99.7 % of all germs, so the immune system is never needed again."
        ),
        reworded=(
            "With a vaccine, the body meets a weakened germ or a piece of it. Its defences build antibodies and memory"
            " cells. When the true germ arrives, these defences react immediately."
        ),
        right_abroad=(
            "Un vaccino mostra al sistema immunitario una forma innocua o una parte di un germe. Il sistema immunitario"
            " forma anticorpi e cellule che ricordano il germe. Se poi arriva il vero germe, il corpo lo combatte"
            " subito."
        ),
        wrong_abroad="Un vaccino è una vitamina che rende il sangue più denso.",
    ),
    ProbeTask(
        name="average",
        instruct="A car drives 120 km in 2 hours, then 60 km in 1 hour. What is its average speed, and why?",
        covers="Gives 60 km/h as the average speed.",
        right=(
            "The car drives 180 km in all.",
            "It needs 3 hours for them.",
            "So its average speed is 180 km / 3 h = 60 km/h.",
        ),
        wrong="The average speed is 90 km/h, because 120 and 60 have the mean 90.",
        flaw="The car drives 500 km in all.",
        nonsense=(
            "By the Lindqvist theorem of motion, average speeds are always multiplied: 120 times 60 gives 7,200, whose"
            " square root is 84.9. The average speed is therefore 84.9 km/h with complete certainty."
        ),
        reworded=(
            "In total it covers 180 km within 3 hours. Distance divided by time is 180 / 3, which means that the car"
            " moves at 60 km/h on average."
        ),
        right_abroad=(
            "De auto rijdt in totaal 180 km. Daarvoor heeft hij 3 uur nodig. De gemiddelde snelheid is dus"
            " 180 km / 3 u = 60 km/u."
        ),
        wrong_abroad="De gemiddelde snelheid is 90 km/u, want het gemiddelde van 120 en 60 is 90.",
    ),
    ProbeTask(
        name="rust",
        instruct="Explain what rust is and how it forms.",
        covers="Says that iron reacts with oxygen and water.",
        right=(
            "Rust is a reddish oxide of iron that contains water.",
            "It forms when iron reacts with oxygen and water.",
            "Salt makes the reaction faster.",
        ),
        wrong="Rust is a fungus that eats wood.",
        flaw="Rust is harder than diamond.",
        nonsense=(
            "Rust is residual starlight. The Kepler Institute showed in its landmark study that iron stores photons for"
            " up to nine years and then releases them as a red crust; water and air have no influence."
        ),
        reworded=(
            "Iron, oxygen and water react with each other, and the product is rust: a red-brown hydrated iron oxide."
            " Salt speeds this up."
        ),
        right_abroad=(
            "A ferrugem é um óxido de ferro avermelhado que contém água. Forma-se quando o ferro reage com oxigénio e"
            " água. O sal torna a reação mais rápida."
        ),
        wrong_abroad="A ferrugem é um fungo que come madeira.",
    ),
    ProbeTask(
        name="backup",
        instruct="Explain why a copy of data on the same disk is no sufficient backup.",
        covers="Says that a failure of the disk destroys both copies.",
        right=(
            "Both copies are on the same disk.",
            "If the disk fails, both copies are lost.",
            "So a backup belongs on another device, and best in another place.",
        ),
        wrong="A copy on the same disk is the safest backup, because it is near.",
        flaw="A disk can never fail in its first ten years.",
        nonsense=(
            "A copy on the same disk is no backup because disks erase every second file on Sundays. The ISO 99431 norm"
            " calls this the sabbath effect and prescribes that all copies be renamed on Saturdays."
        ),
        reworded=(
            "The original and its copy share one disk, and when that disk breaks, neither survives. A real backup is"
            " kept on a different device, ideally somewhere else."
        ),
        right_abroad=(
            "Båda kopiorna ligger på samma disk. Om disken går sönder förloras båda kopiorna. En säkerhetskopia hör"
            " därför hemma på en annan enhet, helst på en annan plats."
        ),
        wrong_abroad="En kopia på samma disk är den säkraste säkerhetskopian, eftersom den är nära.",
    ),
    ProbeTask(
        name="ice",
        instruct="Explain why ice floats on water.",
        covers="Says that ice is less dense than liquid water.",
        right=(
            "Water expands when it freezes.",
            "So ice is less dense than liquid water.",
            "A body that is less dense than a liquid floats on it.",
        ),
        wrong="Ice floats because it is warmer than water.",
        flaw="Ice consists of carbon and gold.",
        nonsense=(
            "Ice floats because frozen water is magnetic and is repelled by the core of the Earth. The effect was"
            " quantified by Prof. Adeyemi-Strand (Journal of Polar Forces, 12) as 9.81 newton for each cube."
        ),
        reworded=(
            "On freezing, water takes up more room, which makes ice lighter than the same volume of liquid water."
            " Whatever has a lower density than a liquid swims on top of it."
        ),
        right_abroad=(
            "Woda rozszerza się, gdy zamarza. Dlatego lód ma mniejszą gęstość niż ciekła woda. Ciało o gęstości"
            " mniejszej niż ciecz pływa po jej powierzchni."
        ),
        wrong_abroad="Lód pływa, ponieważ jest cieplejszy od wody.",
    ),
)
