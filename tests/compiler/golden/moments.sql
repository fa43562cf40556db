select
    x,   -- @expect(skewness(x) < 1) @expect(kurtosis(x) < 1) @expect(var_pop(x) < 1) @expect(stddev_pop(x) < 1)
    y    -- @expect(corr(x, y) > 0.5) @expect(covar_pop(x, y) > 0) @expect(covar_samp(x, y) > 0)
from {{ source('shop', 'orders') }}
