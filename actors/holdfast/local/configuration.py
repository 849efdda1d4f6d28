"""Writes daprd's configuration for one machine, which maps app ids to addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# By default daprd finds other apps by multicast DNS, which many machines and containers do not forward, and which
# announces the app to the network. The only other resolver in every build of daprd is this one: it makes an address
# from an app id with a template, and the template can be a table.
_CONFIGURATION = """\
apiVersion: dapr.io/v1alpha1
kind: Configuration
metadata:
  name: holdfast-local
spec:
  # Actors may save values with a time to live on both hosts.
  features:
  - name: ActorStateTTL
    enabled: true
  nameResolution:
    component: kubernetes
    version: v1
    configuration:
      template: %s
"""


def write_configuration(file: Path, addresses: Mapping[str, str]) -> Path:
    """Writes a configuration that maps app ids to the addresses of their daprd's internal port.

    Calls to other apps fail at once. Actors need no entry: placement has their addresses.
    """
    cases = [f"if eq .ID {json.dumps(app_id)}}}}}{address}" for app_id, address in addresses.items()]
    template = "{{" + "{{else ".join(cases) + "{{end}}" if cases else ""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_CONFIGURATION % json.dumps(template))
    return file
