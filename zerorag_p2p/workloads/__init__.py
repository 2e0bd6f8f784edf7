"""Who holds which documents and who asks what, for simulations, testnets and experiments."""
