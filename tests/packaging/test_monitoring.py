"""The dashboard and the alert rules ask for metrics and labels that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.support.checkout import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
#: Of prometheus_client on Linux, and of Prometheus itself. docs/metrics.md does not list them.
FOREIGN = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}
#: That Prometheus adds to what it scrapes.
SCRAPED = {"job", "instance"}


def documented() -> dict[str, set[str]]:
    """The labels of each series of docs/metrics.md, which tests/gateway/test_metrics.py compares with the server's."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "metrics.md").read_text("utf-8").splitlines():
        if row := re.match(r"\| `(holdfast_\w+)` \|([^|]*)\| (.*)", line):
            name, labels = row[1], set(re.findall(r"\w+", row[2]))
            if row[3].startswith("histogram"):
                found |= {f"{name}_count": labels, f"{name}_sum": labels, f"{name}_bucket": labels | {"le"}}
            else:
                found[name] = labels
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    shown = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))["panels"]
    return [panel for panel in shown if panel["type"] != "row"]


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [target["expr"] for panel in panels() for target in panel["targets"]]


def misnamed(expression: str) -> list[str]:
    """The metrics and labels of an expression that no server has."""
    known, wrong = documented(), []
    selected = re.findall(r"\b(holdfast_\w+|process_\w+|up)\b(?:\{([^}]*)\})?", expression)
    assert selected, f"no metric in {expression}"
    grouped = {label for by in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", by)}
    for name, matchers in selected:
        if name not in known.keys() | FOREIGN:
            wrong.append(name)
            continue
        used = grouped | set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", matchers))
        wrong += [f"{name}: {label}" for label in sorted(used - known.get(name, set()) - SCRAPED)]
    return wrong


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_exists(expression: str) -> None:
    assert misnamed(expression) == []
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(
    "expression",
    [
        "max by (queue) (holdfast_queue_depth)",
        "max by (queu) (holdfast_queues)",
        "rate(holdfast_processing_seconds[5m])",
        'holdfast_queue_depth_items{status="waiting"}',
    ],
)
def test_a_misspelt_name_is_found(expression: str) -> None:
    assert misnamed(expression)


def test_every_label_in_a_text_is_left_by_its_expression() -> None:
    for rule in rules():
        texts = " ".join(rule["annotations"].values())
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
        used = set(re.findall(r"\$labels\.(\w+)", texts))
        assert used <= (grouped or SCRAPED), rule["alert"]
    for panel in panels():
        for target in panel["targets"]:
            grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= (grouped or SCRAPED), panel["title"]


def test_alerts_are_distinct_and_say_what_to_do() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "action"}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    shown = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in shown}) == len(shown)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in shown)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
