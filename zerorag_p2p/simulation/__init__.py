"""Peers without a network: a seeded queue of events drives them."""
