"""What is fuzzed: readers of texts that users, other programs or damaged disks give."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from click.testing import CliRunner

from dqsql.cli.main import cli
from dqsql.compiler.plan import compile_model
from dqsql.compiler.queries import compiled_queries
from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import DqsqlError
from dqsql.loading import load_project, parse_vars
from dqsql.loading.annotations import AnnotationProblem, parse_comment
from dqsql.loading.binding import bind_model
from dqsql.loading.dbt.rebuilds import read_last_build
from dqsql.loading.documents import read_document
from dqsql.loading.layout import LayoutProblem, read_layout
from dqsql.loading.models import known_names
from dqsql.loading.profiles import TargetRequest, load_target
from dqsql.loading.rendering import render_model
from dqsql.loading.scanner import blank, scan
from dqsql.loading.sources import read_sources
from dqsql.monitors.catalog import catalog_of
from dqsql.patterns.general import general_index
from dqsql.patterns.infer import infer_pattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.report.errors import print_error
from dqsql.report.terminal import Terminal
from dqsql.runner.request import read_retry
from dqsql.selection.methods import project_methods, select_models
from dqsql.selection.state import state_of
from dqsql.templating import MacroLibrary, base_context

ROOT = Path(__file__).parents[2]
DBT = ROOT / "tests" / "loading" / "dbt"
PROJECT = 'name: fuzz\nversion: "1.0"\nprofile: test\nvars: {a: 1}\nmodels: {+tags: [x]}\n'
PROFILES = (
    "test:\n  target: local\n  outputs:\n    local: {type: spark, method: session, schema: dq,"
    " threads: 2, spark_conf: {a.b: 1}, warehouse: w}\n    other: {type: spark, method: connect,"
    " host: h, port: 15002, token: \"{{ env_var('HOME') }}\"}\n"
)
MODEL = """\
{{ config(batch_by = 'day', segment_by = ['kind'], tags = ['ops']) }}
-- @row_count > 10
select
  day,
  kind, -- @not_null @accepted_values('a', 'b') {severity: warn}
  {% for c in ['p', 'q'] %}{{ c }}, -- @mean between -5 and 60 @max({{ c }}) > 0
  {% endfor %}
  cast(x as struct<a:int>) as y, /* @completeness >= 0.95 {where: "kind = 'a'", name: n} */
  `odd name`, -- @unique @drift < 0.2 @median < 5 {scope: cumulative, where: "p > 0"}
  r'raw' as r -- @pattern @avh(fpr => 0.001) @matches('^a+$')
from {{ source('raw', 't') }} where z = 'it''s' -- @unique(day, kind) @novelty
-- @expect(sum(p) / sum(q) between 5 and 9) @anomaly(row_count, holt_winters(period => 7))
"""
SELECT = """\
with a as (select x, y from t where x in (1, 2)), b (z) as (values (1), (2))
select distinct a.x as `odd name`, y::struct<p:int, q:array<int>>, /* a */ count(*) over (order by
x) n, -- @mean > 0
  case when y is distinct from 'it''s' then r'\\raw' end, * except (z) from a join b using (z)
union all select 1, 2, 3, 4, 5 from (select 1) lateral view explode(array(1)) e as f;
"""
SOURCES = (
    "version: 2\nsources:\n  - name: raw\n    schema: &s dq\n    tables:\n"
    "      - {name: t, path: data/t, format: parquet, options: {header: true}}\n"
    "      - name: u\n        identifier: *s\n        tags: [a, b]\n"
)
COMMENTS = (
    ' @not_null @mean > 0 {severity: warn, where: "a > 0"} @quantile(0.99) < 700',
    " prose, then @expect(sum(a) filter (where b) / count(*) >= 0.5) {name: x, tags: [a, 'b']}",
    " @todo @john: it's @max(a) is not null @schema('a int, b string')",
)
EXPRESSIONS = (
    "sum(a) / nullif(count(*), 0) >= 0.5 and not max(`odd name`) in (1, 2.5e3, 'it\\'s')",
    "case when a is null then 1 else b.c[0] end + cast(d as decimal(10,2)) - interval 1 day",
    "mean between -5 and 60 or percentile_approx(x, array(0.5), 100)[0] <=> date '2020-01-01'",
    "exists(transform(m, (k, v) -> k || v), e -> e like '%x' escape '/') filter (where z)",
)
PATTERNS = ("<digit>{4}-<digit>{2}", "ORD\\<<letter>+ (<num>)?", "<all>", "a\\+b<alphanum>{2,}")
VALUES = (
    "2024-01-31\n2024-02-01\n2023-12-24",
    "ORD-1\nORD-22\nord 3",
    "a@b.de\nc.d@e.org\n\n",
    "x",
)
ARGUMENTS = (
    "ls\n--select\ntag:ops,m+\n--output\njson",
    "compile\n--select\n1+m\n--vars\n{a: 2}\n--no-color",
    "run\n--batch\n2024-01-01\n--event-time-start\nx\n--threads\n0",
    "explain\nm\n--help",
    "review\naccept\nm\n--batch\nx\n--profiles-dir\nnowhere",
    "--version",
)
SELECTORS = ("tag:ops,path:checks m+ 2+@m", "state:modified+ result:fail", "*o*:x config.a.b:c")


class Refused(Exception):
    """The reader told what is wrong, as it should."""


@dataclass(frozen=True)
class FuzzTarget:
    """A reader: `read` returns, or raises DqsqlError or `Refused`. `cost` is about ms an input."""

    name: str
    seeds: Sequence[str]
    read: Callable[[str], object]
    cost: float = 1.0


@dataclass
class Workshop:
    """A folder for files, and a project that is loaded once."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dqsql-fuzz-")))

    @cached_property
    def root(self) -> Path:
        root = self.folder / "project"
        self._project(root)
        return root

    def _project(self, root: Path) -> None:
        files = {
            "dqsql_project.yml": PROJECT, "profiles.yml": PROFILES, "checks/sources.yml": SOURCES,
            "checks/m.sql": MODEL,
        }  # fmt: skip
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")

    @cached_property
    def project(self):  # type: ignore[no-untyped-def]
        return load_project(self.root)

    @cached_property
    def catalog(self):  # type: ignore[no-untyped-def]
        return catalog_of(self.project)

    @cached_property
    def library(self) -> MacroLibrary:
        functions = {"config": lambda *_, **__: "", "source": lambda *n: n[-1], "ref": lambda n: n}
        context = {**base_context({"a": 1}, self.project.target), **functions}
        return MacroLibrary(self.project.macros, context)

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return path

    # --- readers -------------------------------------------------------------------------------

    def scanner(self, text: str) -> None:
        found = scan(text)
        assert len(blank(text, found.segments)) == len(text)
        scan(text, jinja=False)

    def layout(self, text: str) -> None:
        try:
            read_layout(text)
        except LayoutProblem as problem:
            raise Refused(problem.message) from problem

    def expression(self, text: str) -> None:
        to_sql(parse_expression(text))

    def comment(self, text: str) -> None:
        for found in parse_comment(text, known_names(self.library)):
            if isinstance(found, AnnotationProblem):
                raise Refused(found.message)

    def yaml(self, text: str) -> None:
        document = read_document(self.file("s.yml", text), "s.yml", self.library.render)
        read_sources(document, self.folder)

    def variables(self, text: str) -> None:
        parse_vars(text)

    def jinja(self, text: str) -> None:
        self.library.render(text, "m.sql")

    def model(self, text: str) -> None:
        errors: list[DqsqlError] = []
        rendering = render_model(text, lambda t: self.library.render(t, "m.sql"))
        bound = bind_model(rendering, "m.sql", known_names(self.library), errors)
        if bound is not None:
            model = replace(
                self.project.models[0],
                raw_sql=text, sql=bound.sql, projections=bound.projections,
                annotations=bound.annotations, line_map=rendering.line_map,
            )  # fmt: skip
            plan = compile_model(model, self.project, self.catalog)
            errors += plan.rejected
            if not errors:
                compiled_queries(plan)
        terminal = Terminal(None)
        for error in errors:
            print_error(terminal, error, (self.root,))
        if errors:
            raise errors[0]

    def manifest(self, text: str) -> None:
        shop = self.folder / "shop"
        if not shop.exists():
            import shutil

            shutil.copytree(DBT / "project", shop)
        self.file("shop/target/manifest.json", text)
        load_project(shop, strict=False)

    def results(self, text: str) -> None:
        file = self.file("state/run_results.json", text)
        read_last_build(file)
        methods = state_of(self.project, file.parent).methods()
        select_models(self.project.models, ["result:fail"], methods=methods)
        read_retry(file)

    def own_manifest(self, text: str) -> None:
        file = self.file("state/manifest.json", text)
        methods = state_of(self.project, file.parent).methods()
        select_models(self.project.models, ["state:modified"], methods=methods)

    def profile(self, text: str) -> None:
        self.file("p/profiles.yml", text)
        request = TargetRequest(self.folder, "fuzz", profile="test", profiles_dir=self.folder / "p")
        load_target(request)

    def project_file(self, text: str) -> None:
        self._project(self.folder / "other")
        self.file("other/dqsql_project.yml", text)
        load_project(self.folder / "other", strict=False)

    def pattern(self, text: str) -> None:
        parse_pattern(text)

    def values(self, text: str) -> None:
        infer_pattern([v or None for v in text.split("\n")] * 3, general_index())

    def selector(self, text: str) -> None:
        methods = {**project_methods("fuzz"), **state_of(self.project, None).methods()}
        select_models(self.project.models, [text], methods=methods)

    def arguments(self, text: str) -> None:
        args = [a.replace("\x00", "") for a in text.split("\n")]
        if not {"--help", "-h"} & {*args} and args[0] not in ("ls", "compile"):
            # Commands that would start Spark are only asked what they understand.
            args.append("--help")
        kept = [a for a in args if not a.startswith(("--project-dir", "--state"))]
        result = CliRunner().invoke(cli, [*kept, *self._where(kept)], prog_name="dqsql")
        error = result.exception
        if error is not None and not isinstance(error, SystemExit):
            raise error
        if "defect" in result.output:
            raise AssertionError(result.output[-2000:])
        if result.exit_code:
            raise Refused(result.output[-200:])

    def _where(self, args: Sequence[str]) -> list[str]:
        return ["--project-dir", str(self.root)] if args and not args[0].startswith("-") else []


RESULTS = json.dumps(
    {
        "metadata": {"generated_at": "2025-01-01T00:00:00Z", "env": {"dqsql_version": "1"}},
        "results": [
            {
                "status": "fail", "unique_id": "model.a.m",
                "adapter_response": {"dqsql": {"model": "m", "failed_batches": ["2025-01-01"]}},
                "batch_results": {"successful": [["2025-01-01", "2025-01-02"]], "failed": []},
            }
        ],
        "args": {"select": ["m"], "vars": {"a": 1}, "full_refresh": False},
    }
)  # fmt: skip
MANIFEST = json.dumps(
    {
        "metadata": {"dqsql_schema_version": 1},
        "models": {"model.m": {"checksum": "x", "fingerprints": {}, "config": {"batch_by": "d"}}},
        "checks": {"m.a": {"model": "m", "expression": "not_null", "where": None}},
    }
)


@lru_cache(maxsize=1)
def small_manifest() -> str:
    """A dbt manifest of a few nodes."""
    data = json.loads((DBT / "manifest.json").read_text(encoding="utf-8"))
    kept = dict(list(data["nodes"].items())[:6])
    data = {**data, "nodes": kept, "macros": {}, "disabled": {}}
    return json.dumps(data)


def targets(shop: Workshop) -> Mapping[str, FuzzTarget]:
    """All targets by name."""
    some = [
        FuzzTarget("scanner", (MODEL, *COMMENTS, *EXPRESSIONS), shop.scanner, 0.1),
        FuzzTarget("layout", (SELECT, MODEL), shop.layout, 0.7),
        FuzzTarget("grammar", EXPRESSIONS, shop.expression, 1),
        FuzzTarget("comment", COMMENTS, shop.comment, 1),
        FuzzTarget("yaml", (SOURCES, PROJECT), shop.yaml, 2),
        FuzzTarget("vars", ("{a: 1, b: [x, {c: 2024-01-01}]}", SOURCES), shop.variables, 1),
        FuzzTarget(
            "jinja", (MODEL, "{{ var('a') }}{% set x = 'a' ~ 1 %}{{ x|upper }}"), shop.jinja, 3
        ),
        FuzzTarget("model", (MODEL,), shop.model, 40),
        FuzzTarget("manifest", (small_manifest(),), shop.manifest, 500),
        FuzzTarget("run_results", (RESULTS,), shop.results, 0.5),
        FuzzTarget("own manifest", (MANIFEST,), shop.own_manifest, 0.5),
        FuzzTarget("profiles", (PROFILES,), shop.profile, 3),
        FuzzTarget("project file", (PROJECT,), shop.project_file, 500),
        FuzzTarget("pattern", PATTERNS, shop.pattern, 0.1),
        FuzzTarget("values", VALUES, shop.values, 3),
        FuzzTarget("selectors", SELECTORS, shop.selector, 0.2),
        FuzzTarget("arguments", ARGUMENTS, shop.arguments, 300),
    ]
    return {t.name: t for t in some}
