"""Words that tell neighbouring languages apart in a short text.

The tables were written for this project from grammars and dictionaries: forms of *to be*, pronouns, question words, and
words whose sounds differ (Croatian ``mlijeko``, Serbian ``mleko``). A word that two languages of a family share stands
in both rows. A word counts only against the languages of its family that lack it, so a word in no row says nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Mapping


_WORD = deferred(r"[^\W\d_][\w\u0900-\u097f]*")
_CYRILLIC = deferred("[\u0400-\u04ff]")
# Fitted on the development halves (docs/processors/language-detector.md): .6 to .8 do as well as each other.
_AGAINST = 0.7
_MOST = 3  # words of one text that count
_LATIN_SERBIAN = 0.8  # Serbian's first script is the Cyrillic one

_FAMILIES: tuple[Mapping[str, str], ...] = (
    {
        "hr": (
            "što tko netko nitko svatko prije poslije uvijek gdje nigdje negdje ovdje lijepo lijep lijepa "
            "dijete vrijeme mlijeko rijeka riječ riječi bijeli bijela vidjeti vidio živjeti željeti sretan "
            "sretna sretno htjeti htio htjela cijeli cijela cijelo mjesto mjesta mjesec sjediti razumijem "
            "razumije uspjeh uspjeti čovjek čovjeka ljeto snijeg svijet svijeta svijetu pjesma pjesmu pjeva "
            "pjevati djeca djece djevojka djevojku dječak obitelj tjedan tjedna kruh vlak vlakom glazba "
            "glazbu kazalište tisuća tisuće juha kava kavu točno opći općenito kći ured povijest stoljeće "
            "liječnik nogomet žlica također tijekom jučer doviđenja osjeća osjećam voljela volio tvrtka "
            "uvjeren vijest lijek slijedeći umrijeti umro bih novca kuhati kuha doma"
        ),
        "sr": (
            "šta ko neko niko posle pre uvek gde nigde negde ovde lepo lep lepa dete vreme mleko reka reč "
            "reči beli bela video videti živeti želeti srećan srećna srećno hteti hteo htela ceo cela celo "
            "mesto mesta mesec sedeti razumem razume uspeh uspeti čovek čoveka leto sneg svet sveta svetu "
            "pesma pesmu peva pevati deca dece devojka devojku dečak porodica porodicu nedelja nedelje hleb "
            "voz vozom muzika muziku pozorište hiljada hiljade supa kafa kafu tačno opšti uopšte ćerka "
            "kancelarija istorija vek lekar fudbal kašika takođe tokom juče oseća osećam volela voleo voleti "
            "uveren vest umreti sledeći umro bih kuvati kuva"
        ),
        "sl": (
            "sem jaz nisem nisi niso ni kaj kje zakaj kdo kdaj kako kateri tudi še že zelo lahko všeč ker "
            "ampak bil bom boš bodo bomo so jutri danes včeraj zdaj vedno nikoli nič nekaj vse vsi vsak več "
            "kot pri čez brez moram hočem hoče hočeš vem veš rekel rekla šel prišel lep lepa lepo človek "
            "ljudje otrok otroci hiša mesto mesta leto leta ura beseda besede prosim v z iz njegov njegova "
            "dete nedelja svet sveta reka reke mleko mesec kava vsa to nimam nima imaš ste smo naj res tja "
            "sva hotel videl"
        ),
    },
    {
        "da": (
            "hvad af ud op nu meget noget nogen mig dig sig os jer efter mod uden bliver blev blevet gør gøre "
            "igen bog penge tak uge sprog hvornår mere lidt hende vores tage tager sige siger sagde ved "
            "kender kvinde mand mænd børn dreng pige piger kat aldrig altid stadig sådan øjne selv hen nej "
            "huse arbejde arbejder køre rejse rejser spise spiser købe købte lave laver fået mange"
        ),
        "no": (
            "hva av ut opp nå mye noe noen meg deg seg oss dere etter mot uten blir ble blitt gjør gjøre "
            "igjen bok penger takk uke språk mer litt henne vår våre ta tar si sier sa vet kjenner kvinne "
            "mann menn gutt jente katt aldri alltid sånn øyne selv jobb vann snakker snakke liker veldig nei "
            "hus arbeid arbeider jobber kjøre reise reiser spise spiser kjøpe kjøpte fått mange lage lager"
        ),
        "sv": (
            "och jag inte är att för ett ska vad hur mycket också honom henne mig dig sig oss ut upp nu någon "
            "något några bara efter mot blir blev blivit gör göra igen bok pengar tack språk mer lite ta tar "
            "säga säger sa vet känner kvinna man män pojke flicka katt aldrig alltid ögon själv jobb vatten "
            "pratar tycker nej hus arbete arbetar köra resa äta äter köpa köpte fått många"
        ),
    },
    {
        "cs": (
            "jsem jsi jsme jste jsou není nejsem být byl byla bylo byli co kdo kdy proč jak jaký který která "
            "které nebo také taky ještě jen jenom teď zítra nic něco někdo nikdo všechno všichni můj tvůj "
            "jejich mě tě mně se ve ze ke při před přes pro chci můžu mohu můžeš může vím víš ví děkuji "
            "člověk lidé lidi dítě děti dům město řekl řekla dělat dělá dobře tady velmi její budu když"
        ),
        "sk": (
            "som sme ste sú nie byť bol bola bolo boli čo kto kedy prečo ako aký ktorý ktorá ktoré alebo aj "
            "tiež ešte len iba teraz zajtra nič niečo niekto nikto všetko všetci môj ťa sa so zo ku pri pred "
            "cez pre chcem môžem môžeš môže viem vieš vie ďakujem človek ľudia dieťa deti mesto dom deň "
            "povedal povedala robiť robí dobre veľmi keď"
        ),
    },
    {
        "mr": (
            "आहे आहेत आहेस आणि नाही मी ती ते आम्ही तुम्ही काय कसे कुठे मला तुला त्याला तिला हा हे होता होती "
            "होते माझा माझी माझे माझं तुझा तुझी तुझे नाहीत केले केलं करू"
        ),
        "hi": (
            "है हैं हूँ हूं हो और नहीं मैं तुम वह वे वो हम आप क्या कैसे कहाँ क्यों मुझे तुम्हें उसे यह ये था "
            "थी थे मेरा मेरी मेरे तुम्हारा की के को से में ने पर भी"
        ),
    },
    {
        "mk": (
            "сум што зошто каде кога кој која тука таму уште нешто ништо некој никој секој секогаш можам мора "
            "морам сакам сака сакаш мислам ќе во со кон денес луѓе маж еден нас тоа таа тие ова овој оваа тој "
            "јас нив оди беа"
        ),
        "bg": (
            "съм са аз тя те какво защо къде кой коя това този тази тези тук там още нещо нищо някой никой "
            "всеки може трябва искам иска искаш мисля бъде ще с със в във към днес хора мъж един ни бяха "
            "отива"
        ),
    },
    {
        "ru": (
            "ты он она мы вы они это что где кто почему очень был была было были нет со из для при меня тебя "
            "мне тебе его её их вас ничего сейчас здесь если же мой моя хочу хочет думаю могу надо нужно "
            "сегодня"
        ),
        "bg": (
            "аз той тя ние вие те това какво къде кой защо много съм беше са няма със мен теб ми ти го им ви "
            "нищо сега тук ако моят моята искам иска мисля мога трябва днес"
        ),
    },
    {
        "ru": (
            "ты он она мы вы они это что где когда кто почему очень есть был была было были нет с со в во из "
            "от при меня тебя мне тебе его её их ничего всегда никогда сейчас здесь уже ещё только тоже если "
            "или но и бы же мой моя твой хочу хочет знаю знает могу может надо нужно сегодня завтра вчера как "
            "да по книга дома"
        ),
        "uk": (
            "ти він вона ми ви вони це що де коли хто чому дуже є був була було були ні з із в від при мене "
            "тебе мені тобі його її їх нічого щось завжди ніколи зараз тут вже ще тільки також якщо або але і "
            "й та би же мій моя твій хочу хоче знаю знає можу може треба потрібно сьогодні завтра вчора як "
            "так по книга вдома"
        ),
        "be": (
            "ты ён яна мы вы яны гэта што дзе калі хто чаму вельмі ёсць быў была было былі няма з са ў ад пры "
            "мяне цябе мне табе яго яе іх нічога нешта заўсёды ніколі зараз тут ужо яшчэ толькі таксама або "
            "але і ды бы ж мой мая твой хачу хоча ведаю ведае магу можа трэба сёння заўтра ўчора як так па "
            "кніга дома"
        ),
    },
)


def weights(text: str) -> dict[str, float]:
    """Return the factors, 0 to 1, for the probabilities of languages; a language that is not named has the factor 1."""
    lacking = _lacking()
    counts = Counter(code for word in {*_WORD.findall(text.lower())} for code in lacking.get(word, ()))
    found = {code: _AGAINST ** min(count, _MOST) for code, count in counts.items()}
    if _CYRILLIC.search(text) is None:
        found["sr"] = found.get("sr", 1.0) * _LATIN_SERBIAN
    return found


@cache
def _lacking() -> dict[str, tuple[str, ...]]:
    """Return, by word, the languages that lack a word which a neighbouring language has."""
    lacking: dict[str, tuple[str, ...]] = {}
    for family in _FAMILIES:
        rows = {code: set(words.split()) for code, words in family.items()}
        for word in set[str]().union(*rows.values()):
            without = tuple(code for code, words in rows.items() if word not in words)
            lacking[word] = (*lacking.get(word, ()), *without)
    return lacking
