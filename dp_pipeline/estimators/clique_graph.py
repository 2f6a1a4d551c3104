"""The graph of a released table's model, for networkx."""

from __future__ import annotations

from typing import Any

from dp_pipeline.release.synthetic_table import SyntheticTable


def clique_graph(table: SyntheticTable) -> Any:
    """An undirected graph: cliques with their ``cells``, edges with their ``separator``."""
    import networkx as nx

    graph = nx.Graph()
    for clique in table.cliques:
        graph.add_node(clique, cells=table.domain.cell_count(clique))
    for parent, child in table.links:
        first, second = table.cliques[parent], table.cliques[child]
        shared = tuple(name for name in second if name in first)
        graph.add_edge(first, second, separator=shared)
    return graph
