"""JSON that is wrong, strange or large, as text: some of it no JSON library would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orjson import Fragment

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

NUMBERS = [
    *(b"0", b"-0", b"-1", b"1", b"1.5", b"1e400", b"-1e400", b"1e-400", b"1E+2", b"0.1e1", b"2147483648"),
    *(b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809"),
    *(b"18446744073709551616", b"1" + b"0" * 100, b"1" * 4000, b"1" * 5000, b"1." + b"1" * 5000, b"1e99999999"),
    *(b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b"1.", b".5", b"0x10", b"1_000"),
]
STRINGS = [
    *(b'""', b'" "', b'"\\u0000"', b'"a\\u0000b"', b'"\x00"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"'),
    *(b'"\xf0\x9f\x98\x80"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\uffff\\ufffd"', b'"\\u2028\\n"', b'"\n"', b'"\\x"'),
    *(
        b'"5s"',
        b'"2024-01-01"',
        b'"P1D"',
        b'"null"',
        b'"1"',
        b'"0-0-0-0"',
        b'"../../x"',
        b'"@acme@full"',
        b'"__class__"',
    ),
    *(b'"%b"' % (b"x" * length) for length in (255, 256, 513, 1025, 5000, 40_000)),
]
CONTAINERS = [
    *(b"[]", b"{}", b"[[]]", b"[{}]", b'{"":""}', b'{"a":1,"a":2}', b'{"items":[]}', b'{"__proto__":{}}', b"[null]"),
    *(b"[" * depth + b"]" * depth for depth in (60, 99, 100, 101, 150, 250, 1000, 20_000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (60, 99, 100, 101, 150, 250, 1000)),
    *(b"[%b]" % b",".join([entry] * 1001) for entry in (b"1", b'""', b"[]", b"{}", b"null")),
    *(b"[", b"{", b'{"a"', b'{"a":', b"[1,", b'"', b"[1,]", b"{,}", b"", b"nul", b"'a'", b"1 2"),
]
OTHERS = [b"null", b"true", b"false", b"undefined", b"/**/1", b"1//", b"\xef\xbb\xbf1"]


def hostile(chance: Random) -> Fragment:
    """A small value that is wrong or strange nearly everywhere."""
    return Fragment(chance.choice(chance.choice((NUMBERS, STRINGS, CONTAINERS, OTHERS))))


def _list_of(entry: bytes) -> Callable[[int], bytes]:
    return lambda size: b"[%b]" % b",".join([entry] * max(1, (size - 2) // (len(entry) + 1)))


def _string_of(part: bytes) -> Callable[[int], bytes]:
    return lambda size: b'"%b"' % (part * max(1, (size - 2) // len(part)))


def _numbered(form: bytes, size: int) -> bytes:
    count = max(1, size // (len(form) + 4))
    return b",".join(form % number for number in range(count))


#: Values that are about as large as asked for, by what they are made of.
LARGE: dict[str, Callable[[int], bytes]] = {
    "empty lists": _list_of(b"[]"),
    "empty objects": _list_of(b"{}"),
    "nulls": _list_of(b"null"),
    "digits": _list_of(b"1"),
    "long integers": _list_of(b"1" * 40),
    "integers of 4000 digits": _list_of(b"1" * 4000),
    "fractions": _list_of(b"0.12345678901234567"),
    "empty strings": _list_of(b'""'),
    "short strings": _list_of(b'"abcdefgh"'),
    "objects": _list_of(b'{"id":1,"name":"Ada","tags":["a","b"],"amount":1.5}'),
    "objects in objects": _list_of(b'{"a":{"b":{"c":{"d":{}}}}}'),
    "lists 50 deep": _list_of(b"[" * 50 + b"]" * 50),
    "lists 99 deep": _list_of(b"[" * 96 + b"]" * 96),
    "one string": _string_of(b"x"),
    "one string of escapes": _string_of(b"\\u0041"),
    "one string of quotation marks": _string_of(b'\\"'),
    "one string of control characters": _string_of(b"\\u0001"),
    "one string of U+0000": _string_of(b"\\u0000"),
    "one string of emoji": _string_of(b"\xf0\x9f\x98\x80"),
    "one string of accents": _string_of(b"\xc3\xa9"),
    "one string of item ids": _string_of(b"0-0-0-0"),
    "one integer": lambda size: b"1" * size,
    "one fraction": lambda size: b"0." + b"1" * (size - 2),
    "spaces": lambda size: b" " * (size - 1) + b"1",
    "keys": lambda size: b"{%b}" % _numbered(b'"%d":1', size),
    "one key many times": lambda size: b"{%b}" % b",".join([b'"a":1'] * (size // 6)),
    "one long key": lambda size: b'{"%b":1}' % (b"k" * (size - 6)),
    "strings that differ": lambda size: b"[%b]" % _numbered(b'"s%d"', size),
    "item ids": lambda size: b"[%b]" % _numbered(b'"0-0-0-%d"', size),
    "pushed items": _list_of(b'{"item":1}'),
    "pushed items with ids": lambda size: b"[%b]" % _numbered(b'{"item":1,"dedup_id":"%d"}', size),
    "calls of a batch": _list_of(b'{"method":"Push","data":{"item":1}}'),
    "reading calls of a batch": _list_of(b'{"method":"Peek","data":{"count":100}}'),
    "unknown calls of a batch": _list_of(b'{"method":"x"}'),
    "state operations": _list_of(b'{"operation":"upsert","request":{"key":"k","value":1}}'),
    "half of a list": lambda size: b"[{}," * (size // 4),
    "half of an object": lambda size: b'{"a":' * (size // 5),
    "lists without end": lambda size: b"[" * size,
}
