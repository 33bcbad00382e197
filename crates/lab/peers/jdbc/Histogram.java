// Latencies to three digits without an upper end: 1,024 buckets for every doubling.

final class Histogram {
    private static final int BITS = 10;
    private final long[] counts = new long[(64 - BITS) << BITS];

    void record(long nanos) {
        counts[bucket(Math.max(nanos, 0))]++;
    }

    private static int bucket(long nanos) {
        int shift = Math.max(0, 64 - Long.numberOfLeadingZeros(nanos) - BITS - 1);
        return (shift << BITS) + (int) (nanos >> shift);
    }

    /** The largest value of a bucket. */
    private static long value(int bucket) {
        int shift = Math.max(0, (bucket >> BITS) - 1);
        long low = ((long) bucket - ((long) shift << BITS)) << shift;
        return low + (1L << shift) - 1;
    }

    /** A line for every bucket that counted: prefix, nanoseconds, count. */
    void print(String prefix) {
        for (int bucket = 0; bucket < counts.length; bucket++) {
            if (counts[bucket] > 0) {
                System.out.println(prefix + " " + value(bucket) + " " + counts[bucket]);
            }
        }
    }
}
