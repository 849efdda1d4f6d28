"""Runs a random program on ordinary asyncio, and as an orchestration in several ways."""

from __future__ import annotations

from tests.properties.orchestrations.on_asyncio import outcome_on_asyncio
from tests.properties.orchestrations.on_engine import Way, World, well_formed
from tests.properties.orchestrations.programs import Author

#: Those of a row see the same at the same moments, and must make the same history.
_ON_TIME = (Way(), Way(restarts=1.0), Way(restarts=0.3, noise=0.5))
_LATE = (Way(lateness=1.0), Way(lateness=1.0, restarts=1.0), Way(lateness=1.0, restarts=0.3, noise=0.5))
# One program in so many gets all messages late, and may then have another outcome than on asyncio.
_LATE_EVERY = 4
# More deliveries than any program takes.
_NEVER = 1_000_000


def deploy(seed: int) -> int:
    """Runs a program whose patched code is deployed on the way. Returns the number of patches that were marked.

    Raises when the patched code does not fit what was saved before or after its deploy, or when a process that replays
    comes to something else than one that does not.
    """
    program = Author(seed).write()
    if not program.patches:
        return 0
    lateness = 1.0 if seed % _LATE_EVERY == 0 else 0.0
    alone = World(program, Way(lateness=lateness, deployed_after=_NEVER))
    alone.run()
    marked = 0
    for deployed_after in {1, 1 + seed % len(alone.saved), len(alone.saved)}:
        worlds = [
            World(program, Way(restarts=restarts, lateness=lateness, deployed_after=deployed_after))
            for restarts in (0.0, 0.5, 1.0)
        ]
        kept, *others = [world.run() for world in worlds]
        for other in others:
            assert other == kept
        world = worlds[0]
        patches = world.patches()
        assert len(set(patches)) == len(patches)
        marked = max(marked, len(patches))
        # The code as it is now replays what any process could have found.
        for count in world.saved:
            world.restored(count).close()
    return marked


def compare(seed: int) -> str:
    """Raises when two ways differ. Answers what the program came to on asyncio."""
    program = Author(seed).write()
    expected = outcome_on_asyncio(program)
    late = seed % _LATE_EVERY == 0
    kept, *others = [World(program, way).run() for way in (_LATE if late else _ON_TIME)]
    well_formed(kept.history)
    for other in others:
        assert other.history == kept.history
        assert other.effects == kept.effects
        assert other.outcome == kept.outcome
    assert late or kept.outcome == expected
    return "ended" if isinstance(expected, list) else str(expected)
