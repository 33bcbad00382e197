CREATE SCHEMA shop;
CREATE TABLE shop.customers (
    id      INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    VARCHAR(60) NOT NULL,
    city    VARCHAR(40) NOT NULL,
    balance NUMERIC(12,2) NOT NULL DEFAULT 0,
    since   TIMESTAMPTZ NOT NULL DEFAULT now());
CREATE TABLE shop.products (
    id    INTEGER PRIMARY KEY,
    name  VARCHAR(60) NOT NULL UNIQUE,
    price NUMERIC(9,2) NOT NULL CHECK (price > 0));
CREATE TABLE shop.stock (
    product_id INTEGER PRIMARY KEY REFERENCES shop.products (id),
    quantity   INTEGER NOT NULL CHECK (quantity >= 0));
CREATE TABLE shop.orders (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES shop.customers (id),
    status      VARCHAR(10) NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'cancelled')),
    total       NUMERIC(12,2) NOT NULL DEFAULT 0,
    placed      TIMESTAMPTZ NOT NULL DEFAULT now());
CREATE TABLE shop.order_items (
    order_id   BIGINT NOT NULL REFERENCES shop.orders (id) ON DELETE CASCADE,
    line       INTEGER NOT NULL,
    product_id INTEGER NOT NULL REFERENCES shop.products (id),
    quantity   INTEGER NOT NULL CHECK (quantity > 0),
    price      NUMERIC(9,2) NOT NULL,
    PRIMARY KEY (order_id, line));
CREATE TABLE shop.payments (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id BIGINT NOT NULL UNIQUE REFERENCES shop.orders (id) ON DELETE CASCADE,
    amount   NUMERIC(12,2) NOT NULL CHECK (amount > 0),
    paid     TIMESTAMPTZ NOT NULL DEFAULT now());
CREATE INDEX orders_by_customer ON shop.orders (customer_id);
CREATE MATERIALIZED VIEW shop.sales AS
    SELECT p.name, SUM(i.quantity) AS sold, SUM(i.quantity * i.price) AS revenue
    FROM shop.order_items i JOIN shop.products p ON p.id = i.product_id GROUP BY p.name;
