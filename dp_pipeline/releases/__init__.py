"""The protocol of releases: reserve, draw, store, settle; replay, evaluate and export them."""
