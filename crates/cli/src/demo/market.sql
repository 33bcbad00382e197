CREATE SCHEMA market;
CREATE TABLE market.instruments (
    symbol TEXT PRIMARY KEY,
    name   TEXT NOT NULL,
    opened NUMERIC(10,2) NOT NULL);
CREATE TABLE market.traders (
    id     INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE,
    credit NUMERIC(14,2) NOT NULL CHECK (credit >= 0));
CREATE TABLE market.orders (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    symbol TEXT NOT NULL REFERENCES market.instruments,
    trader INTEGER NOT NULL REFERENCES market.traders,
    side   TEXT NOT NULL CHECK (side IN ('bid', 'ask')),
    price  NUMERIC(10,2) NOT NULL CHECK (price > 0),
    volume INTEGER NOT NULL CHECK (volume > 0),
    at     TIMESTAMPTZ NOT NULL DEFAULT now());
CREATE INDEX orders_by_price ON market.orders (symbol, side, price, id);
CREATE TABLE market.trades (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    symbol TEXT NOT NULL REFERENCES market.instruments,
    buyer  INTEGER NOT NULL REFERENCES market.traders,
    seller INTEGER NOT NULL REFERENCES market.traders,
    price  NUMERIC(10,2) NOT NULL,
    volume INTEGER NOT NULL CHECK (volume > 0),
    at     TIMESTAMPTZ NOT NULL DEFAULT now());

-- The best prices, and what is offered in all.
CREATE MATERIALIZED VIEW market.book AS
    SELECT symbol,
           MAX(price) FILTER (WHERE side = 'bid') AS bid,
           MIN(price) FILTER (WHERE side = 'ask') AS ask,
           SUM(volume) FILTER (WHERE side = 'bid') AS bid_volume,
           SUM(volume) FILTER (WHERE side = 'ask') AS ask_volume,
           COUNT(*) AS orders
    FROM market.orders GROUP BY symbol;
CREATE INDEX book_by_symbol ON market.book (symbol);
-- The trades that are kept.
CREATE MATERIALIZED VIEW market.ticker AS
    SELECT symbol, COUNT(*) AS trades, SUM(volume) AS volume, MIN(price) AS low, MAX(price) AS high,
           SUM(price * volume) AS turnover
    FROM market.trades GROUP BY symbol;
-- DBToaster's query VWAP, for each instrument: bids above which less than a quarter of the volume is bid for.
CREATE MATERIALIZED VIEW market.vwap AS
    SELECT b.symbol, SUM(b.price * b.volume) AS turnover, SUM(b.volume) AS volume
    FROM market.orders b
    WHERE b.side = 'bid'
      AND 0.25 * (SELECT SUM(c.volume) FROM market.orders c WHERE c.side = 'bid' AND c.symbol = b.symbol)
        > (SELECT COALESCE(SUM(d.volume), 0) FROM market.orders d
           WHERE d.side = 'bid' AND d.symbol = b.symbol AND d.price > b.price)
    GROUP BY b.symbol;
-- Who holds how much of what.
CREATE MATERIALIZED VIEW market.positions AS
    SELECT name, symbol, SUM(volume) AS volume
    FROM (SELECT buyer AS trader, symbol, volume FROM market.trades
          UNION ALL
          SELECT seller, symbol, -volume FROM market.trades) moved
    JOIN market.traders ON id = trader
    GROUP BY name, symbol;
-- Nobody buys for more than their credit: a statement after which somebody would have done so fails.
CREATE MATERIALIZED VIEW market.spending AS
    SELECT name, credit, SUM(price * volume) AS bought
    FROM market.trades JOIN market.traders ON market.traders.id = buyer
    GROUP BY name, credit;
CREATE ASSERTION within_credit CHECK (NOT EXISTS (SELECT 1 FROM market.spending WHERE bought > credit));
