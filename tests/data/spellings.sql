-- Spellings of questions and writes about TPC-C's tables. A group begins with its name; its statements are one question
-- (and give one answer) or one write. Read by crates/halcyon/tests/spellings.rs and lab/spellings.py.

-- stock_level: w=1, d=3, o1=2981, o2=3001, q=20
SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND s_w_id = :w AND s_quantity < :q;
SELECT COUNT(DISTINCT s_i_id) FROM stock, order_line WHERE s_i_id = ol_i_id AND ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND s_w_id = :w AND s_quantity < :q;
SELECT COUNT(*) FROM stock WHERE s_w_id = :w AND s_quantity < :q AND s_i_id IN (SELECT ol_i_id FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2);
SELECT COUNT(*) FROM stock WHERE s_w_id = :w AND s_quantity < :q AND EXISTS (SELECT 1 FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND ol_i_id = s_i_id);
SELECT COUNT(*) FROM (SELECT DISTINCT s_i_id FROM order_line INNER JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id BETWEEN :o1 AND :o2 - 1 AND s_quantity < :q) AS x;
SELECT COUNT(*) FROM (SELECT s_i_id FROM order_line, stock WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id < :o2 AND ol_o_id >= :o2 - 20 AND s_w_id = :w AND s_i_id = ol_i_id AND s_quantity < :q GROUP BY s_i_id) x;
SELECT COUNT(DISTINCT s.s_i_id) FROM district d JOIN order_line ol ON ol.ol_w_id = d.d_w_id AND ol.ol_d_id = d.d_id AND ol.ol_o_id >= d.d_next_o_id - 20 AND ol.ol_o_id < d.d_next_o_id JOIN stock s ON s.s_w_id = d.d_w_id AND s.s_i_id = ol.ol_i_id WHERE d.d_w_id = :w AND d.d_id = :d AND s.s_quantity < :q;
WITH recent AS (SELECT DISTINCT ol_i_id FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2) SELECT COUNT(*) FROM recent JOIN stock ON s_w_id = :w AND s_i_id = ol_i_id WHERE s_quantity < :q;
SELECT COUNT(DISTINCT ol_i_id) FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND (SELECT s_quantity FROM stock WHERE s_w_id = ol_w_id AND s_i_id = ol_i_id) < :q;
SELECT COUNT(DISTINCT ol_i_id) FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND ol_i_id = ANY (SELECT s_i_id FROM stock WHERE s_w_id = :w AND s_quantity < :q);
SELECT COUNT(DISTINCT (s_i_id)) FROM order_line LEFT JOIN stock ON (s_w_id, s_i_id) = (ol_w_id, ol_i_id) WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :o1 AND ol_o_id < :o2 AND s_quantity < :q;

-- last_order: w=1, d=3, c=777
SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c ORDER BY o_id DESC LIMIT 1;
SELECT MAX(o_id) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c;
SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c);
SELECT o_id FROM orders o WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c AND NOT EXISTS (SELECT 1 FROM orders p WHERE p.o_w_id = o.o_w_id AND p.o_d_id = o.o_d_id AND p.o_c_id = o.o_c_id AND p.o_id > o.o_id);
SELECT o_id FROM orders WHERE (o_w_id, o_d_id, o_c_id) = (:w, :d, :c) ORDER BY o_w_id DESC, o_d_id DESC, o_c_id DESC, o_id DESC FETCH FIRST 1 ROW ONLY;
SELECT o.o_id FROM customer c JOIN orders o ON o.o_w_id = c.c_w_id AND o.o_d_id = c.c_d_id AND o.o_c_id = c.c_id WHERE c.c_w_id = :w AND c.c_d_id = :d AND c.c_id = :c ORDER BY o.o_id DESC LIMIT 1;
SELECT o_id FROM (SELECT o_id, row_number() OVER (ORDER BY o_id DESC) AS n FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c) x WHERE n = 1;
SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c AND o_id >= ALL (SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c);
SELECT l.o_id FROM customer c, LATERAL (SELECT o_id FROM orders WHERE o_w_id = c.c_w_id AND o_d_id = c.c_d_id AND o_c_id = c.c_id ORDER BY o_id DESC LIMIT 1) l WHERE c.c_w_id = :w AND c.c_d_id = :d AND c.c_id = :c;
SELECT max(o_id) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id IN (:c) GROUP BY o_w_id, o_d_id, o_c_id;

-- order_lines: w=1, d=3, o=2500
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY ol_number;
SELECT l.ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM orders JOIN order_line l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o ORDER BY ol_number;
SELECT l.ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line l WHERE (ol_w_id, ol_d_id, ol_o_id) IN (SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o) ORDER BY ol_number;
SELECT l.ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line l, orders o, customer c WHERE c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND o_w_id = :w AND o_d_id = :d AND o_id = :o ORDER BY ol_number;
SELECT l.ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line l WHERE EXISTS (SELECT * FROM orders WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id AND o_id = :o) AND ol_w_id = :w AND ol_d_id = :d ORDER BY ol_number;
SELECT l.ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line l NATURAL JOIN (SELECT o_w_id AS ol_w_id, o_d_id AS ol_d_id, o_id AS ol_o_id FROM orders) o WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY ol_number;

-- customer_status: w=1, d=3, c=777
SELECT c_first, c_balance, w_tax FROM customer, warehouse WHERE w_id = :w AND c_w_id = w_id AND c_d_id = :d AND c_id = :c;
SELECT c_first, c_balance, w_tax FROM warehouse JOIN customer ON c_w_id = w_id WHERE w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT c_first, c_balance, (SELECT w_tax FROM warehouse WHERE w_id = c_w_id) FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT c_first, c_balance, w_tax FROM customer LEFT JOIN warehouse ON w_id = c_w_id WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT c_first, c_balance, w_tax FROM (SELECT * FROM customer WHERE c_d_id = :d AND c_id = :c) c JOIN (SELECT * FROM warehouse) w ON w.w_id = c.c_w_id WHERE c.c_w_id = :w;
SELECT c_first, c_balance, w_tax FROM district JOIN warehouse ON w_id = d_w_id JOIN customer ON c_w_id = d_w_id AND c_d_id = d_id WHERE d_w_id = :w AND d_id = :d AND c_id = :c;
SELECT c_first, c_balance, w_tax FROM customer CROSS JOIN warehouse WHERE c_w_id = w_id AND (c_w_id, c_d_id, c_id) = (:w, :d, :c);
SELECT c_first, c_balance, w_tax FROM warehouse, customer WHERE (c_w_id, c_d_id, c_id) IN ((:w, :d, :c)) AND w_id = c_w_id;
WITH c AS (SELECT * FROM customer), w AS (SELECT * FROM warehouse) SELECT c_first, c_balance, w_tax FROM c JOIN w ON c_w_id = w_id WHERE w_id = :w AND c_d_id = :d AND c_id = :c;

-- middle_customer: w=1, d=3, last=BARBARPRES
SELECT c_id FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last ORDER BY c_first, c_id LIMIT 1;
SELECT c_id FROM customer c WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last AND c_first = (SELECT MIN(c_first) FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last) ORDER BY c_id LIMIT 1;
SELECT c_id FROM (SELECT c_id, row_number() OVER (ORDER BY c_first, c_id) n FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last) x WHERE n = 1;
SELECT (array_agg(c_id ORDER BY c_first, c_id))[1] FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last;
SELECT DISTINCT ON (c_w_id) c_id FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = :last ORDER BY c_w_id, c_first, c_id;
SELECT c_id FROM customer c WHERE c_w_id = :w AND c_d_id = :d AND c_last LIKE :last ORDER BY c_first, c_id LIMIT 1;

-- oldest_new_order: w=1, d=3
SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d ORDER BY no_o_id LIMIT 1;
SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = :w AND no_d_id = :d;
SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id = (SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = :w AND no_d_id = :d);
SELECT n.no_o_id FROM new_order n JOIN orders o ON o.o_w_id = n.no_w_id AND o.o_d_id = n.no_d_id AND o.o_id = n.no_o_id WHERE n.no_w_id = :w AND n.no_d_id = :d ORDER BY n.no_o_id LIMIT 1;
SELECT MIN(o_id) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND EXISTS (SELECT 1 FROM new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id);
SELECT no_o_id FROM new_order a WHERE no_w_id = :w AND no_d_id = :d AND NOT EXISTS (SELECT 1 FROM new_order b WHERE b.no_w_id = a.no_w_id AND b.no_d_id = a.no_d_id AND b.no_o_id < a.no_o_id);
SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id <= ALL (SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d);
SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = :w GROUP BY no_d_id HAVING no_d_id = :d;

-- lines_amount: w=1, d=3, o=2500
SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
SELECT SUM(ol_amount) FROM orders, order_line WHERE o_id = ol_o_id AND o_d_id = ol_d_id AND o_w_id = ol_w_id AND o_w_id = :w AND o_d_id = :d AND o_id = :o;
SELECT (SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o;
SELECT s FROM (SELECT ol_w_id, ol_d_id, ol_o_id, SUM(ol_amount) AS s FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) x WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
SELECT SUM(ol_amount) FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) IN (SELECT no_w_id, no_d_id, no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id = :o);
SELECT SUM(ol_amount) OVER () FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o LIMIT 1;
SELECT SUM(l.ol_amount) FROM order_line l JOIN (SELECT o_w_id w, o_d_id d, o_id o FROM orders WHERE o_id = :o) x ON l.ol_w_id = x.w AND l.ol_d_id = x.d AND l.ol_o_id = x.o WHERE x.w = :w AND x.d = :d;

-- open_amount_of_customer: w=1, d=3, c=500
SELECT SUM(ol_amount) FROM customer JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT SUM(ol_amount) FROM order_line, orders, customer WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id IN (SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c);
SELECT SUM(ol_amount) FROM order_line WHERE EXISTS (SELECT 1 FROM orders WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id AND o_w_id = :w AND o_d_id = :d AND o_c_id = :c);
SELECT SUM(s) FROM orders, LATERAL (SELECT SUM(ol_amount) s FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) l WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c;
WITH mine AS (SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c) SELECT SUM(ol_amount) FROM order_line JOIN mine ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id;
SELECT SUM(ol_amount) FROM order_line RIGHT JOIN orders ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c;

-- items_of_order: w=1, d=3, o=2500
SELECT ol_number, i_name, s_quantity FROM order_line JOIN item ON i_id = ol_i_id JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = i_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;
SELECT ol_number, i_name, s_quantity FROM item, stock, order_line WHERE i_id = ol_i_id AND s_w_id = ol_supply_w_id AND s_i_id = i_id AND ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;
SELECT ol_number, i_name, s_quantity FROM stock JOIN item ON s_i_id = i_id JOIN order_line ON s_w_id = ol_supply_w_id AND ol_i_id = s_i_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;
SELECT ol_number, (SELECT i_name FROM item WHERE i_id = ol_i_id), (SELECT s_quantity FROM stock WHERE s_i_id = ol_i_id AND s_w_id = ol_supply_w_id) FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;
SELECT ol_number, i_name, s_quantity FROM order_line LEFT JOIN item ON i_id = ol_i_id LEFT JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;
SELECT ol_number, i_name, s_quantity FROM (SELECT i_name, s_quantity, s_i_id, s_w_id FROM item JOIN stock ON i_id = s_i_id) x JOIN order_line ON s_i_id = ol_i_id AND s_w_id = ol_supply_w_id WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o ORDER BY 1;

-- new_orders_of_district: w=1, d=3
SELECT count(*) FROM new_order WHERE no_w_id = :w AND no_d_id = :d;
SELECT count(*) FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_carrier_id IS NULL;
SELECT count(*) FROM orders JOIN new_order ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id WHERE o_w_id = :w AND o_d_id = :d;
SELECT count(*) FROM orders o WHERE o_w_id = :w AND o_d_id = :d AND EXISTS (SELECT FROM new_order n WHERE n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id);
SELECT count(*) FROM orders o WHERE o_w_id = :w AND o_d_id = :d AND o_id IN (SELECT no_o_id FROM new_order n WHERE n.no_w_id = :w AND n.no_d_id = :d);
SELECT count(*) FROM (SELECT o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d INTERSECT SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d) x;
SELECT count(no_o_id) FROM orders LEFT JOIN new_order ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id WHERE o_w_id = :w AND o_d_id = :d;
SELECT (SELECT count(*) FROM orders WHERE o_w_id = :w AND o_d_id = :d) - (SELECT count(*) FROM orders o WHERE o_w_id = :w AND o_d_id = :d AND NOT EXISTS (SELECT 1 FROM new_order n WHERE n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id));

-- write deliver_lines: w=1, d=3, o=2500
UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
UPDATE order_line SET ol_delivery_d = now() WHERE (ol_w_id, ol_d_id, ol_o_id) IN (SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o);
UPDATE order_line SET ol_delivery_d = now() FROM orders WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id AND o_w_id = :w AND o_d_id = :d AND o_id = :o;
UPDATE order_line l SET ol_delivery_d = now() WHERE EXISTS (SELECT 1 FROM orders o WHERE o.o_w_id = l.ol_w_id AND o.o_d_id = l.ol_d_id AND o.o_id = l.ol_o_id AND o.o_id = :o) AND l.ol_w_id = :w AND l.ol_d_id = :d;
WITH o AS (SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o) UPDATE order_line SET ol_delivery_d = now() FROM o WHERE ol_w_id = o.o_w_id AND ol_d_id = o.o_d_id AND ol_o_id = o.o_id;

-- write customer_balance: w=1, d=3, c=777, o=2500
UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
UPDATE customer SET c_balance = c_balance + (SELECT 1) WHERE c_w_id = :w AND c_d_id = :d AND c_id = (SELECT :c::int);
UPDATE customer SET c_balance = c_balance + (SELECT COALESCE(SUM(ol_amount),0) FROM order_line WHERE ol_w_id = c_w_id AND ol_d_id = c_d_id AND ol_o_id = :o) WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
UPDATE customer SET c_balance = c_balance + s FROM (SELECT SUM(ol_amount) s FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o) x WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = :w AND c_d_id = :d AND c_id IN (SELECT o_c_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o);
UPDATE customer SET c_balance = c_balance + 1 FROM orders WHERE c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND o_w_id = :w AND o_d_id = :d AND o_id = :o;

-- write take_new_order: w=1, d=3, o=2500
DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id = :o;
DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id = (SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = :w AND no_d_id = :d);
DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) = (SELECT no_w_id, no_d_id, no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d ORDER BY no_o_id LIMIT 1);
DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id IN (SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d ORDER BY no_o_id LIMIT 1) RETURNING no_o_id;
DELETE FROM new_order n USING (SELECT MIN(no_o_id) m FROM new_order WHERE no_w_id = :w AND no_d_id = :d) x WHERE n.no_w_id = :w AND n.no_d_id = :d AND n.no_o_id = x.m;
DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = :d AND no_o_id = (SELECT no_o_id FROM new_order WHERE no_w_id = :w AND no_d_id = :d ORDER BY no_o_id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *;
DELETE FROM new_order USING orders WHERE o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id AND no_w_id = :w AND no_d_id = :d AND no_o_id = :o;

-- write stock_of_order: w=1, d=3, o=2500
UPDATE stock SET s_quantity = s_quantity - 1 WHERE s_w_id = :w AND s_i_id IN (SELECT ol_i_id FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o);
UPDATE stock SET s_quantity = s_quantity - ol_quantity FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o AND s_w_id = ol_supply_w_id AND s_i_id = ol_i_id;
UPDATE stock s SET s_quantity = s_quantity - 1 WHERE s_w_id = :w AND EXISTS (SELECT 1 FROM order_line l WHERE l.ol_w_id = :w AND l.ol_d_id = :d AND l.ol_o_id = :o AND l.ol_i_id = s.s_i_id);
WITH l AS (SELECT ol_i_id, sum(ol_quantity) q FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o GROUP BY ol_i_id) UPDATE stock SET s_quantity = s_quantity - q FROM l WHERE s_w_id = :w AND s_i_id = ol_i_id;
MERGE INTO stock USING (SELECT ol_i_id, sum(ol_quantity) q FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o GROUP BY ol_i_id) l ON s_w_id = :w AND s_i_id = ol_i_id WHEN MATCHED THEN UPDATE SET s_quantity = s_quantity - q;

-- write copy_order: w=1, d=3, o=2500
INSERT INTO new_order SELECT o_id + 10000, o_d_id, o_w_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o;
INSERT INTO new_order SELECT o_id + 10000, o_d_id, o_w_id FROM orders o WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o AND NOT EXISTS (SELECT 1 FROM new_order n WHERE n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id + 10000);
INSERT INTO new_order SELECT o_id + 10000, o_d_id, o_w_id FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o ON CONFLICT DO NOTHING;
INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (:w, :d, (SELECT max(o_id) + 1 FROM orders WHERE o_w_id = :w AND o_d_id = :d));
