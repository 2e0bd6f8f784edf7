import pytest

from zerorag_p2p.errors import NetworkError
from zerorag_p2p.node.tcp_address import TcpAddress

PEER = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/ip4/192.0.2.7/tcp/4001", TcpAddress("192.0.2.7", 4001)),
        ("/ip6/2001:db8::1/tcp/0", TcpAddress("2001:db8::1", 0)),
        ("/dns4/a.example/tcp/65535", TcpAddress("a.example", 65535, is_name=True)),
        (f"/ip4/192.0.2.7/tcp/1/p2p/{PEER}", TcpAddress("192.0.2.7", 1, peer=PEER)),
    ],
)
def test_reads_tcp_addresses(text: str, address: TcpAddress) -> None:
    assert TcpAddress.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.7:4001",
        "/ip4/192.0.2.7",
        "/ip4/192.0.2/tcp/1",
        "/ip4/192.0.2.7/tcp/65536",
        "/ip4/192.0.2.7/tcp/-1",
        "/ip4/192.0.2.7/udp/4001/quic-v1",
        "/ip4/192.0.2.7/tcp/4001/ws",
        "/ip4/192.0.2.7/tcp/4001/p2p/nobody",
        f"/ip4/192.0.2.7/tcp/1/p2p/{PEER}/p2p-circuit",
        "/tcp/4001",
        "/memory/1",
        "/dns4/" + "a" * 300 + "/tcp/1",
        "/ip4/192.0.2.7/tcp/4001\x00",
    ],
)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(NetworkError):
        TcpAddress.parse(text)


@pytest.mark.parametrize("wildcard", ["/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001"])
def test_wildcard_expands_to_addresses_of_its_family(wildcard: str) -> None:
    address = TcpAddress.parse(wildcard)
    assert address.is_wildcard
    expanded = address.expand()
    assert expanded
    for item in expanded:
        assert not item.is_wildcard
        assert str(item).startswith(wildcard[:5])
        assert item.port == 4001
        assert TcpAddress.parse(str(item)) == item


def test_other_addresses_stand_for_themselves() -> None:
    address = TcpAddress.parse("/dns4/a.example/tcp/1")
    assert not address.is_wildcard
    assert address.expand() == (address,)
    assert TcpAddress.parse(str(address)) == address
