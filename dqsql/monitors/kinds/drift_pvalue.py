"""`@drift_pvalue(column, ks) > 0.01`: how likely so much drift is where there is none."""

from dqsql.monitors.kinds.drift import drift_kind
from dqsql.monitors.kinds.drift.call import P_VALUE

KIND = drift_kind(P_VALUE)
