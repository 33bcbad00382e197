// One client: runs its inputs one after the other without think times, and counts.

import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

final class Client {
    final Transactions transactions;
    private final List<long[]> inputs;
    private final List<String> names;
    private int next;
    /** Deadlocks, serialization failures, lock waits that took too long. */
    private final long[] aborts = new long[3];
    private final Histogram[] latencies = new Histogram[5];
    private final StringBuilder rounds = new StringBuilder();
    private long rolledBack;
    private long done;
    volatile Exception failure;

    Client(Transactions transactions, List<long[]> inputs, List<String> names) {
        this.transactions = transactions;
        this.inputs = inputs;
        this.names = names;
        forget();
    }

    /** Forgets what was counted while the engine warmed up. */
    void forget() {
        for (int type = 0; type < latencies.length; type++) {
            latencies[type] = new Histogram();
        }
        aborts[0] = aborts[1] = aborts[2] = 0;
        done = 0;
        rolledBack = 0;
        rounds.setLength(0);
    }

    void work(CyclicBarrier barrier, long nanos) {
        try {
            barrier.await();
            long start = System.nanoTime();
            long end = start;
            long count = 0;
            long newOrders = 0;
            while (end - start < nanos) {
                long[] input = inputs.get(next);
                String name = names.get(next);
                next = (next + 1) % inputs.size();
                long begun = System.nanoTime();
                boolean committed = untilDone(input, name);
                end = System.nanoTime();
                int type = (int) input[0];
                latencies[type].record(end - begun);
                count++;
                if (!committed) {
                    rolledBack++;
                } else if (type == 0) {
                    newOrders++;
                }
            }
            done += count;
            rounds.append("round ").append(count).append(' ').append(newOrders).append(' ')
                .append(end - start).append('\n');
        } catch (Exception error) {
            failure = error;
        }
    }

    private boolean untilDone(long[] input, String name) throws SQLException {
        while (true) {
            try {
                return transactions.run(input, name);
            } catch (SQLException error) {
                transactions.rollback();
                aborts[conflict(error)]++;
            }
        }
    }

    /** Kind of conflict; other errors go up. */
    private static int conflict(SQLException error) throws SQLException {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql) {
                String state = String.valueOf(sql.getSQLState());
                // H2: 40001 deadlock or concurrent update, HYT00 (vendor 50200) lock timeout.
                // HSQLDB: 40001 and 40501 where a wait would close a circle.
                if (sql.getErrorCode() == 50200 || state.equals("HYT00")) {
                    return 2;
                }
                if (state.startsWith("40")) {
                    return 0;
                }
            }
        }
        throw error;
    }

    void print() {
        System.out.print(rounds);
        System.out.println("done " + done + " " + rolledBack + " "
            + aborts[0] + " " + aborts[1] + " " + aborts[2]);
        for (int type = 0; type < latencies.length; type++) {
            latencies[type].print("latency " + type);
        }
    }
}
