"""Our figures beside the published ones."""

from __future__ import annotations

from dataclasses import dataclass

from zerorag_p2p.experiments.experiment import runs_by_variant, setting_of
from zerorag_p2p.experiments.published import Published, published_of
from zerorag_p2p.experiments.quantity import Estimate
from zerorag_p2p.workloads.results import Json


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of our figures and a published one.

    Attributes:
        variant: What was run.
        peers: With how many peers.
        ours: What came of it; None if a run has no such figure.
        published: What is published.
    """

    variant: str
    peers: int
    ours: Estimate | None
    published: Published

    @property
    def difference(self) -> float | None:
        """Ours less the published one; of a range, less what is nearest in it."""
        if self.ours is None:
            return None
        lowest, highest = self.published.value, self.published.highest
        nearest = max(lowest, min(self.ours.mean, lowest if highest is None else highest))
        return self.ours.mean - nearest

    def to_json(self) -> Json:
        """The comparison as JSON; shares are from 0 to 1."""
        ours = self.ours
        return {
            "variant": self.variant,
            "peers": self.peers,
            "figure": self.published.quantity.title,
            "ours": None if ours is None else ours.mean,
            "ours_deviation": None if ours is None else ours.deviation,
            "seeds": 0 if ours is None else ours.runs,
            "published": self.published.value,
            "published_highest": self.published.highest,
            "published_deviation": self.published.deviation,
            "difference": self.difference,
            "source": self.published.source,
        }


def compare(result: Json) -> list[Comparison]:
    """Every published figure of an experiment with what its result has for it.

    Args:
        result: Of the experiment, in the format of result files.
    """
    return [
        Comparison(variant, runs[0]["peers"], item.quantity.estimate(runs), item)
        for variant, runs in runs_by_variant(result).items()
        for item in published_of(result["name"], setting_of(variant))
    ]
