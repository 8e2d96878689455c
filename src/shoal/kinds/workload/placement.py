"""Placement of placement.shoal.dev: names. The CRD is in `crds/root`, its reading in placement/policy.py."""

from __future__ import annotations

GROUP = "placement.shoal.dev"
VERSION = "v1alpha1"
KIND = "Placement"
PLURAL = "placements"

VALID, SUPERSEDED = "Valid", "Superseded"
"""Conditions: it can be applied; some of its objects follow another Placement."""
