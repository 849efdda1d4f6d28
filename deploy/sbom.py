"""Writes the software bill of materials of the image, as CycloneDX 1.6 in JSON, from the lock file.

python deploy/sbom.py LOCK [BASE_IMAGE]     with a Python that has `packaging`; BASE_IMAGE is NAME:TAG@sha256:DIGEST

It has Holdfast, its Python packages, the JavaScript libraries of its page and the base image. The packages of the base
image's own system are in the bill of materials of that image.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}

Component = dict[str, Any]


def bill(lock: str, base_image: str = "") -> dict[str, Any]:
    """Returns the document; the same lock and image give the same one."""
    version = _holdfast_version()
    image = {"type": "container", "bom-ref": "image", "name": "holdfast", "version": version}
    holdfast = _package("pypi", "holdfast", version)
    packages, needed_by = _locked(lock)
    libraries = _libraries()
    base = _base(base_image) if base_image else []
    needs: dict[str, list[str]] = {}
    for package, parents in needed_by.items():
        for parent in parents:
            needs.setdefault(parent, []).append(packages[package]["bom-ref"])
    needs.setdefault("holdfast", []).extend(library["bom-ref"] for library in libraries)
    refs = {"holdfast": holdfast["bom-ref"]} | {name: package["bom-ref"] for name, package in packages.items()}
    content = {
        "metadata": {"component": image},
        "components": [holdfast, *packages.values(), *libraries, *base],
        "dependencies": [
            {"ref": "image", "dependsOn": [holdfast["bom-ref"], *(one["bom-ref"] for one in base)]},
            *({"ref": ref, "dependsOn": sorted(needs.get(name, []))} for name, ref in refs.items()),
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
    } | content


def _locked(lock: str) -> tuple[dict[str, Component], dict[str, list[str]]]:
    """Returns the packages that the lock installs on Linux, and of each the packages that need it."""
    packages, needed_by = {}, {}
    for entry in re.split(r"\n(?=\w)", lock):
        if entry.startswith("#"):
            continue
        pin = re.match(r"(?P<name>[\w.-]+)(?:\[.*?\])?==(?P<version>[\w.]+)(?: ; (?P<marker>[^\\\n]+))?", entry)
        if pin is None:
            raise ValueError(f"The lock file has an entry without a version: {entry.splitlines()[0]}")
        if pin["marker"] and not Marker(pin["marker"].strip()).evaluate({**_LINUX}):
            continue
        name = canonicalize_name(pin["name"])
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        packages[name] = _package("pypi", name, pin["version"]) | {
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": f"https://pypi.org/project/{name}/{pin['version']}/",
                    "hashes": [{"alg": "SHA-256", "content": one} for one in hashes],
                }
            ]
        }
        comments = entry.partition("# via")[2]
        needed_by[name] = re.findall(r"^ *#? *([\w.-]+)(?: \(.*\))?$", comments, re.MULTILINE)
    return packages, needed_by


def _libraries() -> list[Component]:
    """Returns the npm packages of the page, as the table beside their files names them."""
    table = (ROOT / "actors" / "holdfast" / "gateway" / "ui" / "vendor" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `[^|]+\| `([^`]+)` ([\d.]+),", table, re.MULTILINE)
    if not rows:
        raise ValueError("The README.md of the page's libraries names no packages.")
    return [_package("npm", name, version) for name, version in rows]


def _base(image: str) -> list[Component]:
    name, _, rest = image.partition(":")
    tag, _, digest = rest.partition("@")
    hashes = {"hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]} if digest else {}
    return [{"type": "container", "bom-ref": f"base:{image}", "name": name, "version": tag} | hashes]


def _package(kind: str, name: str, version: str) -> Component:
    url = f"pkg:{kind}/{name}@{version}"
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def _holdfast_version() -> str:
    text = (ROOT / "actors" / "holdfast" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("holdfast/__init__.py has no __version__.")
    return found[1]


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        sys.exit(__doc__)
    lock, *image = arguments
    document = bill(Path(lock).read_text("utf-8"), *image)
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
