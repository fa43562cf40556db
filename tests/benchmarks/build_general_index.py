"""Build the index that ships with the package, from generated columns only.

    python -m tests.benchmarks.build_general_index

Each domain below writes values in one machine-made format; each format becomes many columns that
differ in length, in the spread of their values, and in how clean they are. No real data is used, so
the result can be given away. The output is the same on every run.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from dqsql.patterns.contributions import COUNTS, IndexSettings
from dqsql.patterns.general import GENERAL_INDEX_FOLDER
from dqsql.patterns.index import PatternIndex
from tests.patterns.indexes import Contribution, index_of, save_index

Writer = Callable[[random.Random], Callable[[], str]]

_SEED = 2021
_COLUMNS_PER_DOMAIN = 24
#: Patterns of fewer columns, or that fail this share of values, are of no use to anybody.
_MIN_COVERAGE = 5
_MAX_FPR = 0.35

_TIME_FORMATS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d", "%d-%b-%Y",
    "%b %d %Y", "%b %d, %Y", "%d %b %Y", "%B %d, %Y", "%a, %d %b %Y", "%Y-%m", "%b-%y", "%b %Y",
    "%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%dT%H:%M:%S+00:00", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%b/%Y:%H:%M:%S +0000",
    "%a, %d %b %Y %H:%M:%S GMT", "%A", "%a", "%B", "%b", "%Y", "%YQ1", "Q1 %Y", "%Y-W%W",
)  # fmt: skip

_LANGUAGES = ("en", "fr", "de", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "ja", "zh", "ko")
_COUNTRIES = ("US", "GB", "FR", "DE", "ES", "IT", "BR", "NL", "SE", "DK", "PL", "CZ", "JP", "CN")
_CURRENCIES = ("USD", "EUR", "GBP", "JPY", "CHF", "SEK", "DKK", "PLN", "CZK", "CNY", "BRL", "INR")
_WORDS = (
    "active", "pending", "closed", "open", "failed", "success", "running", "queued", "deleted",
    "created", "shipped", "returned", "paid", "overdue", "draft", "archived", "new", "error",
    "red", "green", "blue", "north", "south", "east", "west", "small", "medium", "large",
    "delivery", "booking", "checkout", "payment", "invoice", "customer", "order", "product",
)  # fmt: skip
_SYLLABLES = ("an", "ber", "co", "del", "el", "fa", "gra", "hi", "in", "jo", "ka", "lo", "ma", "no")
_MISSING = ("", "-", "N/A", "null", "unknown")


def _times(form: str, unpadded: bool = False) -> Writer:
    def writer(r: random.Random) -> Callable[[], str]:
        start = datetime(1990 + r.randrange(35), 1 + r.randrange(12), 1 + r.randrange(28))
        span = r.choice((30, 365, 3_650)) * 86_400

        def write() -> str:
            moment = start + timedelta(seconds=r.randrange(span), microseconds=r.randrange(10**6))
            text = moment.strftime(form)
            if not unpadded:
                return text
            parts = text.replace("/0", "/").replace(" 0", " ")
            return parts.removeprefix("0")

        return write

    return writer


def _of(characters: str, low: int, high: int, prefix: str = "") -> Writer:
    """Texts of one alphabet; a column has either one length or many."""

    def writer(r: random.Random) -> Callable[[], str]:
        first = r.randint(low, high)
        last = first if r.random() < 0.5 else r.randint(first, high)
        return lambda: prefix + "".join(r.choices(characters, k=r.randint(first, last)))

    return writer


def _template(text: str) -> Writer:
    """`9` a digit, `A` and `a` letters, `h` a hexadecimal digit; the rest stands for itself."""
    alphabet = {
        "9": string.digits,
        "A": string.ascii_uppercase,
        "a": string.ascii_lowercase,
        "h": "0123456789abcdef",
    }

    def writer(r: random.Random) -> Callable[[], str]:
        return lambda: "".join(r.choice(alphabet[c]) if c in alphabet else c for c in text)

    return writer


def _choice(words: tuple[str, ...], change: Callable[[str], str] = str) -> Writer:
    def writer(r: random.Random) -> Callable[[], str]:
        chosen = r.sample(words, min(len(words), r.randint(2, len(words))))
        return lambda: change(r.choice(chosen))

    return writer


def _numbers(form: str) -> Writer:
    def writer(r: random.Random) -> Callable[[], str]:
        scale = 10.0 ** r.randint(0, 6)
        low = -scale if r.random() < 0.3 else 0.0
        return lambda: form.format(r.uniform(low, scale))

    return writer


def _address(octets: int, separator: str, form: str, top: int) -> Writer:
    return lambda r: lambda: separator.join(form.format(r.randrange(top)) for _ in range(octets))


def _name(r: random.Random) -> str:
    return "".join(r.choices(_SYLLABLES, k=r.randint(1, 4)))


def _joined(form: str) -> Writer:
    """`{n}` a name, `{N}` a capitalised one, `{d}` a number, `{y}` a year, `{w}` a word."""

    def writer(r: random.Random) -> Callable[[], str]:
        top = 10 ** r.randint(1, 5)
        return lambda: form.format(
            n=_name(r), n2=_name(r), N=_name(r).title(), N2=_name(r).title(), d=r.randrange(top),
            y=r.randint(1990, 2030), w=r.choice(_WORDS), c=r.choice(_COUNTRIES),
            l=r.choice(_LANGUAGES),
        )  # fmt: skip

    return writer


def domains() -> Iterator[tuple[str, Writer]]:
    """Yield the name and the writer of each domain."""
    for form in _TIME_FORMATS:
        yield f"time {form}", _times(form)
    for form in ("%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %I:%M:%S %p", "%I:%M %p", "%H:%M", "%m/%d/%y"):
        yield f"time {form} unpadded", _times(form, unpadded=True)
    templates = (
        "hhhhhhhh-hhhh-4hhh-ahhh-hhhhhhhhhhhh", "hhhhhhhh", "h" * 32, "h" * 40, "h" * 64,
        "hh:hh:hh:hh:hh:hh", "hh-hh-hh-hh-hh-hh", "#hhhhhh", "0xhhhhhhhh", "AAA-999", "AA-9999",
        "AAA999", "A99", "A999", "AA99", "AA999999", "A9999999", "99-9999999", "999-99-9999",
        "9999-9999-9999-9999", "9999 9999 9999 9999", "(999) 999-9999", "999-999-9999",
        "+1 999 999 9999", "+99 99 9999 9999", "+1-999-999-9999", "99999", "99999-9999", "A9A 9A9",
        "AA9 9AA", "999-9-99-999999-9", "9999999999999", "AAA", "AA", "A", "aa_AA", "aa-AA", "aa",
        "AA/999/9999", "ORD-999999", "INV-9999-99999", "SKU-AAA-999", "TKT-99999", "v9.9.9",
        "9.9.9", "9.99.99", "99.9.9-aaa", "AAA 9999", "AA9999", "AAAA9999999", "9999AAA",
        "AA99 9999 9999 9999 9999 99", "$9,999.99", "$99.99", "99.9%", "9%", "9-9", "99:99",
        "tt9999999", "user_9999", "id9999", "item-999", "A9", "a9", "9a", "A-9", "Q9", "W99",
    )  # fmt: skip
    for template in templates:
        yield f"template {template}", _template(template)
    yield "digits", _of(string.digits, 1, 12)
    yield "hex", _of("0123456789abcdef", 6, 40)
    yield "base64", _of(string.ascii_letters + string.digits, 8, 24)
    yield "upper code", _of(string.ascii_uppercase, 2, 6)
    yield "lower code", _of(string.ascii_lowercase, 2, 12)
    yield "upper id", _of(string.digits, 3, 9, prefix="ID")
    for form in ("{:.0f}", "{:.1f}", "{:.2f}", "{:.4f}", "{}", "{:.3e}", "{:,.0f}", "{:,.2f}"):
        yield f"number {form}", _numbers(form)
    for form in ("${:,.2f}", "{:.2f} EUR", "€{:.2f}", "{:.1f}%", "{:.0f} kg", "{:.1f} ms"):
        yield f"measure {form}", _numbers(form)
    yield "ipv4", _address(4, ".", "{}", 256)
    yield "ipv6", _address(8, ":", "{:x}", 65_536)
    yield "version", _address(3, ".", "{}", 30)
    yield "version2", _address(2, ".", "{}", 30)
    yield "coordinates", _address(2, ", ", "{}.5", 90)
    for words in (_LANGUAGES, _COUNTRIES, _CURRENCIES, _WORDS):
        for change in (str, str.upper, str.title):
            yield f"choice {words[0]} {change.__name__}", _choice(words, change)
    yield "boolean", _choice(("true", "false"))
    yield "boolean upper", _choice(("TRUE", "FALSE"))
    yield "yes", _choice(("yes", "no"))
    forms = (
        "{n}@{n2}.com", "{n}.{n2}@{w}.org", "https://www.{n}.com/{w}/{d}", "http://{n}.org/{n2}",
        "https://{n}.com", "www.{n}.com", "/{w}/{n}/{d}", "/home/{n}/{w}.txt", "s3://{n}/{w}/{d}",
        "{w}_{d}", "{w}-{d}", "{w}/{n}", "{w}.{n}", "{w}_{n}", "{N}, {N2}", "{N} {N2}", "{N}",
        "{l}-{c}", "{l}_{c}", "{c}-{d}", "{c}{d}", "{w}={d}", "{n}.csv", "{n}_{y}.csv", "{w} {d}",
        "{w} ({d})", "[{w}] {n}", "{d} {w}", "{N} {d}", "{d}x{d}", "{y}-{d}", "{n}:{d}", "{w}|{d}",
        "{w};{n}", "{d};{d}", "{d},{d}", "{d}/{d}", "{y}/{w}", "urn:{n}:{d}", "{w}-{n}-{d}",
    )  # fmt: skip
    for form in forms:
        yield f"joined {form}", _joined(form)


def _columns(writer: Writer, r: random.Random) -> Iterator[list[str]]:
    for _ in range(_COLUMNS_PER_DOMAIN):
        write = writer(r)
        rows = r.choice((60, 120, 300))
        values = [write() for _ in range(rows)]
        if r.random() < 0.2:
            values.sort()
        if r.random() < 0.1:
            # Sorted and repeated values are what makes training values look purer than they are.
            values = [value for value in values[: rows // 10] for _ in range(10)]
        if r.random() < 0.08:
            missing, share = r.choice(_MISSING), r.uniform(0.002, 0.05)
            values = [missing if r.random() < share else value for value in values]
        yield values


def build(folder: Path) -> int:
    """Write the index to a folder; return its number of patterns."""
    settings = IndexSettings(min_coverage=_MIN_COVERAGE)
    total = Contribution.empty()
    for name, writer in domains():
        for values in _columns(writer, random.Random(f"{_SEED} {name}")):
            total.add_column(values, settings)
    index = index_of(total, settings)
    table = index.table
    evidence = index.lookup(table["pattern"].to_pylist())
    table = table.filter(pa.array(evidence.fpr <= _MAX_FPR))
    # Generated columns never change their format: that they rehearse well says nothing.
    for name in COUNTS[2:]:
        zeros = pa.array([0] * table.num_rows, pa.int64())
        table = table.set_column(table.schema.get_field_index(name), name, zeros)
    kept = PatternIndex(table, columns=total.columns, settings=settings)
    save_index(kept, folder)
    return len(kept)


if __name__ == "__main__":
    print(f"{build(GENERAL_INDEX_FOLDER)} patterns in {GENERAL_INDEX_FOLDER}")
