// The tables of drizzle.js, read by drizzle-kit too.
const { pgTable, pgEnum, pgMaterializedView, serial, integer, bigint, text, varchar, numeric, boolean, timestamp, date, jsonb, uuid, index, uniqueIndex, check, primaryKey } = require('drizzle-orm/pg-core');
const { relations, sql } = require('drizzle-orm');

const role = pgEnum('role', ['admin', 'member']);
const users = pgTable('users', {
  id: serial('id').primaryKey(),
  name: varchar('name', { length: 80 }).notNull(),
  mail: text('mail').notNull().unique(),
  role: role('role').default('member').notNull(),
  doc: jsonb('doc'),
  made: timestamp('made', { withTimezone: true }).defaultNow().notNull(),
});
const posts = pgTable('posts', {
  id: uuid('id').defaultRandom().primaryKey(),
  number: integer('number').generatedAlwaysAsIdentity(),
  title: text('title').notNull(),
  price: numeric('price', { precision: 9, scale: 2 }).default('0'),
  tags: text('tags').array(),
  sold: boolean('sold').default(false),
  views: bigint('views', { mode: 'number' }),
  day: date('day').default(sql`CURRENT_DATE`),
  shout: text('shout').generatedAlwaysAs(sql`upper(title)`),
  userId: integer('user_id').notNull().references(() => users.id, { onDelete: 'cascade' }),
}, (table) => [
  index('posts_title_idx').on(table.title, table.price.desc()),
  uniqueIndex('posts_once_idx').on(sql`lower(${table.title})`).where(sql`${table.sold}`),
  check('posts_price_check', sql`${table.price} >= 0`),
]);
const likes = pgTable('likes', {
  userId: integer('user_id').notNull().references(() => users.id),
  postId: uuid('post_id').notNull().references(() => posts.id),
}, (table) => [primaryKey({ columns: [table.userId, table.postId] })]);
const usersRelations = relations(users, ({ many }) => ({ posts: many(posts) }));
const postsRelations = relations(posts, ({ one }) => ({ user: one(users, { fields: [posts.userId], references: [users.id] }) }));
const counts = pgMaterializedView('counts').as((query) => query.select({ userId: posts.userId, n: sql`count(*)`.mapWith(Number).as('n') }).from(posts).groupBy(posts.userId));

module.exports = { role, users, posts, likes, usersRelations, postsRelations, counts };
