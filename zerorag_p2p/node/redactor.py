"""Loading the redaction engine that the settings name."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection

from zerorag_p2p.config import RedactionConfig
from zerorag_p2p.errors import ConfigError
from zerorag_p2p.redaction.builtin import BuiltinRedactor
from zerorag_p2p.redaction.redaction import Redaction
from zerorag_p2p.redaction.spans import Redactor

logger = logging.getLogger("zerorag.node")


def open_redaction(config: RedactionConfig) -> Redaction:
    """The redaction that the settings ask for.

    Raises:
        ConfigError: The engine cannot be loaded, or has no rule that a setting names.
    """
    return Redaction.from_config(config, _open_engine(config.engine))


def warn_of_unknown(redaction: Redaction, collections: Collection[str]) -> None:
    """Log the collections that the settings name and that are not among those that there are."""
    for name in redaction.named():
        if name not in collections:
            logger.warning("redaction: there is no collection %r yet; check its spelling", name)


def _open_engine(name: str) -> Redactor:
    if name == "builtin":
        return BuiltinRedactor()
    module, separator, function = name.partition(":")
    if not separator:
        raise ConfigError(
            f'setting \'redaction.engine\' has to be "builtin" or "module:function", got {name!r}'
        )
    try:
        engine: Redactor = getattr(importlib.import_module(module), function)()
        rules = engine.rules
    except Exception as error:  # foreign code: whatever is wrong with it, the node must not start
        raise ConfigError(
            f"the redaction engine {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if isinstance(rules, str) or not all(isinstance(rule, str) for rule in rules):
        raise ConfigError(f"the rules of the redaction engine {name!r} have to be a list of texts")
    return engine
