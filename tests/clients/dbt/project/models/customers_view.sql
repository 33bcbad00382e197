{{ config(materialized='view') }}
select id, name, since from {{ ref('customers') }} where name is not null
