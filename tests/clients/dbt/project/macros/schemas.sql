{% macro schemas() %}
    {% do adapter.get_relation(target.database, target.schema, 'totals') %}
    {% do adapter.get_columns_in_relation(ref('totals')) %}
    {% do log(names_of_tables(), info=false) %}
{% endmacro %}
{% macro names_of_tables() %}
    {% do return(run_query("select table_name from information_schema.tables where table_schema = '" ~ target.schema ~ "'").columns[0].values()) %}
{% endmacro %}
