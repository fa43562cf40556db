"""One JVM serves dbt by Thrift and dqsql by Connect. Slow; needs dbt with `dbt-spark[PyHive]`.

See `test_with_dbt.py` for `DQSQL_TEST_DBT`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.servers import thrift_and_connect_server
from tests.loading.dbt.test_with_dbt import HERE, dbt, left_tests, results, run_dbt, run_dqsql

__all__ = ["dbt"]
pytestmark = pytest.mark.slow
PROFILE = """\
shop:
  target: server
  outputs:
    server:
      type: spark
      method: thrift
      host: 127.0.0.1
      port: {thrift}
      poll_interval: 1
      schema: analytics
      threads: 2
      dqsql: {{method: connect, url: "sc://127.0.0.1:{connect}"}}
"""


def test_dbt_by_thrift_and_dqsql_by_connect(dbt: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra dqsql[connect]")
    has = subprocess.run([str(dbt.parent / "python"), "-c", "import pyhive"], check=False)
    if has.returncode:
        pytest.skip("dbt has no PyHive: pip install 'dbt-spark[PyHive]'")
    root, home = tmp_path / "shop", tmp_path / "server"
    shutil.copytree(HERE / "project", root)
    home.mkdir()
    with thrift_and_connect_server(home) as (thrift, connect):
        profile = PROFILE.format(thrift=thrift, connect=connect)
        (root / "profiles.yml").write_text(profile, encoding="utf-8")
        for command in ("deps", "seed", "run"):
            done = run_dbt(dbt, root, command)
            assert done.returncode == 0, done.stdout[-3000:]
        assert run_dbt(dbt, root, "test").returncode == 1
        checked = run_dqsql(root, "run", "--dbt-tests")
        assert checked.returncode == 1, checked.stdout + checked.stderr
    theirs = results(root / "target" / "run_results.json")
    ours = results(root / "target" / "dqsql" / "run_results.json")
    adopted = {uid for uid in theirs if uid.startswith("test.")} - left_tests(root)
    assert len(adopted) > 40
    assert {uid: ours[uid]["status"] for uid in adopted} == {
        uid: theirs[uid]["status"] for uid in adopted
    }
