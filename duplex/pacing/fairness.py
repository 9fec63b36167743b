"""Fairness between tenants: weighted shares of a stage's services, work-conserving. Pure.

Start-time fair queueing: a tenant's next service starts at the later of the present virtual time and the end of its last
one; the tenant whose start is least is served. One that was idle gets no credit for it, and nobody waits while the stage is
free. Source: Goyal, Vin, Cheng, "Start-time Fair Queueing" (SIGCOMM 1996).
"""

from __future__ import annotations

from collections.abc import Mapping

_KEPT_MAX = 1024


class Shares:
    """The virtual clocks of one stage.

    Args:
        weights: by tenant; one that is not named has weight 1.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._virtual = 0.0
        self._finish: dict[str, float] = {}

    def start(self, tenant: str) -> float:
        """Return the virtual start of a tenant's next service; least is served first."""
        return max(self._virtual, self._finish.get(tenant, 0.0))

    def cost(self, tenant: str) -> float:
        """Return how far one service moves a tenant's clock."""
        return 1 / self._weights.get(tenant, 1.0)

    def charge(self, tenant: str) -> None:
        """Note a service."""
        start = self.start(tenant)
        self._virtual = start
        self._finish[tenant] = start + self.cost(tenant)
        if len(self._finish) > _KEPT_MAX:  # a finish in the past says no more than none
            self._finish = {name: finish for name, finish in self._finish.items() if finish > self._virtual}
