-- What sqlsmith asks about: every type of column, keys, references, a view, some rows.
CREATE SCHEMA shop;
CREATE TABLE shop.customers (
    id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name VARCHAR(40) NOT NULL,
    city CHAR(8),
    born DATE,
    created TIMESTAMPTZ DEFAULT now()
);
CREATE TABLE shop.products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    price NUMERIC(9,2) CHECK (price >= 0),
    weight REAL,
    picture BYTEA,
    code UUID
);
CREATE TABLE shop.orders (
    id BIGINT PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES shop.customers (id) ON DELETE CASCADE,
    placed TIMESTAMP NOT NULL,
    at TIME,
    took INTERVAL,
    paid BOOLEAN DEFAULT false
);
CREATE TABLE shop.items (
    order_id BIGINT NOT NULL REFERENCES shop.orders (id),
    number SMALLINT NOT NULL,
    product_id INTEGER REFERENCES shop.products (id),
    quantity INTEGER NOT NULL,
    discount DOUBLE PRECISION,
    PRIMARY KEY (order_id, number)
);
CREATE INDEX items_by_product ON shop.items (product_id, quantity);
CREATE VIEW shop.revenue AS
    SELECT p.name, sum(i.quantity * p.price) AS total, count(*) AS sold
    FROM shop.items i JOIN shop.products p ON p.id = i.product_id GROUP BY p.name;

INSERT INTO shop.customers (name, city, born)
    SELECT 'Customer ' || g.n, CASE WHEN g.n % 3 = 0 THEN NULL ELSE 'Lyon' END,
        DATE '1990-01-01' + CAST(g.n AS INTEGER)
    FROM generate_series(1, 50) AS g(n);
INSERT INTO shop.products
    SELECT g.n, 'tea no. ' || g.n, g.n * 1.25, g.n / 3.0, '\x00ff',
        '00112233-4455-6677-8899-aabbccddeeff'
    FROM generate_series(1, 30) AS g(n);
INSERT INTO shop.orders
    SELECT g.n, 1 + g.n % 50, TIMESTAMP '2024-02-29 12:00:00' + g.n * INTERVAL '1 hour',
        TIME '12:30:00', g.n * INTERVAL '1 day', g.n % 2 = 0
    FROM generate_series(1, 200) AS g(n);
INSERT INTO shop.items
    SELECT 1 + g.n / 3, g.n % 3, 1 + g.n % 30, g.n % 7, 0.1 * g.n
    FROM generate_series(0, 590) AS g(n);

-- Columns as TPC-H has them.
CREATE TABLE lineitem (
    l_orderkey BIGINT NOT NULL,
    l_linenumber INTEGER NOT NULL,
    l_quantity DECIMAL(15,2) NOT NULL,
    l_extendedprice DECIMAL(15,2) NOT NULL,
    l_returnflag CHAR(1) NOT NULL,
    l_shipdate DATE NOT NULL,
    l_comment VARCHAR(44) NOT NULL,
    PRIMARY KEY (l_orderkey, l_linenumber)
);
INSERT INTO lineitem
    SELECT g.n / 4, g.n % 4, g.n % 50, g.n * 3.75, 'N',
        DATE '1995-06-17' + CAST(g.n % 900 AS INTEGER), 'comment ' || g.n
    FROM generate_series(0, 1999) AS g(n);
