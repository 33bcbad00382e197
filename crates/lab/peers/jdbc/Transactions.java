// The five transactions over JDBC, statement by statement, as the lab's `transactions.rs` has them.

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.util.HashMap;
import java.util.Map;

final class Transactions {
    private final Connection connection;
    private final boolean tableLocks;
    private final Map<String, PreparedStatement> prepared = new HashMap<>();
    private final PreparedStatement[] stock = new PreparedStatement[11];
    private final PreparedStatement warehouseTax, customerDiscount, districtNext, districtAdvance,
        orderInsert, newOrderInsert, item, stockUpdate, orderLineInsert, warehousePay,
        warehouseAddress, districtPay, districtAddress, customersToPay, customerToPay, customerPay,
        customerData, customerDataUpdate, historyInsert, customersByName, customerStatus, lastOrder,
        orderLines, customerLock, oldestNewOrder, newOrderDelete, orderCustomer, orderDeliver,
        linesDeliver, linesAmount, customerDeliver, nextOrder, shortItems;
    /** What is computed for the terminal goes here, so that it is computed. */
    private long shown;

    Transactions(Connection connection, Path statements, boolean tableLocks) throws Exception {
        this.connection = connection;
        this.tableLocks = tableLocks;
        for (String line : Files.readAllLines(statements)) {
            int tab = line.indexOf('\t');
            prepared.put(line.substring(0, tab), prepare(line.substring(tab + 1)));
        }
        for (int district = 1; district <= 10; district++) {
            stock[district] = prepared.get("Stock" + district);
        }
        warehouseTax = prepared.get("WarehouseTax");
        customerDiscount = prepared.get("CustomerDiscount");
        districtNext = prepared.get("DistrictNext");
        districtAdvance = prepared.get("DistrictAdvance");
        orderInsert = prepared.get("OrderInsert");
        newOrderInsert = prepared.get("NewOrderInsert");
        item = prepared.get("Item");
        stockUpdate = prepared.get("StockUpdate");
        orderLineInsert = prepared.get("OrderLineInsert");
        warehousePay = prepared.get("WarehousePay");
        warehouseAddress = prepared.get("WarehouseAddress");
        districtPay = prepared.get("DistrictPay");
        districtAddress = prepared.get("DistrictAddress");
        customersToPay = prepared.get("CustomersToPay");
        customerToPay = prepared.get("CustomerToPay");
        customerPay = prepared.get("CustomerPay");
        customerData = prepared.get("CustomerData");
        customerDataUpdate = prepared.get("CustomerDataUpdate");
        historyInsert = prepared.get("HistoryInsert");
        customersByName = prepared.get("CustomersByName");
        customerStatus = prepared.get("CustomerStatus");
        lastOrder = prepared.get("LastOrder");
        orderLines = prepared.get("OrderLines");
        customerLock = prepared.get("CustomerLock");
        oldestNewOrder = prepared.get("OldestNewOrder");
        newOrderDelete = prepared.get("NewOrderDelete");
        orderCustomer = prepared.get("OrderCustomer");
        orderDeliver = prepared.get("OrderDeliver");
        linesDeliver = prepared.get("LinesDeliver");
        linesAmount = prepared.get("LinesAmount");
        customerDeliver = prepared.get("CustomerDeliver");
        nextOrder = prepared.get("NextOrder");
        shortItems = prepared.get("ShortItems");
    }

    /** An engine that does not know FOR UPDATE in a statement gets it without. */
    private PreparedStatement prepare(String text) throws SQLException {
        try {
            return connection.prepareStatement(text);
        } catch (SQLException error) {
            if (!text.endsWith(" FOR UPDATE")) {
                throw error;
            }
            return connection.prepareStatement(text.substring(0, text.length() - 11));
        }
    }

    void close() throws SQLException {
        connection.close();
    }

    void rollback() throws SQLException {
        connection.rollback();
    }

    /** True if it was committed, false if it was to be rolled back. */
    boolean run(long[] in, String name) throws SQLException {
        switch ((int) in[0]) {
            case 0 -> {
                if (!newOrder(in)) {
                    connection.rollback();
                    return false;
                }
            }
            case 1 -> payment(in, name);
            case 2 -> orderStatus(in, name);
            case 3 -> delivery(in);
            default -> stockLevel(in);
        }
        connection.commit();
        return true;
    }

    private static PreparedStatement bind(PreparedStatement statement, long... numbers)
            throws SQLException {
        for (int at = 0; at < numbers.length; at++) {
            statement.setInt(at + 1, (int) numbers[at]);
        }
        return statement;
    }

    private static void change(PreparedStatement statement) throws SQLException {
        int rows = statement.executeUpdate();
        check(rows == 1, rows + " rows changed");
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("wrong answer: " + what);
        }
    }

    private static int number(PreparedStatement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery()) {
            check(rows.next(), "no row");
            return rows.getInt(1);
        }
    }

    /** Fields: type, warehouse, district, customer, time, lines, then item, supplier, quantity each. */
    private boolean newOrder(long[] in) throws SQLException {
        long w = in[1], d = in[2], c = in[3];
        int lines = (int) in[5];
        BigDecimal tax;
        try (ResultSet rows = bind(warehouseTax, w).executeQuery()) {
            check(rows.next(), "no warehouse");
            tax = rows.getBigDecimal(1);
        }
        BigDecimal districtTax;
        int id;
        try (ResultSet rows = bind(districtNext, w, d).executeQuery()) {
            check(rows.next(), "no district");
            districtTax = rows.getBigDecimal(1);
            id = rows.getInt(2);
        }
        change(bind(districtAdvance, w, d));
        BigDecimal discount;
        try (ResultSet rows = bind(customerDiscount, w, d, c).executeQuery()) {
            check(rows.next(), "no customer");
            discount = rows.getBigDecimal(1);
        }
        change(bind(newOrderInsert, w, d, id));
        boolean allLocal = true;
        for (int line = 0; line < lines; line++) {
            allLocal &= in[7 + 3 * line] == w;
        }
        bind(orderInsert, w, d, id, c);
        orderInsert.setTimestamp(5, Driver.moment(in[4]));
        orderInsert.setInt(6, lines);
        orderInsert.setInt(7, allLocal ? 1 : 0);
        change(orderInsert);
        BigDecimal total = BigDecimal.ZERO;
        for (int line = 0; line < lines; line++) {
            int at = 6 + 3 * line;
            BigDecimal amount = orderLine(in, id, line + 1, in[at], in[at + 1], (int) in[at + 2]);
            if (amount == null) {
                return false;
            }
            total = total.add(amount);
        }
        total = total.multiply(BigDecimal.ONE.subtract(discount))
            .multiply(BigDecimal.ONE.add(tax).add(districtTax));
        shown += total.signum();
        return true;
    }

    private BigDecimal orderLine(long[] in, int id, int number, long itemId, long supply, int ordered)
            throws SQLException {
        BigDecimal price;
        boolean original;
        try (ResultSet rows = bind(item, itemId).executeQuery()) {
            if (!rows.next()) {
                return null;
            }
            price = rows.getBigDecimal(1);
            original = rows.getString(3).contains("ORIGINAL");
        }
        int quantity;
        String info;
        try (ResultSet rows = bind(stock[(int) in[2]], supply, itemId).executeQuery()) {
            check(rows.next(), "no stock");
            quantity = rows.getInt(1);
            shown += original && rows.getString(2).contains("ORIGINAL") ? 1 : 0;
            info = rows.getString(3);
        }
        int left = quantity >= ordered + 10 ? quantity - ordered : quantity - ordered + 91;
        change(bind(stockUpdate, left, ordered, supply == in[1] ? 0 : 1, supply, itemId));
        BigDecimal amount = price.multiply(BigDecimal.valueOf(ordered));
        bind(orderLineInsert, in[1], in[2], id, number, itemId, supply, ordered);
        orderLineInsert.setBigDecimal(8, amount);
        orderLineInsert.setString(9, info);
        change(orderLineInsert);
        return amount;
    }

    /** Of several customers of a name the middle one, in order of first names. */
    private long find(PreparedStatement byName, long w, long d, long id, String name)
            throws SQLException {
        if (name == null) {
            return id;
        }
        bind(byName, w, d);
        byName.setString(3, name);
        int[] found = new int[64];
        int count = 0;
        try (ResultSet rows = byName.executeQuery()) {
            while (rows.next()) {
                if (count == found.length) {
                    found = java.util.Arrays.copyOf(found, 2 * count);
                }
                found[count++] = rows.getInt(1);
            }
        }
        check(count > 0, "no customer is called " + name);
        return found[(count - 1) / 2];
    }

    /** Fields: type, w, d, customer's w and d, customer, name, cents, time. */
    private void payment(long[] in, String name) throws SQLException {
        long w = in[1], d = in[2], cw = in[3], cd = in[4];
        BigDecimal amount = Driver.cents(in[7]);
        warehousePay.setBigDecimal(1, amount);
        warehousePay.setInt(2, (int) w);
        change(warehousePay);
        String paidAt;
        try (ResultSet rows = bind(warehouseAddress, w).executeQuery()) {
            check(rows.next(), "no warehouse");
            paidAt = rows.getString(1);
        }
        districtPay.setBigDecimal(1, amount);
        districtPay.setInt(2, (int) w);
        districtPay.setInt(3, (int) d);
        change(districtPay);
        try (ResultSet rows = bind(districtAddress, w, d).executeQuery()) {
            check(rows.next(), "no district");
            paidAt += "    " + rows.getString(1);
        }
        long c = find(customersToPay, cw, cd, in[5], name);
        boolean badCredit;
        try (ResultSet rows = bind(customerToPay, cw, cd, c).executeQuery()) {
            check(rows.next(), "no customer");
            badCredit = rows.getString(11).equals("BC");
        }
        customerPay.setBigDecimal(1, amount);
        customerPay.setBigDecimal(2, amount);
        customerPay.setInt(3, (int) cw);
        customerPay.setInt(4, (int) cd);
        customerPay.setInt(5, (int) c);
        change(customerPay);
        if (badCredit) {
            String data;
            try (ResultSet rows = bind(customerData, cw, cd, c).executeQuery()) {
                check(rows.next(), "no customer");
                data = rows.getString(1);
            }
            data = c + " " + cd + " " + cw + " " + d + " " + w + " " + amount + " | " + data;
            customerDataUpdate.setString(1, data.length() > 500 ? data.substring(0, 500) : data);
            customerDataUpdate.setInt(2, (int) cw);
            customerDataUpdate.setInt(3, (int) cd);
            customerDataUpdate.setInt(4, (int) c);
            change(customerDataUpdate);
        }
        bind(historyInsert, c, cd, cw, d, w);
        historyInsert.setTimestamp(6, Driver.moment(in[8]));
        historyInsert.setBigDecimal(7, amount);
        historyInsert.setString(8, paidAt);
        change(historyInsert);
    }

    /** Fields: type, w, d, customer, name. */
    private void orderStatus(long[] in, String name) throws SQLException {
        long w = in[1], d = in[2];
        long c = find(customersByName, w, d, in[3], name);
        try (ResultSet rows = bind(customerStatus, w, d, c).executeQuery()) {
            check(rows.next(), "no customer");
            shown += rows.getBigDecimal(4).signum();
        }
        int order = number(bind(lastOrder, w, d, c));
        int lines = 0;
        try (ResultSet rows = bind(orderLines, w, d, order).executeQuery()) {
            while (rows.next()) {
                shown += rows.getBigDecimal(4).signum();
                lines++;
            }
        }
        check(lines >= 5 && lines <= 15, "order " + order + " has " + lines + " lines");
    }

    /** Fields: type, w, carrier, time. */
    private void delivery(long[] in) throws SQLException {
        long w = in[1];
        Timestamp at = Driver.moment(in[3]);
        if (tableLocks) {
            number(bind(customerLock, w, 1, 1));
        }
        for (int d = 1; d <= 10; d++) {
            int id;
            try (ResultSet rows = bind(oldestNewOrder, w, d).executeQuery()) {
                if (!rows.next()) {
                    continue;
                }
                id = rows.getInt(1);
            }
            if (bind(newOrderDelete, w, d, id).executeUpdate() != 1) {
                throw new SQLException("another client delivers this order", "40001");
            }
            int c = number(bind(orderCustomer, w, d, id));
            change(bind(orderDeliver, in[2], w, d, id));
            linesDeliver.setTimestamp(1, at);
            linesDeliver.setInt(2, (int) w);
            linesDeliver.setInt(3, d);
            linesDeliver.setInt(4, id);
            int lines = linesDeliver.executeUpdate();
            check(lines >= 5 && lines <= 15, lines + " lines of an order were delivered");
            BigDecimal amount;
            try (ResultSet rows = bind(linesAmount, w, d, id).executeQuery()) {
                check(rows.next(), "no sum");
                amount = rows.getBigDecimal(1);
            }
            customerDeliver.setBigDecimal(1, amount);
            customerDeliver.setInt(2, (int) w);
            customerDeliver.setInt(3, d);
            customerDeliver.setInt(4, c);
            change(customerDeliver);
        }
    }

    /** Fields: type, w, d, threshold. */
    private void stockLevel(long[] in) throws SQLException {
        int next = number(bind(nextOrder, in[1], in[2]));
        int found = number(bind(shortItems, in[1], in[2], next - 20, next, in[1], in[3]));
        check(found >= 0 && found <= 300, found + " items are short");
    }
}
