CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad', 'it''s ok', 'Happy');
COMMENT ON TYPE shop.mood IS 'how it goes';
CREATE DOMAIN shop.positive AS INTEGER DEFAULT 3 CONSTRAINT above CHECK (VALUE > 0) CONSTRAINT below CHECK (VALUE < 100);
CREATE DOMAIN shop.good AS shop.mood NOT NULL CHECK (VALUE <> 'sad');
CREATE TABLE shop.poll (
    id INTEGER PRIMARY KEY, m shop.mood DEFAULT 'it''s ok', ms shop.mood[], p shop.positive, g shop.good DEFAULT 'Happy',
    CHECK (m <> 'Happy' OR p > 1));
CREATE TABLE shop.customer (
    id SERIAL PRIMARY KEY, name VARCHAR(30) NOT NULL DEFAULT 'nobody', born DATE,
    CONSTRAINT named CHECK (name <> ''));
CREATE TABLE shop.sale (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer INTEGER REFERENCES shop.customer ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    amount NUMERIC(9,2) UNIQUE, at TIMESTAMPTZ DEFAULT now(), ok BOOLEAN, raw BYTEA, key UUID, doc JSONB DEFAULT '{"a": 1}', note JSON,
    weight DOUBLE PRECISION, took INTERVAL, tags TEXT[] DEFAULT '{}', marks NUMERIC(5,2)[] NOT NULL DEFAULT ARRAY[1.5], CONSTRAINT once UNIQUE (customer, amount) DEFERRABLE);
CREATE TABLE "Odd ""name""" ("select" INTEGER, "B c" TEXT DEFAULT 'it''s', v CHAR(3), s SMALLINT, t TIME);
CREATE TABLE worker (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES worker ON UPDATE SET NULL);
CREATE INDEX by_name ON shop.customer (name DESC, id);
CREATE UNIQUE INDEX by_time ON shop.sale (customer, at NULLS FIRST);
CREATE UNIQUE INDEX by_lower ON "Odd ""name""" (lower("B c")) WHERE (s > 0);
CREATE TABLE shop.line (pieces INTEGER, price NUMERIC(9,2), total NUMERIC(12,2) GENERATED ALWAYS AS (pieces * price) STORED);
CREATE VIEW shop.big AS SELECT amount FROM shop.sale WHERE amount > 1;
CREATE VIEW a_view_of_a_view (much) AS SELECT * FROM shop.big;
CREATE SEQUENCE counter INCREMENT BY 2 START WITH 5;
CREATE SEQUENCE fresh MINVALUE -3 MAXVALUE 7 START WITH 1 CYCLE;
COMMENT ON SCHEMA shop IS 'where we sell';
COMMENT ON TABLE shop.sale IS 'what was sold';
COMMENT ON COLUMN shop.sale.amount IS 'it''s money';
COMMENT ON VIEW shop.big IS 'much';
COMMENT ON SEQUENCE counter IS 'odd numbers';
COMMENT ON INDEX shop.by_name IS 'the telephone book';
INSERT INTO shop.customer (name, born) VALUES ('a', '2020-01-01'), ('b', NULL), (E'tab\there\\ and\nthere', NULL);
INSERT INTO shop.sale (customer, amount, at, ok, raw, key, weight, took, note) VALUES
    (1, 1, '2024-02-29 12:00+00', true, '\x00ff', '00112233-4455-6677-8899-aabbccddeeff', 0.1, '1 day 02:00', '{"b" : [1 ]}'),
    (2, 2.5, '2024-03-01 12:00+00', NULL, NULL, NULL, 'NaN', NULL, NULL);
INSERT INTO "Odd ""name""" VALUES (1, DEFAULT, 'ab', 7, '23:59:58.5'), (2, NULL, NULL, NULL, NULL);
INSERT INTO shop.line VALUES (2, 3.50), (NULL, 1);
INSERT INTO shop.sale (customer, amount, at, tags, marks) VALUES (2, 7, NULL, '{"a \"b\"",NULL,"x,y",""}', '{}'), (2, 8, NULL, NULL, ARRAY[1, NULL]);
INSERT INTO worker VALUES (1, NULL), (2, 1);
SELECT nextval('counter'), nextval('counter');
INSERT INTO shop.poll (id, ms) VALUES (1, '{sad,NULL,"it''s ok"}'), (2, NULL);
INSERT INTO shop.poll VALUES (3, 'Happy', '{}', 2, 'it''s ok');
