"""The paper's other candidates for novelty detection (Table 1), by the optional library PyOD.

Source: Redyuk et al., EDBT 2021, section 4; Zhao, Nasrullah & Li, "PyOD", JMLR 20 (2019).
"""

from __future__ import annotations

import importlib
import warnings

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.novelty_config import NoveltyConfig
from dqsql.errors import DecisionError

EXTRA = "novelty"
_CLASSES = {
    "lof": ("pyod.models.lof", "LOF"),
    "isolation_forest": ("pyod.models.iforest", "IForest"),
    "one_class_svm": ("pyod.models.ocsvm", "OCSVM"),
    "hbos": ("pyod.models.hbos", "HBOS"),
    "abod": ("pyod.models.abod", "ABOD"),
}
_SEED = 0


def outlier_scores(
    detector: str, points: FloatArray, queries: FloatArray, config: NoveltyConfig
) -> tuple[FloatArray, FloatArray]:
    """Return the outlier scores of the training batches and of the queries, larger is odder.

    Args:
        detector: lof, isolation_forest, one_class_svm, hbos or abod.
        points: K x F training batches, scaled to [0, 1].
        queries: Q x F batches to score, scaled likewise.
        config: settings; `k` counts for lof and abod.

    Raises:
        DecisionError: PyOD is not installed, or refuses the data.
    """
    module, name = _CLASSES[detector]
    try:
        # The import warns about other optional libraries.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise DecisionError(
            f"detector {detector!r} needs PyOD, which cannot be imported: {error}",
            hint=f"pip install 'dqsql[{EXTRA}]', or use detector => 'knn'",
        ) from error
    share = min(max(config.rate, 1e-3), 0.5)
    options: dict[str, object] = {"contamination": share}
    if detector in ("lof", "abod"):
        options["n_neighbors"] = min(config.k, len(points) - 1)
    if detector == "isolation_forest":
        options["random_state"] = _SEED
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Repeated points make some of them divide by zero; their scores are made finite below.
        warnings.simplefilter("ignore")
        model = kind(**options).fit(points)
        own, found = model.decision_scores_, model.decision_function(queries)
    largest = np.finfo(float).max
    return (
        np.nan_to_num(np.asarray(own, dtype=float), posinf=largest, neginf=-largest),
        np.nan_to_num(np.asarray(found, dtype=float), posinf=largest, neginf=-largest),
    )
