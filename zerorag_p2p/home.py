"""The folder that holds everything of one node, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from zerorag_p2p.config import EmbeddingConfig, NodeConfig
from zerorag_p2p.errors import ConfigError, LocalError
from zerorag_p2p.files import read_bounded
from zerorag_p2p.model_change import read_model_change

_MAX_CONFIG_BYTES = 1 << 20

#: The longest path of a Unix socket that Linux accepts (sockaddr_un, less the final zero byte).
_MAX_SOCKET_PATH = 107


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside a node's home folder."""

    root: Path

    @classmethod
    def resolve(cls, option: str | None, environment: Mapping[str, str]) -> Home:
        """The home a command works on: `--home`, else ZERORAG_HOME, else the XDG data folder."""
        chosen = option or environment.get("ZERORAG_HOME")
        root = Path(chosen) if chosen else Path(platformdirs.user_data_dir("zerorag", False))
        return cls(root.expanduser().absolute())

    @property
    def config(self) -> Path:
        """Settings, in TOML."""
        return self.root / "config.toml"

    @property
    def key(self) -> Path:
        """The private key, readable by its owner only."""
        return self.root / "identity.key"

    @property
    def next_key(self) -> Path:
        """The key that is to take the place of the private key, while that is under way."""
        return self.root / "identity.next.key"

    @property
    def previous_key(self) -> Path:
        """The key that the private key took the place of last."""
        return self.root / "identity.previous.key"

    @property
    def pause(self) -> Path:
        """Why the node answers nobody, while it is paused."""
        return self.root / "pause.json"

    @property
    def authority_key(self) -> Path:
        """The key that signs rosters, where this home founded a consortium."""
        return self.root / "authority.key"

    @property
    def roster(self) -> Path:
        """The signed roster of the consortium."""
        return self.root / "roster.cbor"

    @property
    def lock(self) -> Path:
        """Locked while a node or a command changes the home."""
        return self.root / "node.lock"

    @property
    def library(self) -> Path:
        """Folder of the document library."""
        return self.root / "library"

    @property
    def state(self) -> Path:
        """Routing state: neighbours, advertisements, query memory, records of peers."""
        return self.root / "state.cbor"

    @property
    def model_change(self) -> Path:
        """Which embedding model this home went over to, or goes over to."""
        return self.root / "model.json"

    @property
    def withdrawals(self) -> Path:
        """What owners took back, we among them."""
        return self.root / "withdrawals.cbor"

    @property
    def tokens(self) -> Path:
        """Tokens of applications, as hashes, readable by its owner only."""
        return self.root / "tokens.json"

    @property
    def user_key(self) -> Path:
        """The secret that turns users of applications into pseudonyms."""
        return self.root / "users.key"

    @property
    def audit(self) -> Path:
        """Folder of the audit log."""
        return self.root / "audit"

    @property
    def audit_key(self) -> Path:
        """The secret by which the audit log hashes questions."""
        return self.root / "audit.key"

    @property
    def policy(self) -> Path:
        """The owner's rules, in TOML."""
        return self.root / "policy.toml"

    @property
    def emergencies(self) -> Path:
        """Since when each member has used emergency access."""
        return self.root / "emergencies.cbor"

    @property
    def pseudonym_key(self) -> Path:
        """The secret that pseudonyms of questions are made with."""
        return self.root / "pseudonym.key"

    @property
    def socket(self) -> Path:
        """The Unix socket of the local interface.

        Raises:
            ConfigError: The path is too long for a socket.
        """
        path = self.root / "node.sock"
        if len(bytes(path)) > _MAX_SOCKET_PATH:
            raise ConfigError(
                f"{path} is longer than {_MAX_SOCKET_PATH} bytes, too long for a socket; "
                "choose a home with a shorter path"
            )
        return path

    def require(self) -> None:
        """Check that the home was set up.

        Raises:
            LocalError: There is no key in it.
        """
        if not self.key.exists():
            raise LocalError(f"{self.root} is not a node's home yet; run `zerorag init` first")

    def embedding(self, config: NodeConfig) -> EmbeddingConfig:
        """The settings of the embedding model in use: the configured one, or one gone over to.

        Raises:
            LocalError: The file that tells is damaged.
        """
        change = read_model_change(self.model_change)
        known = change is not None and change.configured == config.embedding
        return change.used if change is not None and known else config.embedding

    def load_config(self) -> NodeConfig:
        """Read the settings; defaults where there is no file.

        Raises:
            ConfigError: The file is malformed.
        """
        if not self.config.exists():
            return NodeConfig()
        data = read_bounded(self.config, _MAX_CONFIG_BYTES)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise ConfigError(f"{self.config} is not UTF-8 text") from None
        return NodeConfig.from_toml(text)


@dataclass(frozen=True, slots=True)
class TestnetFolder:
    """Paths inside the folder of a running testnet: its socket, and a home for every node.

    A node's home holds no more than its key and the socket of its local interface.
    """

    __test__ = False  # pytest takes a class of this name for tests

    root: Path

    @classmethod
    def resolve(cls, option: str | None, environment: Mapping[str, str]) -> TestnetFolder:
        """The folder a command works on: its option, ZERORAG_TESTNET, or a runtime folder."""
        chosen = option or environment.get("ZERORAG_TESTNET")
        root = Path(chosen) if chosen else Path(platformdirs.user_runtime_dir("zerorag-testnet"))
        return cls(root.expanduser().absolute())

    @property
    def socket(self) -> Path:
        """The Unix socket through which the testnet is looked at and broken.

        Raises:
            ConfigError: The path is too long for a socket.
        """
        return Home(self.root).socket

    def node(self, name: str) -> Home:
        """The home of one node."""
        return Home(self.root / name)
