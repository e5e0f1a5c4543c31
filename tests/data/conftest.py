from __future__ import annotations

from support.real_sets import real_set

__all__ = ["real_set"]
