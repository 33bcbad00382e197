{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id', on_schema_change='append_new_columns') }}
select id, customer_id, total, bought from {{ ref('purchases') }}
{% if is_incremental() %}
where bought > (select max(bought) from {{ this }}) or total = 7
{% endif %}
