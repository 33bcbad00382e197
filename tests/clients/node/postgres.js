// postgres.js: typed parameters and helpers, nested fragments, cursors, COPY, transactions, subscriptions to names.
const postgres = require('postgres');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { assert, server, run, empty } = require('./checks');

const sql = postgres({ ...server, max: 3, onnotice() {}, transform: { undefined: null } });

run('postgres.js', {
  async 'an empty schema'() {
    await empty();
    // The types of arrays are asked for with the first statement.
    await sql`SELECT 1`;
  },
  async 'types of arrays are fetched'() {
    const fetched = await sql`
      select b.oid, b.typarray from pg_catalog.pg_type a left join pg_catalog.pg_type b on b.oid = a.typelem
      where a.typcategory = 'A' group by b.oid, b.typarray order by b.oid`;
    assert.ok(fetched.some((row) => row.oid === 23 && row.typarray === 1007));
  },
  async 'rows from objects'() {
    await sql`CREATE TABLE person (id SERIAL PRIMARY KEY, name TEXT NOT NULL, age INT, tags TEXT[], doc JSONB, born DATE, at TIMESTAMPTZ)`;
    const at = new Date('2024-02-29T12:34:56.789Z');
    const people = [{ name: 'Ann', age: 30, at }, { name: 'Bob', age: null, at }];
    const made = await sql`INSERT INTO person ${sql(people, 'name', 'age', 'at')} RETURNING *`;
    assert.deepEqual(made.map((row) => [row.id, row.age, row.at.getTime()]), [[1, 30, at.getTime()], [2, null, at.getTime()]]);
    await sql`UPDATE person SET ${sql({ name: 'Cid', age: 7 }, 'name', 'age')} WHERE id = ${2}`;
    await sql`INSERT INTO person (name, tags, doc, born) VALUES (${'Dan'}, ${['x', 'y "z"']}, ${sql.json({ a: [1, { b: null }] })}, ${'2000-01-02'})`;
    const [dan] = await sql`SELECT tags, doc, born FROM person WHERE name = ${'Dan'}`;
    assert.deepEqual([dan.tags, dan.doc], [['x', 'y "z"'], { a: [1, { b: null }] }]);
    const some = await sql`SELECT name FROM person WHERE name IN ${sql(['Ann', 'Cid'])} ORDER BY ${sql('name')}`;
    assert.deepEqual(some.map((row) => row.name), ['Ann', 'Cid']);
    const any = await sql`SELECT count(*)::int AS n FROM person WHERE id = ANY (${[1, 2]})`;
    assert.equal(any[0].n, 2);
  },
  async 'fragments within fragments'() {
    const older = (age) => sql`AND age > ${age}`;
    const rows = await sql`SELECT ${sql(['id', 'name'])} FROM ${sql('person')} WHERE true ${older(10)} ORDER BY id`;
    assert.deepEqual(rows.map((row) => row.id), [1]);
  },
  async 'values lists'() {
    const changes = [[1, 'Ann 2'], [2, 'Cid 2']];
    await sql`UPDATE person SET name = u.name FROM (VALUES ${sql(changes)}) AS u (id, name) WHERE person.id = u.id::int`;
    assert.equal((await sql`SELECT name FROM person WHERE id = 2`)[0].name, 'Cid 2');
  },
  async 'what a statement describes'() {
    const { columns, types } = await sql`SELECT id, name FROM person WHERE age = ${1} AND name = ${'x'}`.describe();
    assert.deepEqual(types, [23, 25]);
    assert.deepEqual(columns.map((column) => [column.name, column.type]), [['id', 23], ['name', 25]]);
  },
  async 'a cursor and forEach'() {
    let seen = 0;
    await sql`SELECT * FROM generate_series(1, 100) AS s (n)`.cursor(30, (rows) => { seen += rows.length; });
    for await (const [row] of sql`SELECT * FROM generate_series(1, 5) AS s (n)`.cursor()) seen += row.n;
    await sql`SELECT * FROM generate_series(1, 4) AS s (n)`.forEach(() => { seen++; });
    assert.equal(seen, 119);
  },
  async 'transactions, savepoints and pipelines'() {
    const result = await sql.begin('isolation level serializable', async (sql) => {
      await sql.savepoint(async (sql) => { await sql`SELECT 1 / 0`; }).catch(() => {});
      return Promise.all([sql`SELECT 1 AS a`, sql`SELECT 2 AS a`]);
    });
    assert.equal(result[1][0].a, 2);
    const all = await sql.begin((sql) => [sql`SELECT 1 AS a`, sql`SELECT 2 AS a`]);
    assert.equal(all[1][0].a, 2);
  },
  async 'COPY both ways'() {
    await sql`CREATE TABLE copied (id INT, name TEXT)`;
    await pipeline(Readable.from(['1\tone\n', '2\ttwo\n']), await sql`COPY copied (id, name) FROM STDIN`.writable());
    const parts = [];
    for await (const part of await sql`COPY copied TO STDOUT`.readable()) parts.push(part);
    assert.equal(Buffer.concat(parts).toString(), '1\tone\n2\ttwo\n');
  },
  async 'notifications'() {
    const heard = new Promise((resolve) => { sql.listen('news', resolve).then(() => sql.notify('news', 'hello')); });
    assert.equal(await heard, 'hello');
  },
  async 'several statements by unsafe, and a cancelled one'() {
    const both = await sql.unsafe('SELECT 1 AS a; SELECT 2 AS b');
    assert.deepEqual(both.map((rows) => ({ ...rows[0] })), [{ a: 1 }, { b: 2 }]);
    const sleeping = sql`SELECT pg_sleep(10)`;
    setTimeout(() => sleeping.cancel(), 200);
    await assert.rejects(sleeping, { code: '57014' });
  },
});
