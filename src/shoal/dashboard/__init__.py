"""The dashboard at `/ui/`: static files for a browser, and one stream of all its watches.

`files` serves the bundle that is built from `web/`; `stream` joins many watches into one response, each requested with
the caller's own token. The dashboard has no permissions of its own.
"""

from shoal.dashboard.route import PATH_SEGMENT, Dashboard

__all__ = ["PATH_SEGMENT", "Dashboard"]
