"""`python -m zerorag_p2p` is `zerorag`."""

from zerorag_p2p.cli.main import main

main()
