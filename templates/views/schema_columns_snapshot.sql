-- Columns in the shape of elementary's table of this name, each in its current version.
select
    column_id as column_state_id,
    column_id as full_column_name,
    model as full_table_name,
    column_name,
    data_type,
    valid_from as detected_at
from dq_columns
where valid_to is null
