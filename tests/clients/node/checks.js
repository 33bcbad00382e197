// What the scripts of this folder share: where the server is, checks by name, their count.
const assert = require('node:assert/strict');

const server = {
  host: process.env.HOST ?? '127.0.0.1',
  port: Number(process.env.PORT ?? 5433),
  user: 'halcyon',
  database: 'halcyon',
};
const url = `postgres://${server.user}@${server.host}:${server.port}/${server.database}`;

// Runs the functions of `checks` in order and prints a line for each; `prefix` names the library.
async function run(prefix, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('took longer than 20 seconds')), 20000);
    });
    try {
      await Promise.race([check(), late]);
      console.log(`ok ${prefix}: ${name}`);
    } catch (error) {
      failed++;
      const from = error.cause ?? error;
      const told = `${from.code ?? ''} ${from.message}`.trim().replace(/\s+/g, ' ');
      const sql = (error.sql ?? error.query ?? '').toString().replace(/\s+/g, ' ');
      console.log(`FAILED ${prefix}: ${name}: ${told.slice(0, 300)}${sql ? ` [${sql.slice(0, 300)}]` : ''}`);
    }
    clearTimeout(timer);
  }
  process.exit(failed ? 1 : 0);
}

// An empty schema public: every library finds the database as if it were new.
async function empty() {
  const { Client } = require('pg');
  const client = new Client(server);
  await client.connect();
  await client.query('DROP SCHEMA IF EXISTS drizzle CASCADE');
  await client.query('DROP SCHEMA public CASCADE');
  await client.query('CREATE SCHEMA public');
  await client.end();
}

module.exports = { assert, server, url, run, empty };
