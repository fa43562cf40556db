-- <<title>>
-- Suggested by dqsql from <<evidence>>.
-- Every line is a proposal: keep what should always hold, delete what is true only by chance.
<<config>>select
<<columns>>
from <<reads>>

<<checks>>
