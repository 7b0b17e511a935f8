import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;

/**
 * A heap that is filled and then used all over: `java Heap.java MIB`.
 *
 * Records of 1 KiB are made until they take MIB mebibytes, and `ready` is printed. Then each line on the standard input,
 * a number of seconds, is answered with operations per second. An operation reads a record that is drawn at random,
 * each as likely, and changes it. It ends with its input.
 */
final class Heap {
    private static final int WORDS = 128;

    public static void main(String[] arguments) throws Exception {
        long records = Long.parseLong(arguments[0]) << 10;
        ArrayList<long[]> heap = new ArrayList<>();
        while (heap.size() < records) {
            heap.add(new long[WORDS]);
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        long random = 88172645463325252L;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long begin = System.nanoTime();
            long end = begin + (long) (Double.parseDouble(line) * 1e9);
            long operations = 0;
            long now = begin;
            while (now < end) {
                // Xorshift (Marsaglia, 2003).
                random ^= random << 13;
                random ^= random >>> 7;
                random ^= random << 17;
                long[] record = heap.get((int) Long.remainderUnsigned(random, records));
                long sum = 0;
                for (long word : record) {
                    sum += word;
                }
                record[(int) (operations % WORDS)] = sum + 1;
                operations++;
                now = System.nanoTime();
            }
            System.out.println(operations * 1e9 / (now - begin));
        }
    }
}
