{{ config(materialized='table', indexes=[{'columns': ['customer_id'], 'unique': true}, {'columns': ['total'], 'type': 'btree'}]) }}
select c.id as customer_id, c.name, sum(p.total) as total, count(*) as purchases,
    {{ dbt.datediff('min(p.bought)', 'max(p.bought)', 'day') }} as days,
    {{ dbt.date_trunc('month', 'max(p.bought)') }} as month,
    {{ dbt.listagg('cast(p.id as text)', "','", 'order by p.id') }} as ids
from {{ ref('customers') }} c join {{ ref('purchases') }} p on p.customer_id = c.id
group by c.id, c.name
