-- <<title>>
-- Suggested by dqsql from <<evidence>>.
-- Every line is a proposal: keep what is meant, delete what is chance.
select
<<columns>>
from <<reads>>

<<checks>>
