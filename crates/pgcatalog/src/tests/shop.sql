CREATE ROLE ana LOGIN;
CREATE ROLE reporting NOLOGIN;
GRANT reporting TO ana;
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'where things are sold';
CREATE TABLE customer (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name character varying(40) NOT NULL,
  email text UNIQUE,
  code character(4),
  balance numeric(12,2) NOT NULL DEFAULT 0,
  since date,
  CONSTRAINT customer_balance_check CHECK (balance >= 0)
);
COMMENT ON TABLE customer IS 'who buys';
COMMENT ON COLUMN customer.email IS 'confirmed by mail';
CREATE SEQUENCE shop.order_no START 100;
CREATE TABLE shop.orders (
  id bigint NOT NULL DEFAULT nextval('shop.order_no'),
  line smallint NOT NULL,
  customer_id integer NOT NULL,
  placed timestamp with time zone NOT NULL,
  open boolean DEFAULT true,
  note text,
  CONSTRAINT orders_pkey PRIMARY KEY (id, line),
  CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customer(id) ON UPDATE CASCADE ON DELETE SET NULL
);
CREATE INDEX orders_by_customer ON shop.orders (customer_id, placed DESC);
CREATE VIEW rich AS SELECT id, name FROM customer WHERE balance > 1000;
COMMENT ON VIEW rich IS 'good customers';
GRANT SELECT, INSERT ON customer TO reporting;
GRANT SELECT ON customer TO PUBLIC;
GRANT SELECT ON rich TO ana WITH GRANT OPTION;
