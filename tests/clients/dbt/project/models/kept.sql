{{ config(materialized='materialized_view') }}
select customer_id, sum(total) as total from {{ ref('purchases') }} group by customer_id
