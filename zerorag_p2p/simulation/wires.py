"""What carries messages in a simulation: delay, loss, partitions."""

from __future__ import annotations

import random

from zerorag_p2p.simulation.participant import Participant
from zerorag_p2p.workloads.scenario import NetworkModel


class Wires:
    """Decides what becomes of messages."""

    def __init__(self, model: NetworkModel, seed: int) -> None:
        self._model = model
        self._randomness = random.Random(f"wires {seed}")

    def connect(self, first: Participant, second: Participant) -> bool:
        """Whether two peers are in the same part of the network."""
        return first.group == second.group

    def delay(self) -> float:
        """Seconds that a message takes."""
        model = self._model
        jitter = self._randomness.expovariate(1000 / model.jitter_ms) if model.jitter_ms else 0.0
        return model.latency_ms / 1000 + jitter

    def loses(self) -> bool:
        """Whether a message gets lost."""
        return self._model.loss > 0 and self._randomness.random() < self._model.loss

    def round_trip(self) -> float:
        """Seconds that a request and its reply take."""
        return self.delay() + self.delay()
