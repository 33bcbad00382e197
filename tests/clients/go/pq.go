package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
)

func pqChecks() []check {
	ctx := context.Background()
	var db *sql.DB
	return []check{
		{"lib/pq: a connection", func() (err error) {
			if db, err = sql.Open("postgres", address()+" binary_parameters=no connect_timeout=5"); err != nil {
				return err
			}
			return db.Ping()
		}},
		{"lib/pq: values", func() error {
			if _, err := db.Exec("CREATE TABLE pq_kinds (id SERIAL PRIMARY KEY, a TEXT, b NUMERIC(9,2), c TIMESTAMPTZ, d BYTEA, e TEXT[], f BIGINT[], g JSONB, h BOOLEAN, i DATE)"); err != nil {
				return err
			}
			moment := time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC)
			var id int
			if err := db.QueryRow("INSERT INTO pq_kinds (a, b, c, d, e, f, g, h, i) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id",
				sql.NullString{}, 1.25, moment, []byte{0, 255}, pq.Array([]string{"x", `y "z"`}), pq.Array([]int64{1, 2}), `{"a": 1}`, true, moment).Scan(&id); err != nil {
				return err
			}
			var (
				a sql.NullString
				b string
				c time.Time
				d []byte
				e []string
				f []int64
			)
			if err := db.QueryRow("SELECT a, b, c, d, e, f FROM pq_kinds WHERE id = ANY ($1)", pq.Array([]int{id})).Scan(&a, &b, &c, &d, pq.Array(&e), pq.Array(&f)); err != nil {
				return err
			}
			return same([]any{a.Valid, b, c.UTC(), d, e, f}, []any{false, "1.25", moment, []byte{0, 255}, []string{"x", `y "z"`}, []int64{1, 2}})
		}},
		{"lib/pq: types of columns", func() error {
			rows, err := db.Query("SELECT * FROM pq_kinds")
			if err != nil {
				return err
			}
			defer rows.Close()
			kinds, err := rows.ColumnTypes()
			if err != nil {
				return err
			}
			precision, scale, _ := kinds[2].DecimalSize()
			return same([]any{kinds[1].DatabaseTypeName(), kinds[2].DatabaseTypeName(), precision, scale}, []any{"TEXT", "NUMERIC", int64(9), int64(2)})
		}},
		{"lib/pq: prepared statements", func() error {
			statement, err := db.Prepare("SELECT $1::int + 1")
			if err != nil {
				return err
			}
			defer statement.Close()
			for n := range 10 {
				var sum int
				if err := statement.QueryRow(n).Scan(&sum); err != nil {
					return err
				}
				if err := same(sum, n+1); err != nil {
					return err
				}
			}
			return nil
		}},
		{"lib/pq: COPY", func() error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.Exec("CREATE TABLE pq_copied (id INT, name TEXT)"); err != nil {
				return err
			}
			statement, err := tx.Prepare(pq.CopyIn("pq_copied", "id", "name"))
			if err != nil {
				return err
			}
			for n := range 100 {
				if _, err := statement.Exec(n, fmt.Sprint("item\t", n)); err != nil {
					return err
				}
			}
			if _, err := statement.Exec(); err != nil {
				return err
			}
			if err := statement.Close(); err != nil {
				return err
			}
			return tx.Commit()
		}},
		{"lib/pq: isolation and read-only", func() error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			_, err = tx.Exec("CREATE TABLE never (a INT)")
			var failure *pq.Error
			if !errors.As(err, &failure) || failure.Code != "25006" {
				return fmt.Errorf("expected 25006, got %v", err)
			}
			return nil
		}},
		{"lib/pq: notifications", func() error {
			listener := pq.NewListener(address(), time.Second, time.Second, nil)
			defer listener.Close()
			if err := listener.Listen("pq_news"); err != nil {
				return err
			}
			if _, err := db.Exec("NOTIFY pq_news, 'hello'"); err != nil {
				return err
			}
			select {
			case heard := <-listener.Notify:
				return same(heard.Extra, "hello")
			case <-time.After(5 * time.Second):
				return errors.New("nothing was heard")
			}
		}},
		{"lib/pq: a context's end cancels", func() error {
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			if _, err := db.ExecContext(short, "SELECT pg_sleep(10)"); err == nil {
				return errors.New("was not cancelled")
			}
			return db.Ping()
		}},
		{"lib/pq: what golang-migrate sends", func() error {
			for _, text := range []string{
				"SELECT CURRENT_DATABASE()", "SELECT CURRENT_SCHEMA()",
				"SELECT pg_advisory_lock(123456)",
				"SELECT COUNT(1) FROM information_schema.tables WHERE table_schema = 'public' AND table_name = 'schema_migrations' LIMIT 1",
				`CREATE TABLE IF NOT EXISTS "public"."schema_migrations" (version bigint not null primary key, dirty boolean not null)`,
				`TRUNCATE "public"."schema_migrations"`,
				`INSERT INTO "public"."schema_migrations" (version, dirty) VALUES (1, false)`,
				`SELECT version, dirty FROM "public"."schema_migrations" LIMIT 1`,
				"SELECT table_name FROM information_schema.tables WHERE table_schema=(SELECT current_schema()) AND table_type='BASE TABLE'",
				`DROP TABLE IF EXISTS "schema_migrations" CASCADE`,
				"SELECT pg_advisory_unlock(123456)",
			} {
				if _, err := db.Exec(text); err != nil {
					return fmt.Errorf("%w [%s]", err, text)
				}
			}
			return nil
		}},
	}
}
