"""Renders the report: one self-contained HTML page, without scripts or network requests."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from holdfast.spark.report import orchestrations, overview, queues
from holdfast.spark.report.format import moment
from holdfast.spark.report.html import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.spark.pipeline.consistency import Check
    from holdfast.spark.pipeline.diff import Changes
    from holdfast.spark.pipeline.manifest import Manifest
    from holdfast.spark.statistics import Figures

_MARK = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="28" height="28" viewBox="0 0 32 32" aria-hidden="true">'
    '<rect width="32" height="32" rx="7" fill="#14532d"/>'
    '<path d="M9 7v18M23 7v18M9 16h14" stroke="#bbf7d0" stroke-width="4" stroke-linecap="round" fill="none"/></svg>'
)


def render(
    manifest: Manifest,
    figures: Figures,
    checks: Sequence[Check],
    changes: Changes | None,
    before: Sequence[Manifest],
) -> str:
    """Returns the page as HTML; ``before`` are the earlier snapshots of the series, oldest first."""
    as_of = manifest.as_of.timestamp()
    places = [("queues", "Queues"), ("orchestrations", "Orchestrations"), ("audit", "Audit")]
    if changes is not None:
        places.insert(0, ("changes", "What changed"))
    top = element(
        "header",
        element(
            "div",
            _MARK,
            element("span", "Holdfast", class_="brand"),
            element("nav", *(element("a", words, href=f"#{name}") for name, words in places)),
        ),
        class_="top",
    )
    main = element(
        "main",
        overview.headline(manifest),
        overview.verdict(manifest, checks),
        overview.tiles(figures, manifest, before),
        overview.what_changed(changes, manifest),
        queues.section(figures),
        orchestrations.section(figures, as_of),
        overview.audited(checks, manifest),
        overview.foot(manifest),
    )
    return f"<!doctype html>\n{_page(f'Holdfast at {moment(as_of)}', joined(top, main))}\n"


def _page(title: str, body: Markup) -> Markup:
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    # The policy allows this style and nothing else: no script, no frame, no request.
    digest = _base64(hashlib.sha256(style.encode()).digest())
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href=f"data:image/svg+xml;base64,{_base64(_MARK.encode())}"),
        element("title", title),
        element("style", Markup(style)),
    )
    return element("html", head, element("body", body), lang="en")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
