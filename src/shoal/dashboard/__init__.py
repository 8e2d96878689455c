"""The dashboard at `/ui/`: files for a browser, and one stream of all it looks at.

`files` serves the bundle that is built from `web/`; `stream` joins many watches into one answer, each asked with the
caller's own token. Nothing here has rights of its own.
"""

from shoal.dashboard.route import SEGMENT, Dashboard

__all__ = ["SEGMENT", "Dashboard"]
