// node-postgres: parameters and types, transactions, cursors, streams, COPY, notifications, errors.
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');
const { from, to } = require('pg-copy-streams');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { assert, server, url, run, empty } = require('./checks');

const pool = new Pool({ ...server, max: 4, application_name: 'checks' });

run('pg', {
  async 'an empty schema'() {
    await empty();
  },
  async 'a connection string with options'() {
    const client = new Client({
      connectionString: `${url}?application_name=a&options=-c%20search_path%3Dpublic`,
      statement_timeout: 5000, lock_timeout: 4000, idle_in_transaction_session_timeout: 6000,
    });
    await client.connect();
    const { rows } = await client.query("SELECT current_setting('application_name') AS a, current_setting('search_path') AS s, current_setting('statement_timeout') AS t");
    assert.deepEqual(rows[0], { a: 'a', s: 'public', t: '5s' });
    await client.end();
  },
  async 'values of every type'() {
    await pool.query(`CREATE TABLE kinds (a SMALLINT, b INTEGER, c BIGINT, d REAL, e DOUBLE PRECISION,
      f NUMERIC(12,3), g TEXT, h VARCHAR(10), i BYTEA, j DATE, k TIME, l TIMESTAMP, m TIMESTAMPTZ, n INTERVAL,
      o UUID, p JSON, q JSONB, r TEXT[], s INTEGER[], t BOOLEAN)`);
    const when = new Date('2024-02-29T12:34:56.789Z');
    const values = [-7, 42, '1099511627776', 1.5, -0.1, '-123456.789', 'grün €', 'abc', Buffer.from([0, 255]),
      '2024-02-29', '23:59:58.123456', '2024-02-29 12:34:56.789', when, '3 days 04:00:00', 
      '00112233-4455-6677-8899-aabbccddeeff', { a: [1, null] }, JSON.stringify([{ b: 1.5 }]),
      ['a', null, 'b "q", {x}\\', ''], [1, null, -3], true];
    await pool.query(`INSERT INTO kinds VALUES (${values.map((_, n) => '$' + (n + 1))})`, values);
    const { rows, fields } = await pool.query({ text: 'SELECT * FROM kinds', rowMode: 'array' });
    const row = rows[0];
    assert.deepEqual(row.slice(0, 9), values.slice(0, 9));
    assert.equal(row[12].getTime(), when.getTime());
    assert.equal(row[13].days, 3);
    assert.deepEqual(row.slice(14), [values[14], { a: [1, null] }, [{ b: 1.5 }], ...values.slice(17)]);
    assert.deepEqual(fields.map((field) => field.dataTypeID), [21, 23, 20, 700, 701, 1700, 25, 1043, 17, 1082,
      1083, 1114, 1184, 1186, 2950, 114, 3802, 1009, 1007, 16]);
    assert.ok(fields.every((field, n) => field.tableID > 0 && field.columnID === n + 1));
  },
  async 'values in binary'() {
    const { rows } = await pool.query({ text: 'SELECT $1::int AS a, $2::text AS b, $3::boolean AS c, $4::bigint AS d', values: [1, 'x', true, 5], binary: true });
    assert.deepEqual(rows, [{ a: 1, b: 'x', c: true, d: '5' }]);
  },
  async 'prepared statements by name'() {
    const client = await pool.connect();
    for (let n = 0; n < 5; n++) {
      const { rows } = await client.query({ name: 'plus', text: 'SELECT $1::int + 1 AS n', values: [n] });
      assert.equal(rows[0].n, n + 1);
    }
    client.release();
  },
  async 'a type is found from the column or the context'() {
    await pool.query('CREATE TABLE item (id SERIAL PRIMARY KEY, name TEXT UNIQUE, price NUMERIC(9,2), made TIMESTAMPTZ DEFAULT now(), tags TEXT[])');
    const refused = [];
    for (const [text, values] of [
      ['INSERT INTO item (name, price, tags) VALUES ($1, $2, $3) RETURNING id', ['a', 1.5, ['x', 'y']]],
      ['INSERT INTO item (name, price) SELECT $1, $2 RETURNING id', ['b', '2.5']],
      ['UPDATE item SET price = price + $1, name = coalesce($2, name) WHERE id = ANY ($3)', [1, null, [1, 2]]],
      ["SELECT * FROM item WHERE name LIKE $1 || '%' AND price BETWEEN $2 AND $3 ORDER BY id LIMIT $4 OFFSET $5", ['a', 0, 9, 10, 0]],
      ["SELECT * FROM item WHERE made > now() - $1::interval AND name ILIKE $2", ['1 day', 'A%']],
      ["SELECT * FROM item WHERE made > now() - ($1 || ' days')::interval", ['3']],
      ['SELECT * FROM item WHERE $1 = ANY (tags)', ['x']],
      ['SELECT * FROM item WHERE ($1::text IS NULL OR name = $1)', ['a']],
      ['SELECT * FROM unnest($1::int[], $2::text[]) AS u (a, b)', [[1, 2], ['x', 'y']]],
      ['SELECT * FROM json_to_recordset($1) AS r (a int, b text)', [JSON.stringify([{ a: 1, b: 'x' }])]],
      ['INSERT INTO item (name, price) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET price = excluded.price RETURNING *, (xmax = 0) AS inserted', ['a', 3]],
      ["SELECT jsonb_build_object('a', $1::text, 'b', $2::int) AS doc", ['x', 1]],
      ['SELECT CASE WHEN $1 THEN $2 ELSE $3 END AS r', [true, 'x', 'y']],
      ["SELECT to_char(made, 'YYYY-MM-DD') AS day, count(*)::int FROM item GROUP BY 1 ORDER BY 1", []],
      ["SELECT date_trunc('hour', made) AS h, json_agg(item ORDER BY id) AS items FROM item GROUP BY h", []],
      ['SELECT row_to_json(t) AS doc FROM (SELECT id, name FROM item) t', []],
      ['SELECT i.*, array_agg(j.id) AS ids FROM item i JOIN item j ON true GROUP BY i.id', []],
    ]) {
      await pool.query(text, values).catch((error) => refused.push(`${error.code} ${error.message} [${text}]`));
    }
    assert.deepEqual(refused, []);
  },
  async 'several statements in one text'() {
    const results = await pool.query('SELECT 1 AS a; CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT * FROM t');
    assert.deepEqual(results.map((result) => result.command), ['SELECT', 'CREATE', 'INSERT', 'SELECT']);
    assert.equal(results[3].rowCount, 2);
  },
  async 'a transaction with a savepoint'() {
    const client = await pool.connect();
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await client.query('SAVEPOINT s');
      await assert.rejects(client.query('SELECT 1 / 0'), { code: '22012' });
      await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
      await client.query('ROLLBACK TO SAVEPOINT s');
      await client.query('RELEASE SAVEPOINT s');
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  },
  async 'what an error tells'() {
    await assert.rejects(pool.query("INSERT INTO item (name) VALUES ('a')"),
      { code: '23505', constraint: 'item_name_key', table: 'item', schema: 'public', detail: 'Key (name)=(a) already exists.', severity: 'ERROR' });
    await assert.rejects(pool.query('SELECT nothing FROM item'), { code: '42703', position: '8' });
    await assert.rejects(pool.query('SELECT * FROM nothing'), { code: '42P01', position: '15' });
    await assert.rejects(pool.query('SELEC 1'), { code: '42601', position: '1' });
  },
  async 'a cursor'() {
    const client = await pool.connect();
    const cursor = client.query(new Cursor('SELECT g FROM generate_series(1, $1::int) AS s (g)', [250]));
    let seen = 0;
    for (;;) {
      const rows = await cursor.read(100);
      if (rows.length === 0) break;
      seen += rows.length;
    }
    assert.equal(seen, 250);
    await cursor.close();
    const early = client.query(new Cursor('SELECT g FROM generate_series(1, 1000) AS s (g)'));
    assert.equal((await early.read(10)).length, 10);
    await early.close();
    assert.equal((await client.query('SELECT 1 AS a')).rows[0].a, 1);
    client.release();
  },
  async 'a stream'() {
    const client = await pool.connect();
    const stream = client.query(new QueryStream('SELECT g FROM generate_series(1, $1::int) AS s (g)', [1000], { batchSize: 100 }));
    let sum = 0;
    for await (const row of stream) sum += row.g;
    assert.equal(sum, 500500);
    client.release();
  },
  async 'COPY both ways'() {
    const client = await pool.connect();
    await client.query('CREATE TABLE copied (id INT, name TEXT)');
    await pipeline(Readable.from(['1\tone\n2\t\\N\n', '3\tth', 'ree\n']), client.query(from('COPY copied FROM STDIN')));
    await pipeline(Readable.from(['id,name\n4,"f,our"\n']), client.query(from('COPY copied (id, name) FROM STDIN WITH (FORMAT csv, HEADER true)')));
    const parts = [];
    for await (const part of client.query(to('COPY (SELECT * FROM copied ORDER BY id) TO STDOUT WITH CSV HEADER'))) parts.push(part);
    assert.equal(Buffer.concat(parts).toString(), 'id,name\n1,one\n2,\n3,three\n4,"f,our"\n');
    client.release();
  },
  async 'notifications'() {
    const client = await pool.connect();
    const heard = new Promise((resolve) => client.once('notification', resolve));
    await client.query('LISTEN "News"');
    await pool.query("SELECT pg_notify('News', $1)", ['hello']);
    const { channel, payload } = await heard;
    assert.deepEqual([channel, payload], ['News', 'hello']);
    await client.query('UNLISTEN *');
    client.release();
  },
  async 'advisory locks and a cancelled query'() {
    const client = await pool.connect();
    const { rows: [{ pid }] } = await client.query('SELECT pg_backend_pid() AS pid');
    assert.equal((await client.query('SELECT pg_try_advisory_lock(hashtext($1)) AS got', ['job'])).rows[0].got, true);
    await client.query('SELECT pg_advisory_unlock_all()');
    const sleeping = assert.rejects(client.query('SELECT pg_sleep(10)'), { code: '57014' });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await pool.query('SELECT pg_cancel_backend($1)', [pid]);
    await sleeping;
    client.release();
  },
  async 'a queue by SKIP LOCKED'() {
    await pool.query("CREATE TABLE job (id BIGSERIAL PRIMARY KEY, state TEXT NOT NULL DEFAULT 'new', body JSONB)");
    await pool.query("INSERT INTO job (body) SELECT jsonb_build_object('n', n) FROM generate_series(1, 3) AS n");
    const { rows } = await pool.query(`UPDATE job SET state = 'taken' WHERE id = (
      SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, body`);
    assert.deepEqual(rows, [{ id: '1', body: { n: 1 } }]);
  },
});
