"""`python -m warmroute` is the `warmroute` command."""

from __future__ import annotations

import sys

from warmroute.cli import main

sys.exit(main())
