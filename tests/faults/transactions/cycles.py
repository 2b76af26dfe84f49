"""Cycles among transactions: who wrote before whom, and who read of whom (Adya's G0 and G1c)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

Graph = dict[str, set[str]]


def edges_of_writes(written: Iterable[list[str]]) -> Graph:
    """From the writer of each record to that of the next one in its partition.

    Args:
        written: of each partition, the transactions of its records, in the order of the log.
    """
    graph: Graph = defaultdict(set)
    for log in written:
        for one, following in pairwise(log):
            if one != following:
                graph[one].add(following)
    return graph


def edges_of_reads(read: Mapping[str, Iterable[str]]) -> Graph:
    """From a writer to who has read of it.

    Args:
        read: by transaction, whose records it has read.
    """
    graph: Graph = defaultdict(set)
    for reader, writers in read.items():
        for writer in writers:
            if writer != reader:
                graph[writer].add(reader)
    return graph


def cycles(graph: Graph, through: Graph | None = None) -> list[list[str]]:
    """The sets of nodes that reach each other, each sorted; of those that have an edge of `through`, if it is
    given.
    """
    found = [sorted(nodes) for nodes in _components(graph) if len(nodes) > 1]
    if through is None:
        return found
    return [nodes for nodes in found if any(through.get(one, set()) & set(nodes) for one in nodes)]


def united(one: Graph, other: Graph) -> Graph:
    return {node: one.get(node, set()) | other.get(node, set()) for node in one.keys() | other.keys()}


def _components(graph: Graph) -> Iterator[list[str]]:
    """Strongly connected components, by Tarjan's algorithm without recursion."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in sorted(graph):
        work = [] if root in index else [(root, iter(sorted(graph.get(root, ()))))]
        if work:
            _enter(root, index, lowest, path, on_path)
        while work:
            node, following = work[-1]
            entered = False
            for other in following:
                if other not in index:
                    _enter(other, index, lowest, path, on_path)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    entered = True
                    break
                if other in on_path:
                    lowest[node] = min(lowest[node], index[other])
            if entered:
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                lowest[parent] = min(lowest[parent], lowest[node])
            if lowest[node] == index[node]:
                yield _leave(node, path, on_path)


def _enter(
    node: str, index: dict[str, int], lowest: dict[str, int], path: list[str], on_path: set[str]
) -> None:
    index[node] = lowest[node] = len(index)
    path.append(node)
    on_path.add(node)


def _leave(node: str, path: list[str], on_path: set[str]) -> list[str]:
    found = [path.pop()]
    while found[-1] != node:
        found.append(path.pop())
    on_path.difference_update(found)
    return found
