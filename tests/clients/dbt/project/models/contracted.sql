{{ config(materialized='table') }}
select id, name, {{ dbt.safe_cast("rating", api.Column.translate_type("numeric")) }} as rating from {{ ref('customers') }}
