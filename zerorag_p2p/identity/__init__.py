"""Who a peer is and what it says: keys, signatures, rosters, attribution. No input or output."""
