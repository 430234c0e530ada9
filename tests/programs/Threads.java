// A small program with threads, locks, exceptions and enough work for the compiler at run time.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class Threads {
    static long work(int n) {
        long s = 1;
        for (int i = 1; i < n; i++) s = s * 31 + (i ^ (s >>> 7)) % i;
        return s;
    }

    static int deep(int n) {
        return n == 0 ? Integer.parseInt("x") : deep(n - 1) + 1;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int n = 400000 + i;
            parts.add(pool.submit(() -> work(n)));
        }
        long sum = 0;
        for (Future<Long> f : parts) sum += f.get();
        System.out.println("work " + sum);
        AtomicLong hits = new AtomicLong();
        Map<Integer, Integer> map = new ConcurrentHashMap<>();
        Thread[] threads = new Thread[4];
        Object lock = new Object();
        int[] shared = new int[1];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int i = 0; i < 50000; i++) {
                    map.merge(i % 100, 1, Integer::sum);
                    synchronized (lock) { shared[0]++; }
                    hits.incrementAndGet();
                }
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
        System.out.println(hits.get() + " " + shared[0] + " " + map.get(7));
        int caught = 0;
        for (int i = 0; i < 2000; i++) {
            try { deep(i % 30); } catch (NumberFormatException e) { caught++; }
            try { Object o = i % 2 == 0 ? null : "s"; o.hashCode(); } catch (NullPointerException e) { caught++; }
        }
        System.out.println("caught " + caught);
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < 100000; i++) b.append(i % 10);
        System.gc();
        System.out.println(b.toString().hashCode());
        pool.shutdown();
    }
}
