"""Who reads what dbt built: the nodes and exposures of the manifest."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from dqsql.loading.dbt.manifest import Manifest, Node
from dqsql.model.lineage import Reader


def readers_of(manifest: Manifest) -> tuple[Reader, ...]:
    """All nodes and exposures of a manifest, upstream first."""
    nodes = {**manifest.sources, **manifest.built}
    found = {uid: _reader(node) for uid, node in nodes.items()}
    found |= {uid: _exposure(node) for uid, node in manifest.exposures.items()}
    graph = {uid: [p for p in r.parents if p in found] for uid, r in found.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError:
        # Told where the models are loaded.
        return ()
    return tuple(found[uid] for uid in order)


def _reader(node: Node) -> Reader:
    sql = node.data.get("compiled_code")
    return Reader(
        unique_id=node.unique_id,
        name=node.name,
        kind=node.resource_type,
        parents=node.parents,
        relation=node.relation,
        sql=str(sql) if sql and str(node.data.get("language", "sql")) == "sql" else None,
    )


def _exposure(node: Node) -> Reader:
    name = str(node.data.get("label") or node.data["name"])
    return Reader(node.unique_id, name, "exposure", node.parents)
