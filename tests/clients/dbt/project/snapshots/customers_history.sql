{% snapshot customers_history %}
{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['name']) }}
select * from {{ ref('customers') }}
{% endsnapshot %}
