package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

func pgxChecks() []check {
	ctx := context.Background()
	var pool *pgxpool.Pool
	return []check{
		{"pgx: a pool", func() (err error) {
			if pool, err = pgxpool.New(ctx, address()+" pool_max_conns=4 application_name=checks"); err != nil {
				return err
			}
			if _, err = pool.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
				return err
			}
			return pool.Ping(ctx)
		}},
		{"pgx: values of every type", func() error {
			_, err := pool.Exec(ctx, `CREATE TABLE kinds (a SMALLINT, b INTEGER, c BIGINT, d REAL, e DOUBLE PRECISION,
				f NUMERIC(12,3), g TEXT, h VARCHAR(10), i BYTEA, j DATE, k TIME, l TIMESTAMP, m TIMESTAMPTZ, n INTERVAL,
				o UUID, p JSON, q JSONB, r TEXT[], s INTEGER[], t BOOLEAN, u NUMERIC(9,2)[], v TIMESTAMPTZ[], w UUID[])`)
			if err != nil {
				return err
			}
			moment := time.Date(2024, 2, 29, 12, 34, 56, 789000, time.UTC)
			price := pgtype.Numeric{}
			if err := price.Scan("-123456.789"); err != nil {
				return err
			}
			text := "x"
			id := [16]byte{0, 0x11, 0x22}
			_, err = pool.Exec(ctx, "INSERT INTO kinds VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23)",
				int16(-7), 42, int64(1)<<40, float32(1.5), -0.1, price, "grün €", "abc", []byte{0, 255}, moment,
				pgtype.Time{Microseconds: 1, Valid: true}, moment, moment, 3*time.Hour, id, map[string]any{"a": 1}, []int{1, 2},
				[]*string{&text, nil}, []int32{1, -3}, true, []pgtype.Numeric{price}, []time.Time{moment}, [][16]byte{id})
			if err != nil {
				return err
			}
			var (
				f pgtype.Numeric
				g string
				m time.Time
				n time.Duration
				o [16]byte
				q []int
				p json.RawMessage
				r []*string
				s []int32
				v []time.Time
			)
			err = pool.QueryRow(ctx, "SELECT f, g, m, n, o, p, q, r, s, v FROM kinds").Scan(&f, &g, &m, &n, &o, &p, &q, &r, &s, &v)
			if err != nil {
				return err
			}
			return same([]any{f, g, m.UTC(), n, o, string(p), q, *r[0], r[1] == nil, s, v[0].UTC()},
				[]any{price, "grün €", moment, 3 * time.Hour, id, `{"a":1}`, []int{1, 2}, "x", true, []int32{1, -3}, moment})
		}},
		{"pgx: every row as values", func() error {
			rows, err := pool.Query(ctx, "SELECT * FROM kinds")
			if err != nil {
				return err
			}
			maps, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				return err
			}
			return same(len(maps[0]), 23)
		}},
		{"pgx: rows into structures", func() error {
			type item struct {
				ID    int32
				Name  string
				Price *float64
			}
			rows, _ := pool.Query(ctx, "SELECT n AS id, 'item ' || n AS name, NULL::float8 AS price FROM generate_series(1, 3) AS s (n)")
			items, err := pgx.CollectRows(rows, pgx.RowToStructByName[item])
			if err != nil {
				return err
			}
			return same(items[2], item{3, "item 3", nil})
		}},
		{"pgx: named arguments and every query mode", func() error {
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
				var sum int
				err := pool.QueryRow(ctx, "SELECT @a::int + @b::int WHERE @c::text = 'x' AND 2 = ANY (@d::int[])", mode, pgx.NamedArgs{"a": 1, "b": 2, "c": "x", "d": []int32{1, 2}}).Scan(&sum)
				if err != nil {
					return fmt.Errorf("%v: %w", mode, err)
				}
				if err := same(sum, 3); err != nil {
					return err
				}
			}
			return nil
		}},
		{"pgx: CopyFrom", func() error {
			if _, err := pool.Exec(ctx, "CREATE TABLE copied (id INT, name TEXT, price NUMERIC(9,2), at TIMESTAMPTZ, tags TEXT[], doc JSONB, id2 UUID)"); err != nil {
				return err
			}
			number, err := pool.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"id", "name", "price", "at", "tags", "doc", "id2"},
				pgx.CopyFromSlice(1000, func(n int) ([]any, error) {
					return []any{n, fmt.Sprint("item ", n), 1.25, time.Now(), []string{"a", "b"}, map[string]int{"n": n}, [16]byte{byte(n)}}, nil
				}))
			if err != nil {
				return err
			}
			return same(number, int64(1000))
		}},
		{"pgx: CopyFrom of an enum", func() error {
			if _, err := pool.Exec(ctx, "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE felt (id INT, mood mood)"); err != nil {
				return err
			}
			if _, err := pool.Exec(ctx, "INSERT INTO felt VALUES ($1, $2)", 1, "sad"); err != nil {
				return err
			}
			if _, err := pool.CopyFrom(ctx, pgx.Identifier{"felt"}, []string{"id", "mood"}, pgx.CopyFromRows([][]any{{1, "glad"}})); err != nil {
				return err
			}
			connection, err := pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer connection.Release()
			kinds, err := connection.Conn().LoadTypes(ctx, []string{"mood", "_mood"})
			if err != nil {
				return err
			}
			connection.Conn().TypeMap().RegisterTypes(kinds)
			var moods []string
			if err := connection.QueryRow(ctx, "SELECT array_agg(mood ORDER BY mood) FROM felt WHERE mood = ANY ($1)", []string{"sad", "glad"}).Scan(&moods); err != nil {
				return err
			}
			return same(moods, []string{"sad", "glad"})
		}},
		{"pgx: a batch", func() error {
			batch := &pgx.Batch{}
			batch.Queue("CREATE TABLE batched (id SERIAL PRIMARY KEY, name TEXT)")
			results := pool.SendBatch(ctx, batch)
			if err := results.Close(); err != nil {
				return err
			}
			batch = &pgx.Batch{}
			for n := range 10 {
				batch.Queue("INSERT INTO batched (name) VALUES ($1) RETURNING id", fmt.Sprint(n))
			}
			var last int
			batch.Queue("SELECT max(id) FROM batched").QueryRow(func(row pgx.Row) error { return row.Scan(&last) })
			if err := pool.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			return same(last, 10)
		}},
		{"pgx: transactions and savepoints", func() error {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite, DeferrableMode: pgx.NotDeferrable}, func(tx pgx.Tx) error {
				err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
					_, err := inner.Exec(ctx, "SELECT 1 / 0")
					return err
				})
				var failure *pgconn.PgError
				if !errors.As(err, &failure) || failure.Code != "22012" {
					return fmt.Errorf("expected 22012, got %w", err)
				}
				_, err = tx.Exec(ctx, "INSERT INTO batched (name) VALUES ('kept')")
				return err
			})
		}},
		{"pgx: LISTEN and NOTIFY", func() error {
			connection, err := pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer connection.Release()
			if _, err := connection.Exec(ctx, "LISTEN news"); err != nil {
				return err
			}
			if _, err := pool.Exec(ctx, "SELECT pg_notify('news', $1)", "hello"); err != nil {
				return err
			}
			wait, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			heard, err := connection.Conn().WaitForNotification(wait)
			if err != nil {
				return err
			}
			return same(heard.Payload, "hello")
		}},
		{"pgx: a context's end cancels", func() error {
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			if _, err := pool.Exec(short, "SELECT pg_sleep(10)"); err == nil {
				return errors.New("was not cancelled")
			}
			return pool.Ping(ctx)
		}},
		{"pgx: addresses, ranges and composite values", func() error {
			var address netip.Addr
			if err := pool.QueryRow(ctx, "SELECT '10.1.2.3'::inet").Scan(&address); err != nil {
				return err
			}
			var span pgtype.Range[pgtype.Int4]
			return pool.QueryRow(ctx, "SELECT int4range(1, 5)").Scan(&span)
		}},
		{"pgx: upserts, arrays in unnest, JSON paths", func() error {
			for _, text := range []string{
				"CREATE TABLE stock (id INT PRIMARY KEY, n INT NOT NULL, doc JSONB NOT NULL DEFAULT '{}')",
				"INSERT INTO stock (id, n) SELECT * FROM unnest($1::int[], $2::int[]) ON CONFLICT (id) DO UPDATE SET n = stock.n + excluded.n",
				"UPDATE stock AS s SET n = v.n FROM unnest($1::int[], $2::int[]) AS v (id, n) WHERE s.id = v.id",
				"DELETE FROM stock USING unnest($1::int[], $2::int[]) AS v (id, n) WHERE stock.id = v.id AND v.n < 0",
			} {
				arguments := []any{[]int32{1, 2}, []int32{10, 20}}
				if text[0] == 'C' {
					arguments = nil
				}
				if _, err := pool.Exec(ctx, text, arguments...); err != nil {
					return fmt.Errorf("%w [%s]", err, text)
				}
			}
			_, err := pool.Exec(ctx, "UPDATE stock SET doc = jsonb_set(doc, '{a}', to_jsonb($1::int)) || jsonb_build_object('b', $2::text) WHERE doc ->> 'a' IS NULL", 1, "x")
			return err
		}},
	}
}
