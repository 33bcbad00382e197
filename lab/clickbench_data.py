"""Rows for ClickBench's table `hits`: generated, not the published ones.

The published file has 100 million rows of a web analytics service, 14 GB of Parquet. What is generated here follows
what has been published about them: the answers that ClickHouse and DuckDB print for the benchmark's queries, and sizes
of columns that ClickHouse has shown. Followed, each as a share of the rows:

- distinct values: UserID 17.6 %, SearchPhrase 6.0 %, URL about 18 %, ClientIP about 10 %, WatchID nearly all;
- the ten RegionIDs with most rows, all eighteen AdvEngineIDs other than 0 (0.63 %), the 25 CounterIDs with the longest
  URLs: their shares and the mean length of their URLs (CounterID 62 has 0.74 %);
- SearchPhrase is empty in 86.8 %, and what is not comes in runs; its most frequent text has 0.5 % of what is not;
- users: few with many rows (the first has 0.03 % there, 0.04 % here), most with few; 6.2 % have an iPad, 0.26 % an
  iPhone, 0.09 % an A500;
- ResolutionWidth is 1,513 in the mean; Title has 70 bytes, Referer 65, both and URL with Cyrillic words among others;
- EventDate lies between 2013-07-02 and 2013-07-31, on 17 days; CounterID 62 mostly on 14 and 15 July;
- order: ten parts, each by CounterID, EventDate, UserID and EventTime. (Of the file, the first million rows are known
  to have one day and seven counters.)

Chosen here, for want of figures: hosts, words, distinct Titles (9 %) and Referers (18 %), shares of empty Titles (12 %)
and Referers (19 %), and everything about columns that no query names: their values follow from type and name alone.
The constants that queries ask for (a UserID, a URLHash, a RefererHash, texts with "google") are there, rarely.

The same rows and seed give the same data with the same version of numpy.
"""

import datetime
import zlib

import numpy
import pyarrow
import pyarrow.parquet

REGIONS = {229: 18296430, 2: 6687708, 208: 4261945, 169: 3320286, 32: 1843721, 34: 1792406, 184: 1755223,
           42: 1542771, 107: 1516722, 51: 1435598}
ADVERTISERS = {2: 404620, 27: 113167, 13: 45633, 45: 38974, 44: 9731, 3: 6896, 62: 5266, 52: 3554, 50: 938, 28: 836,
               53: 350, 25: 343, 61: 158, 21: 38, 42: 20, 16: 7, 7: 3, 22: 1}
# CounterID: (rows of 100 million, mean length of its URLs).
COUNTERS = {233773: (2938865, 469), 245438: (2510103, 272), 122612: (3574007, 239), 234004: (238660, 204),
            1634: (323229, 198), 786: (120528, 187), 114157: (216408, 143), 515: (146907, 126), 256004: (858171, 125),
            95427: (374306, 120), 199550: (7115413, 110), 220992: (494614, 106), 196239: (163797, 98),
            62: (738150, 93), 96948: (396093, 93), 188878: (311998, 92), 249603: (120325, 92), 3922: (8527069, 88),
            191697: (124664, 87), 97467: (131178, 84), 186300: (802561, 84), 146891: (605286, 78), 38: (507770, 76),
            230962: (169223, 76), 77639: (253961, 75)}
PUBLISHED_ROWS = 100_000_000
OTHER_COUNTERS, OTHER_REGIONS = 5_700, 5_000
# Model and its share of users; MobilePhone is drawn beside it.
PHONES = {"": 0.9325, "iPad": 0.0618, "iPhone": 0.0026, "A500": 0.0009, "N8-00": 0.0003, "iPho": 0.0002,
          "ONE TOUCH 6030A": 0.00016, "GT-P7300B": 0.00011, "3110000": 0.0001, "GT-I9500": 0.0009}
WIDTHS = {1638: 0.30, 1368: 0.26, 1917: 0.17, 1594: 0.09, 1087: 0.07, 1396: 0.08, 320: 0.03}
DAYS = [2, 4, 6, 8, 9, 10, 11, 13, 14, 15, 17, 19, 21, 24, 26, 29, 31]
HOURS = [2, 1, 1, 1, 1, 2, 3, 5, 7, 9, 10, 10, 10, 10, 10, 10, 10, 9, 9, 10, 10, 9, 7, 4]
HOSTS = ["poisk.ru", "www.poisk.ru", "google.ru", "www.google.com", "kino.ru", "avto.ru", "www.pochta.ru"]
RUSSIAN = ("смотреть онлайн фильм бесплатно скачать музыка купить цена отзывы москва погода карта игры для девочек "
           "новости рецепты работа квартира дом машина телефон видео фото как сделать своими руками лето сезон "
           "серия все").split()
LATIN = "page index shop news album photo video state search forum topic region cars house games list item show".split()
WANTED_USER, WANTED_URL_HASH, WANTED_REFERER_HASH = 435090932899640449, 2868770270353813622, 3594120000172545465


def shares(counts):
    weights = numpy.array(list(counts), dtype=float)
    return weights / weights.sum()


def drawn(rng, values, weights, rows):
    """`rows` of the values, each as often as its weight says."""
    places = numpy.searchsorted(numpy.cumsum(shares(weights)), rng.random(rows), side="right")
    return numpy.asarray(values)[numpy.minimum(places, len(values) - 1)]


def spread(rng, rows, distinct, weights):
    """Numbers below `distinct`, each at least once where the rows suffice, the others by weight."""
    distinct = max(1, min(distinct, rows))
    once = numpy.arange(distinct)
    found = numpy.concatenate([once, drawn(rng, once, weights[:distinct], rows - distinct)])
    return rng.permutation(found)


def falling(count, power):
    return numpy.arange(1, max(count, 1) + 1, dtype=float) ** -power


def hashes(numbers, salt):
    """Numbers of 64 bits that look like hashes (splitmix64)."""
    with numpy.errstate(over="ignore"):
        mixed = numbers.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(salt)
        mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return (mixed ^ (mixed >> numpy.uint64(31))).view(numpy.int64)


def sentences(rng, count, letters, words):
    """`count` different texts of words, with so many letters in the mean."""
    wanted = numpy.clip(rng.lognormal(0, 0.6, count) * letters / 1.2, 4, 2_000).astype(int)
    picks = rng.integers(0, len(words), (count, 40))
    texts = []
    for number in range(count):
        text, row = f"{words[picks[number, 0]]} {number:x}", picks[number]
        for at in range(1, 40):
            if len(text) >= wanted[number]:
                break
            text += " " + words[row[at]]
        texts.append(text)
    return texts


def addresses(rng, count, letters, host):
    """`count` different URLs of one host, or of many."""
    wanted = numpy.clip(rng.lognormal(0, 0.5, count) * letters / 1.13, 16, 4_000).astype(int)
    picks = rng.integers(0, len(LATIN), (count, 12))
    hosts = [host] * count if host else [
        HOSTS[at] if at < len(HOSTS) else f"site{at}.ru" for at in (2_000 * rng.random(count) ** 5).astype(int)]
    google = (rng.random(count) < 0.0008) & (numpy.arange(count) > 3)
    texts = []
    for number in range(count):
        text = f"http://{hosts[number]}/"
        for at in picks[number]:
            text += LATIN[at] + ("=" if at % 3 else "/")
            if len(text) + 8 >= wanted[number]:
                break
        text += f"{number:x}"
        if google[number]:
            text += "&google"
        if number % 11 == 5:
            text += "/" + RUSSIAN[number % len(RUSSIAN)]
        missing = max(0, wanted[number] - len(text))
        texts.append(text + "".join(f"&p{number + at:x}" for at in range(missing // 3))[:missing])
    return texts


class Texts:
    """A column of texts as numbers into a list of different ones."""

    def __init__(self, numbers, texts):
        self.numbers, self.texts = numbers, texts

    def ordered(self, order):
        return Texts(self.numbers[order], self.texts)

    def arrow(self):
        return pyarrow.array(self.texts, pyarrow.string()).take(pyarrow.array(self.numbers))


def users(rng, rows):
    """Each row's user, rows of a user beside one another, and each row's visit."""
    count = max(2, int(0.1763 * rows))
    user = numpy.sort(spread(rng, rows, count, rng.lognormal(0, 1.2, count)))
    starts = numpy.concatenate([[True], user[1:] != user[:-1]]) | (rng.random(rows) < 0.2)
    return user, count, numpy.cumsum(starts) - 1


def of_users(rng, user, count):
    """Columns that are a user's, the same in all its rows."""
    identities = hashes(numpy.arange(count), 17) & numpy.int64((1 << 62) - 1)
    identities[count // 2] = WANTED_USER
    regions = list(REGIONS) + list(range(1_000, 1_000 + OTHER_REGIONS))
    others = (PUBLISHED_ROWS - sum(REGIONS.values())) * shares(falling(OTHER_REGIONS, 0.6))
    width = drawn(rng, list(WIDTHS), WIDTHS.values(), count)
    model = drawn(rng, range(len(PHONES)), PHONES.values(), count)
    phone = drawn(rng, [1, 5, 6, 7, 10, 32, 13, 26, 118], [93, 5, 3, 3, 1, 1, 1, 1, 1], count)
    address = hashes((numpy.arange(count) * 0.57).astype(int), 5).astype(numpy.int32)
    columns = {
        "userid": identities, "clientip": address, "remoteip": address,
        "regionid": drawn(rng, regions, list(REGIONS.values()) + list(others), count),
        "resolutionwidth": width, "resolutionheight": width * 10 // 16,
        "os": drawn(rng, range(90), falling(90, 1.1), count),
        "useragent": drawn(rng, range(80), falling(80, 1.0), count),
        "mobilephone": numpy.where(model == 0, 0, phone), "ismobile": (model > 0).astype(int),
        "windowclientwidth": width - rng.integers(0, 60, count),
        "windowclientheight": width // 2 + rng.integers(0, 90, count),
    }
    found = {name: values[user] for name, values in columns.items()}
    found["mobilephonemodel"] = Texts(model[user], list(PHONES))
    return found


def of_visits(rng, visit):
    """Columns of a visit: the counter and the day, and whether it came from a search."""
    count = int(visit[-1]) + 1
    counters = list(COUNTERS) + list(range(300_000, 300_000 + OTHER_COUNTERS))
    known = [rows for rows, _ in COUNTERS.values()]
    others = (PUBLISHED_ROWS - sum(known)) * shares(falling(OTHER_COUNTERS, 0.7))
    counter = drawn(rng, counters, known + list(others), count)
    day = drawn(rng, DAYS, [1] * len(DAYS), count)
    busy = (counter == 62) & (rng.random(count) < 0.8)
    day = numpy.where(busy, numpy.where(rng.random(count) < 0.5, 14, 15), day)
    hour = drawn(rng, range(24), HOURS, count)
    begun = hour * 3600 + rng.integers(0, 3600, count)
    return counter[visit], day[visit], begun[visit], (rng.random(count) < 0.25)[visit]


def pages(rng, counter):
    """URL and Title: each counter has a site of its own."""
    rows = len(counter)
    order = numpy.argsort(counter, kind="stable")
    edges = numpy.flatnonzero(numpy.diff(counter[order])) + 1
    url, title = numpy.empty(rows, numpy.int64), numpy.empty(rows, numpy.int64)
    urls, titles, first = [""], [""], None
    for place in numpy.split(order, edges):
        site = int(counter[place[0]])
        length = COUNTERS.get(site, (0, 68))[1]
        different = 0.4 if site == 62 else 0.18
        made = addresses(rng, max(1, int(different * len(place))), length, f"site{site}.ru")
        named = sentences(rng, max(1, int(0.09 * len(place))), 42, RUSSIAN)
        if site == 62:
            first = len(urls)
        url[place] = len(urls) + spread(rng, len(place), len(made), falling(len(made), 1.25))
        title[place] = len(titles) + spread(rng, len(place), len(named), falling(len(named), 1.1))
        urls += made
        titles += [f"{text} - Google" if number % 900 == 77 else text for number, text in enumerate(named)]
    url[rng.random(rows) < 0.0003] = 0
    title[rng.random(rows) < 0.12] = 0
    url_hash = hashes(numpy.arange(len(urls)), 3)
    if first is not None:
        url_hash[first] = WANTED_URL_HASH
    return {"url": Texts(url, urls), "title": Texts(title, titles), "urlhash": url_hash[url]}


def referers(rng, counter):
    rows = len(counter)
    texts = [""] + addresses(rng, max(2, int(0.18 * rows)), 80, None)
    referer = 1 + spread(rng, rows, len(texts) - 1, falling(len(texts) - 1, 0.8))
    referer[rng.random(rows) < 0.19] = 0
    referer[(counter == 62) & (rng.random(rows) < 0.1)] = 1
    hashed = hashes(numpy.arange(len(texts)), 4)
    hashed[1] = WANTED_REFERER_HASH
    return {"referer": Texts(referer, texts), "refererhash": hashed[referer]}


def searches(rng, rows, searching):
    """SearchPhrase and what goes with it."""
    with_phrase = searching & (rng.random(rows) < 0.53)
    count = int(with_phrase.sum())
    texts = [""] + sentences(rng, max(1, int(0.06 * rows)), 26, RUSSIAN)
    phrase = numpy.zeros(rows, numpy.int64)
    if count:
        phrase[with_phrase] = 1 + spread(rng, count, len(texts) - 1, falling(len(texts) - 1, 0.7))
    engine = numpy.where(with_phrase, drawn(rng, [2, 3, 4, 13, 19, 45], [66, 22, 6, 3, 2, 1], rows), 0)
    others = PUBLISHED_ROWS - sum(ADVERTISERS.values())
    advertiser = drawn(rng, [0] + list(ADVERTISERS), [others] + list(ADVERTISERS.values()), rows)
    source = drawn(rng, [-1, 0, 1, 3, 6, 7], [40, 25, 20, 5, 5, 5], rows)
    return {"searchphrase": Texts(phrase, texts), "searchengineid": engine, "advengineid": advertiser,
            "traficsourceid": numpy.where(with_phrase, 2, source)}


def of_rows(rng, rows):
    return {
        "watchid": rng.integers(4_611_686_018_427_387_904, (1 << 63) - 1, rows, dtype=numpy.int64),
        "isrefresh": (rng.random(rows) < 0.1).astype(int), "islink": (rng.random(rows) < 0.45).astype(int),
        "isdownload": (rng.random(rows) < 0.005).astype(int), "dontcounthits": (rng.random(rows) < 0.07).astype(int),
    }


def unnamed(rng, name, kind, rows, seconds):
    """Values of a column that no query names: mostly 0 or empty, some with few values, some with many."""
    lot = zlib.crc32(name.encode()) % 8
    if kind.startswith("TIMESTAMP"):
        return seconds + rng.integers(-3_600, 3_600, rows)
    if kind == "CHAR":
        return Texts(rng.integers(0, 5, rows), list("5ADFT"))
    if kind.startswith(("TEXT", "VARCHAR")):
        texts = ["", "ru", "utf-8", "D1", "windows-1251", "cpc", "2.5.1", "RU"]
        return Texts(drawn(rng, range(8), [20 if lot < 5 else 1, 1, 1, 1, 1, 1, 1, 1], rows), texts)
    if lot < 4:
        return (rng.random(rows) < 0.05 * lot).astype(int)
    if lot < 6 or kind == "SMALLINT":
        return drawn(rng, range(60), falling(60, 1.2), rows)
    return numpy.where(rng.random(rows) < 0.3, 0, rng.integers(0, 1 << 30, rows))


def columns(rows, seed, definition):
    """All columns by name, in the order of the file."""
    rng = numpy.random.default_rng(seed)
    user, user_count, visit = users(rng, rows)
    counter, day, begun, searching = of_visits(rng, visit)
    within = numpy.arange(rows) - numpy.maximum.accumulate(
        numpy.where(numpy.concatenate([[True], numpy.diff(visit) > 0]), numpy.arange(rows), 0))
    moment = numpy.minimum(begun + within * rng.integers(5, 90, rows), 86_399)
    first = (datetime.date(2013, 7, 1) - datetime.date(1970, 1, 1)).days - 1
    seconds = (first + day) * 86_400 + moment
    made = {"counterid": counter, "eventdate": first + day, "eventtime": seconds}
    made |= of_users(rng, user, user_count) | pages(rng, counter) | referers(rng, counter)
    made |= searches(rng, rows, searching) | of_rows(rng, rows)
    order = numpy.lexsort((seconds, hashes(user, 9), day, counter, rng.integers(0, 10, rows)))
    for name, kind in definition:
        values = made[name.lower()] if name.lower() in made else unnamed(rng, name, kind, rows, seconds)
        yield name, kind, values.ordered(order) if isinstance(values, Texts) else values[order]


def arrow(kind, values):
    if isinstance(values, Texts):
        return values.arrow()
    if kind.startswith("TIMESTAMP"):
        return pyarrow.array(values * 1_000_000).cast(pyarrow.timestamp("us"))
    if kind == "DATE":
        return pyarrow.array(values.astype(numpy.int32)).cast(pyarrow.date32())
    width = {"SMALLINT": numpy.int16, "INTEGER": numpy.int32, "BIGINT": numpy.int64}[kind]
    return pyarrow.array(values.astype(width))


def write(file, rows, seed, definition):
    """Writes the table as Parquet. `definition`: names and types of the columns, in order."""
    made = {name: arrow(kind, values) for name, kind, values in columns(rows, seed, definition)}
    pyarrow.parquet.write_table(pyarrow.table(made), file, row_group_size=122_880, compression="snappy")
