"""What the server says of itself: its model, and its own measures before and after a run."""

from __future__ import annotations

from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from duplex.client_key import headers_of
from loadgen.live.call import CallFailed

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_QUANTILES = (0.5, 0.95, 0.99)

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Samples by name and labels."""


async def info(url: str, key: str | None = None) -> dict[str, Any]:
    """Return `/v1/duplex/info`, or what is known of a server that has none.

    Raises:
        CallFailed: it cannot be reached.
    """
    try:
        async with _client(key) as http, http.get(f"{url}/v1/duplex/info") as response:
            if response.status != 200:
                return {"model": {"name": "unknown", "test_double": None, "notice": None}, "version": None}
            told: dict[str, Any] = await response.json()
            return told
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise CallFailed(f"cannot reach {url}: {error or 'no answer in time'}") from error


async def measures(url: str, key: str | None = None) -> Series | None:
    """Return the samples of `/metrics`; None where there are none to be had."""
    try:
        async with _client(key) as http, http.get(f"{url}/metrics") as response:
            if response.status != 200:
                return None
            text = await response.text()
        families = list(text_string_to_metric_families(text))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def _client(key: str | None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers_of(key))


def growth(before: Series | None, after: Series | None) -> dict[str, Any]:
    """Return what the server measured between two looks: quantiles of histograms, growth of counters.

    Quantiles are interpolated within the histogram's buckets, as Prometheus does; beyond the last bound they are that bound.
    """
    if before is None or after is None:
        return {}
    result: dict[str, Any] = {}
    grown = {key: value - before.get(key, 0.0) for key, value in after.items() if key[0].startswith("duplex_")}
    for (name, labels), value in sorted(grown.items()):
        shown = ",".join(f"{key}={text}" for key, text in labels if key != "le")
        if name.endswith("_total") and value:
            result[_named(name, shown)] = round(value, 4)
        elif name.endswith("_count") and value:
            base = name.removesuffix("_count")
            buckets = sorted(
                (float(dict(of)["le"]), count)
                for (of_name, of), count in grown.items()
                if of_name == f"{base}_bucket" and tuple(pair for pair in of if pair[0] != "le") == labels
            )
            quantiles = {f"p{round(100 * q)}": round(_quantile(buckets, q), 5) for q in _QUANTILES}
            result[_named(base, shown)] = {"n": round(value), **quantiles}
    cpu = grown_cpu(before, after)
    return result | ({"process_cpu_seconds": cpu} if cpu is not None else {})


def grown_cpu(before: Series, after: Series) -> float | None:
    """Return the processor time the server took, or None where it does not say."""
    key = ("process_cpu_seconds_total", ())
    return round(after[key] - before[key], 3) if key in before and key in after else None


def _named(name: str, labels: str) -> str:
    return f"{name}{{{labels}}}" if labels else name


def _quantile(buckets: list[tuple[float, float]], share: float) -> float:
    wanted = share * buckets[-1][1]
    below_bound, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted and count > below:
            if bound == float("inf"):
                return below_bound
            return below_bound + (bound - below_bound) * (wanted - below) / (count - below)
        below_bound, below = bound, count
    return below_bound
