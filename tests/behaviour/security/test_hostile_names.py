"""Names made to reach another key, another path or another line of the log."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.behaviour.refusals import RefusalCheck
from tests.behaviour.stacks import on_every_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.rest import Server

#: As they stand in a path.
NAMES = [
    *("a||b", "a%7C%7Cb", "||", "holdfast||PushPopActor||a||metadata", "holdfast%7C%7CPushPopActor%7C%7Ca"),
    *("..", "%2e%2e", ".%2E", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..", "a%2Fb", "%2F", "a%5Cb", ".hidden", "%2ea"),
    *("%00", "a%00", "a%00b", "a%0Ab", "a%0D%0AX:%20b", "a%1B[2J", "a%7F", "a%09b", "a%20b", "a+b", "a%0a"),
    # Overlong, cut off, and not UTF-8; encoded twice; not encoded at all.
    *("%C0%AE%C0%AE", "%C0%AF", "%ff%fe", "%ED%A0%80", "a%252Fb", "%25%32%46", "a%", "a%2", "%zz", "%u002e"),
    # Look-alikes: letters, slashes, dots and bars that are none; joiners, marks, right to left.
    *(
        quote(name, safe="")
        for name in ("\u043erders", "\uff4frders", "a\uff0fb", "\u2024\u2024", "a\uff20b", "a\u2016b")
    ),
    *(
        quote(name, safe="")
        for name in ("a\u200bb", "a\u0301", "\u202eabc", "\ufeffa", "a\u2028b", "\u212a", "\u0131d")
    ),
    # Ours: partitions and tenants in the ids of actors.
    *("a@1", "@acme@a", "a%401", "%40acme%40a", "@"),
    *("a" * 256, "a" * 10_000, "a%00" * 300, "", "*", "~", "a;b", "a,b", "$(id)", "{{7*7}}", "'--", "%3Cscript%3E"),
]
#: Path parameters that name existing things, so that a strange value is only not found.
FOUND = ("id", "lock_id_prefix")
#: The id of a request, which may have any characters.
A_REQUEST = ("GET", "request")
#: Keys may hold any characters but these.
KEYS = ["%00", "a%00b", "%ff%fe", "%C0%AF", "%ED%A0%80", "a" * 1025]
_SAFE = re.compile(r"[\w\-.:@]+(\|\|[\w\-.:@]+){3}", re.ASCII)


async def workers_are_there(server: Server) -> None:
    """Until the server has set up the queues of its own activities, which it does after its start."""

    async def there() -> bool:
        keys = await server.stack.stored_keys()
        return all(any(key.endswith(f"||{queue}||config") for key in keys) for queue in ("activities", "deadly"))

    await eventually(there)


async def operations(server: Server) -> list[tuple[str, str]]:
    document = (await server.request("GET", "/openapi.json")).ok()
    return [(verb.upper(), path) for path, found in document["paths"].items() for verb in found if "{" in path]


@on_every_stack
async def test_no_name_reaches_what_it_should_not(server: Server) -> None:
    calls = await operations(server)
    assert len(calls) > 30
    await workers_are_there(server)
    async with RefusalCheck(server) as check:
        for verb, path in calls:
            for attacked in re.findall(r"{(\w+)}", path):
                for name in KEYS if attacked == "key" else NAMES:
                    if (attacked, name) == ("tenant", "~"):
                        continue  # the caller's own
                    url = re.sub(r"{(\w+)}", lambda part: name if part[1] == attacked else "x", path)  # noqa: B023
                    answer = await server.request(verb, url, b'{"item": 1, "owner": "x"}')
                    # An empty name leaves a path that is another one, or none.
                    if name and answer.status == 400:
                        check.refused(answer, (verb, url))
                    elif name in ("", "..", "%2e%2e") or attacked in FOUND or (verb, attacked) == A_REQUEST:
                        assert answer.status in (400, 404, 405), (verb, url, answer)
                    else:
                        check.refused(answer, (verb, url))


@on_every_stack
async def test_whatever_a_key_is_its_record_lies_where_it_should(server: Server) -> None:
    before = await server.stack.stored_keys()
    keys = ["a||b", "../..", "a/b", "a\nb", "\u202eabc", "' OR 1=1 --", "a" * 900, f"@acme@{server.name}"]
    for key in keys:
        path = f"/idempotency/default/{quote(f'{server.name}{key}', safe='')}/begin"
        (await server.request("POST", path, b"{}")).ok()
    new = await server.stack.stored_keys() - before
    assert len([key for key in new if "||IdempotencyActor||" in key]) >= len(keys)
    assert [key for key in new if not _SAFE.fullmatch(key)] == []


@on_every_stack
async def test_no_name_in_a_body_reaches_what_it_should_not(server: Server) -> None:
    strange: list[Any] = ["a||b", "../x", "a/b", "a\0b", "a\nb", "\u043erders", "@acme@a", "a@1", "", "a" * 256, ".a"]
    await workers_are_there(server)
    async with RefusalCheck(server) as check:
        for name in strange:
            for verb, path, body in (
                ("POST", "/orchestrations/echo/start", {"instance_id": name}),
                ("PUT", f"/queue/{server.name}/config", {"dead_letter_queue": name}),
            ):
                check.refused(await server.request(verb, path, json.dumps(body).encode()), (path, name))
