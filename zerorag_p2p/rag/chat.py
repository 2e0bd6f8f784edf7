"""Chat completions as OpenAI defined them and many servers speak them: requests, answers, streams.

Without input or output: bytes come in as they arrive and text comes out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from zerorag_p2p.config import MAX_ANSWER_CHARS, MAX_COMPLETION_BYTES, MAX_EVENT_BYTES
from zerorag_p2p.errors import GenerationError
from zerorag_p2p.model_server.error_names import PLAIN_NAME, error_name
from zerorag_p2p.rag.prompt import Message

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")

#: Why a model ended that was done.
_DONE: Final = frozenset({"stop", "eos", "eos_token"})


def encode_request(model: str, messages: Sequence[Message], *, max_tokens: int) -> bytes:
    """The body of a request for a streamed answer, always the likeliest one."""
    body = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in messages],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    return json.dumps(body, ensure_ascii=False).encode()


class Completion:
    """An answer as it arrives, as a stream of server-sent events or as one JSON document.

    Args:
        streamed: Whether it comes as events.

    Attributes:
        finish: Why the model ended, once it told: "stop", "length", or another word.
    """

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._buffer = b""
        self._data: list[bytes] = []
        self._bytes = 0
        self._chars = 0
        self._ended = False
        self.finish: str | None = None

    def feed(self, data: bytes) -> str:
        """Take in bytes; the text that they bring.

        Raises:
            GenerationError: They are no part of an answer, or the answer is too long.
        """
        self._bytes += len(data)
        if self._bytes > MAX_COMPLETION_BYTES:
            raise GenerationError("the language model's endpoint does not stop sending")
        self._buffer += data
        if not self._streamed:
            return ""
        # A line's end of two characters may be cut in two: an empty line more does not matter.
        *lines, self._buffer = _LINE_END.split(self._buffer)
        if len(self._buffer) + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise GenerationError("the language model's endpoint sends an endless line")
        return "".join(self._take_line(line) for line in lines)

    def close(self) -> str:
        """The text that the end of the answer brings.

        Raises:
            GenerationError: The answer is no answer, was cut, or is longer than was asked for.
        """
        text = ""
        if self._streamed:
            text = self._take_line(self._buffer) + self._take_line(b"")
        else:
            text = self._take_in(self._buffer, "message")
        if self.finish is None and not (self._ended and self._chars):
            raise GenerationError("the language model's endpoint broke off")
        return text

    @property
    def empty(self) -> bool:
        """Whether the answer has no text."""
        return not self._chars

    @property
    def fault(self) -> str | None:
        """Why the answer is not whole although it ended in good order."""
        if self.finish is None or self.finish in _DONE:
            return None
        if self.finish == "length":
            return "the answer was cut at generation.max_tokens"
        named = self.finish if PLAIN_NAME.fullmatch(self.finish) else "another reason"
        return f"the language model ended its answer early ({named})"

    def _take_line(self, line: bytes) -> str:
        """Take in a line of an event stream (WHATWG HTML, 9.2.6); an empty one ends an event."""
        if self._ended:
            return ""
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            return ""
        if line or not self._data:
            return ""
        data, self._data = b"\n".join(self._data), []
        if data.strip() == b"[DONE]":
            self._ended = True
            return ""
        return self._take_in(data, "delta")

    def _take_in(self, data: bytes, part: str) -> str:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise GenerationError(
                "the language model's endpoint answered with something that is no JSON"
            ) from None
        if isinstance(value, dict) and value.get("error"):
            name = error_name(value)
            raise GenerationError(
                f"the language model's endpoint reports an error{f' ({name})' if name else ''}"
            )
        try:
            return self._text_of(value, part)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise GenerationError(
                "the language model's endpoint answered with something that is no chat completion"
            ) from None

    def _text_of(self, value: Any, part: str) -> str:
        if not value["choices"]:
            return ""  # usage figures come so
        choice = value["choices"][0]
        finish = choice.get("finish_reason")
        text = choice[part].get("content")
        if not isinstance(text, str | None) or not isinstance(finish, str | None):
            raise TypeError
        self.finish = finish or self.finish
        self._chars += len(text or "")
        if self._chars > MAX_ANSWER_CHARS:
            raise GenerationError("the language model's answer is too long for any reader")
        # JSON can name halves of characters, which no encoding writes.
        return (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
