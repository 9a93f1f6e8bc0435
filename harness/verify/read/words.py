"""The words of answers by what they do: copulas, denials, doubts, remarks, operations, units and things that are counted."""

import string


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a word does in a sentence, by one letter; the first line that has it counts.
_CLASSES = {
    "c": "is are was were be been equals equal becomes gives yields makes has have had gets it's that's there's",
    "o": "no",
    "k": "wait actually sorry correction oops rather",
    "d": "not never neither nor cannot without except excluding excluded excludes unlikely impossible incorrect wrong unknown "
    "undetermined none nothing anything instead false invalid",
    "h": "maybe perhaps possibly might could unsure unclear uncertain depends guessing guess something else otherwise if unless",
    "q": "which",
    "t": "that",
    "i": "i.e",
    "l": "so thus therefore hence but then consequently whence now",
    "r": "because since as where who whose while although though whereas due given such note assuming provided when e.g",
    "b": "least most than besides other between under below above over within exceeding beyond before after",
    "p": "of out in for at from by with on among during until according based including via left more fewer less",
    "s": "negative minus positive plus opposite",
    "x": "per base to",
    "y": "yes true",
    "a": "about approximately approx exactly roughly around nearly almost circa either both only just",
    "f": "the a an total answer option choice point points value number final all and sure positive best select choose pick get integer "
    "coordinates interval set",
}  # fmt: skip
_CLASS_OF = {word: letter for letter, row in reversed(_CLASSES.items()) for word in row.split()}
AFFIRMED = _set("the correct right answer one only option choice solution value result true final best possible unique")
_MONTHS = "january february march april may june july august september october november december"
MONTHS = {name[:length]: place for place, name in enumerate(_MONTHS.split(), 1) for length in (3, len(name))} | {
    "sept": 9
}
# Words that make another number of the one before them; any other word behind a number is a thing that is counted.
_OPERATIONS = (
    "plus minus over divided multiplied negative factorial squared cubed half halves third thirds quarter quarters "
    "tens score gross dozen mod base choose power root product difference percent fourths fifths sixths "
    "sevenths eighths ninths tenths hundredths thousandths et und mal fois por más true yes 万 亿 千 百 十 半"
)
NO_THINGS = _set(" ".join((_OPERATIONS, *MONTHS, *map(_CLASSES.__getitem__, "dhlk"), "no")))
_SCALES = "dozen 12 hundred 100 thousand 1000 lakh 100000 million 1000000 crore 10000000 billion 1000000000 trillion 1000000000000"
SCALES = dict(zip(_SCALES.split()[::2], map(int, _SCALES.split()[1::2]), strict=True))
ARTICLES = frozenset(("the", "a", "an"))
_NOWHERE = "no solution,no solutions,no real solution,no real solutions,empty set,none exist"
_EVERYWHERE = "all real numbers,all reals,all real x,real numbers"
PHRASES = dict.fromkeys(_NOWHERE.split(","), r"\emptyset") | dict.fromkeys(_EVERYWHERE.split(","), r"\mathbb{R}")
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS = {word: n for n, word in enumerate(_ONES.split())} | {word: 10 * n for n, word in enumerate(_TENS.split(), 2)}
NUMBERS["hundred"] = 100
_POINTS = _set(
    "point points vertex vertices coordinates coordinate pair pairs triple intersect intersection meet midpoint "
    "centroid center vector"
)
_INTERVALS = _set("interval intervals inequality inequalities range domain values")

# Units of measure; the first name of a unit stands for all of them.
_UNITS = """
mm millimeter millimetre, cm centimeter centimetre 厘米, dm decimeter, m meter metre 米, km kilometer kilometre 千米 公里,
inch in, ft foot feet, yd yard, mi mile, mg milligram, g gram 克, kg kilogram 千克 公斤 кг, ton tonne, lb pound, oz ounce,
ms millisecond, s sec second, min minute 分钟, h hr hour 小时, day, week, month, year yr, ml milliliter millilitre, l
liter litre, gal gallon, dollar usd buck, cent, euro eur, pound_sterling gbp, yuan 元, rupee rs, yen, degree deg, rad
radian, am a.m, pm p.m, mph, kmh kmph kph, rpm, hz, khz, mhz, ghz, pa, kpa, mpa, bar, atm, mol, ohm, cal, kwh, psi,
ppm, bps, watt, volt, amp, newton, joule, kelvin, celsius, fahrenheit"""
UNITS = {name: names.split()[0] for names in _UNITS.split(",") for name in names.split()}
UNIT_LETTERS = frozenset("NJVWKCFATmgshlL")
# Three letters are a product, but for these words, units and things.
_SHORT_WORDS = _set(
    "the are was has not but for out all any who one two six ten see let get got how why too yes our its can may per "
    "old had did his her him she bag box boy bus car cat cow cup dog egg hat hen jar key kid lap man map men pen pie "
    "pig row set tie toy van way win won bed bit job leg nut add use pot day pcs pts qts rev tbsp tsp sq cu odd sum "
    "now"
)
LITTLE_WORDS = _set("is of to so it we in on at by be as if no an up he me my us do go")
_VOWELS = frozenset("aeiouy")


def class_of(word: str) -> str:
    """Return the letter of `_CLASSES` for what a word does in a sentence, `n` for a number, `w` for other words."""
    if word.endswith("n't"):
        return "d"
    return _CLASS_OF.get(word) or ("n" if word in NUMBERS else "w")


def is_word(letters: str) -> bool:
    """Return whether letters that could be a product are a word: four at least, with a vowel, and no stretch of the alphabet."""
    is_long = len(letters) > 3 and not _VOWELS.isdisjoint(letters) and letters not in string.ascii_lowercase
    return is_long or letters in _SHORT_WORDS


def unit_of(word: str) -> str | None:
    """Return the unit that a word in the singular or plural names, by its first name; None for other words."""
    word = word.rstrip(".")
    return UNITS.get(word) or UNITS.get(word.removesuffix("s")) or UNITS.get(word.removesuffix("es"))


def asks_for_point(problem: str) -> bool:
    """Return whether a problem asks for a point or a pair, so that `(1,2)` is no interval."""
    found = {word.strip("$.,;:?()").lower() for word in problem.split()}
    return not found.isdisjoint(_POINTS) and found.isdisjoint(_INTERVALS)
