"""Model packs; found through the entry-point group `duplex.models`."""
