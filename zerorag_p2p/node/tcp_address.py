"""Multiaddrs of TCP ports, the only ones that the network dials and listens on."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError
from multiaddr.utils import get_network_addrs

from zerorag_p2p.config import MAX_ADDRESS_BYTES
from zerorag_p2p.errors import NetworkError


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port of a machine.

    Attributes:
        host: An IP address, or a name if `is_name`.
        port: 0 to 65535; 0 only to listen on a port that the kernel chooses.
        is_name: Whether `host` has to be looked up.
        peer: The peer id in the /p2p part, if there is one.
    """

    host: str
    port: int
    is_name: bool = False
    peer: str | None = None

    @classmethod
    def parse(cls, text: str) -> TcpAddress:
        """Read a multiaddr such as "/ip4/192.0.2.7/tcp/4001" or "/dns4/a.example/tcp/4001/p2p/...".

        Raises:
            NetworkError: It is malformed, or not the address of a TCP port.
        """
        try:
            if len(text) > MAX_ADDRESS_BYTES:
                raise ValueError("too long")
            parts = [(protocol.name, value or "") for protocol, value in Multiaddr(text).items()]
        except (MultiaddrError, ValueError):
            raise NetworkError(f"{text[:MAX_ADDRESS_BYTES]!r} is not a multiaddr") from None
        match parts:
            case [("ip4" | "ip6" as kind, host), ("tcp", port), *rest]:
                pass
            case [("dns" | "dns4" | "dns6" as kind, host), ("tcp", port), *rest]:
                pass
            case _:
                raise NetworkError(f"{text} is not the address of a TCP port")
        match rest:
            case []:
                peer = None
            case [("p2p", peer)]:
                pass
            case _:
                raise NetworkError(f"{text} goes beyond a TCP port, which is not supported")
        return cls(host, int(port), kind.startswith("dns"), peer)

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for every address of the machine: 0.0.0.0 or ::."""
        return not self.is_name and ipaddress.ip_address(self.host).is_unspecified

    def expand(self) -> tuple[TcpAddress, ...]:
        """The addresses that others can dial: of a wildcard, those of the network interfaces."""
        if not self.is_wildcard:
            return (self,)
        version = ipaddress.ip_address(self.host).version
        hosts = get_network_addrs(version) or ["127.0.0.1" if version == 4 else "::1"]
        return tuple(TcpAddress(host, self.port) for host in hosts)

    def __str__(self) -> str:
        kind = "dns" if self.is_name else f"ip{ipaddress.ip_address(self.host).version}"
        return f"/{kind}/{self.host}/tcp/{self.port}"
