import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

/** The works of the benchmark of peers, for timers of Java: CLASS TICK_MS WORK N prints one line of JSON. */
final class Bench {
    static final Runnable NOTHING = () -> {};

    private static final int CHUNK = 1_000;
    private static final int MANY = 1 << 20;
    private static final int WARM_BATCH = 20_000;
    private static final long SEED = 20_260;
    private static final long SECOND = 1_000_000_000L;
    private static final long LATEST = 7_200 * SECOND;
    private static final long STEP = 30 * SECOND;
    private static final long WARM = SECOND;
    private static final long WINDOW = 3 * SECOND / 10;

    private final Timers timers;
    private final int n;
    private final Process process;
    private final Map<String, Double> found = new TreeMap<>();

    private interface Step {
        void run(long chunk, int place);
    }

    private Bench(Timers timers, int n) {
        this.timers = timers;
        this.n = n;
        timers.set(n, LATEST, NOTHING); // whatever is made on first use is made before
        timers.cancel(n);
        process = new Process();
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[3]);
        int places = Math.max(n, WARM_BATCH) + 1;
        Object made = Class.forName(args[0])
                .getDeclaredConstructor(int.class, long.class)
                .newInstance(places, Long.parseLong(args[1]));
        Bench bench = new Bench((Timers) made, n);
        switch (args[2]) {
            case "pending" -> bench.pending();
            case "fire" -> bench.fire();
            default -> bench.lateness();
        }
        System.out.println(bench.found.entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue())
                .collect(Collectors.joining(", ", "{", "}")));
        System.exit(0);
    }

    /** Weighs a population, lets it wait for a second, then sets and cancels one more timer, and moves those that wait. */
    private void pending() throws InterruptedException {
        Random draw = new Random(SEED);
        long[] delays = draw.longs(n, LATEST / 4, LATEST).toArray();
        int[] everyone = draw.ints(MANY, 0, n).toArray();
        int[] busy = draw.ints(0, n).distinct().limit(Math.min(CHUNK, n)).toArray();
        long[] steps = draw.longs(CHUNK, SECOND, STEP).toArray();
        settle();
        long[] before = Process.weigh();
        for (int place = 0; place < n; place++) {
            timers.set(place, delays[place], NOTHING);
        }
        settle();
        long[] after = Process.weigh();
        found.put("bytes per timer", (double) (after[0] - before[0]) / n);
        found.put("bytes per timer, live", (double) (after[1] - before[1]) / n);
        Process.switched(); // or loading it would count
        long switches = Process.switched();
        TimeUnit.MILLISECONDS.sleep(10);
        long cpu = process.cpuNs();
        TimeUnit.SECONDS.sleep(1);
        found.put("idle second", (process.cpuNs() - cpu - process.costNs()) / 1e3);
        found.put("wake-ups", Process.switched() - switches - 2.0);
        found.put("set+cancel", each((c, i) -> {
            timers.set(n, LATEST, NOTHING);
            timers.cancel(n);
        }));
        found.put("move", each((c, i) -> timers.move(busy[i % busy.length], LATEST + c * STEP + steps[i])));
        found.put("move, cold", each((c, i) ->
                timers.move(everyone[(int) (c * CHUNK + i) & MANY - 1], 2 * LATEST + c * STEP + steps[i])));
    }

    /** Netty's thread takes 100,000 new timers at a tick, so a million are in the wheel after ten. */
    private static void settle() throws InterruptedException {
        TimeUnit.MILLISECONDS.sleep(1_500);
    }

    /** Returns the CPU nanoseconds of one step, of all that runs in the window, after a second that warms it up. */
    private double each(Step step) {
        long chunk = 0;
        double figure = 0;
        for (long limit : new long[] {WARM, WINDOW}) {
            long begin = process.cpuNs();
            long first = chunk;
            long spent = 0;
            while (spent < limit) {
                for (long end = chunk + 100; chunk < end; chunk++) {
                    for (int i = 0; i < CHUNK; i++) {
                        step.run(chunk, i);
                    }
                }
                spent = process.cpuNs() - begin;
            }
            figure = (double) spent / ((chunk - first) * CHUNK);
        }
        return figure;
    }

    /** Sets n timers for one instant, until the last has been called; before that, as many as warm it up. */
    private void fire() throws InterruptedException {
        for (int round = 0; round < 15; round++) {
            batch(WARM_BATCH);
        }
        double[] spent = new double[Math.max(3, Math.min(20, 500_000 / n))];
        for (int round = 0; round < spent.length; round++) {
            spent[round] = batch(n);
        }
        Arrays.sort(spent);
        found.put("set+fire", spent[spent.length / 2]);
    }

    private double batch(int size) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger count = new AtomicInteger();
        Runnable call = () -> {
            if (count.incrementAndGet() == size) {
                done.countDown();
            }
        };
        long begin = process.cpuNs();
        long when = System.nanoTime() + 20_000_000 + size * 2_000L;
        for (int place = 0; place < size; place++) {
            timers.set(place, Math.max(1, when - System.nanoTime()), call);
        }
        done.await();
        return (double) (process.cpuNs() - begin - process.costNs()) / size;
    }

    /** Sets n short timers at an even pace, each of whole milliseconds, and notes how late each is called. */
    private void lateness() throws InterruptedException {
        pace(10_000);
        double[] late = pace(n);
        Arrays.sort(late);
        found.put("lateness p50", late[late.length / 2]);
        found.put("lateness p99", late[(int) (late.length * 99L / 100)]);
        found.put("early", (double) Arrays.stream(late).filter(value -> value < 0).count());
        found.put("lost", (double) (n - late.length));
    }

    private double[] pace(int size) throws InterruptedException {
        Random draw = new Random(SEED);
        double[] late = new double[size];
        AtomicInteger count = new AtomicInteger();
        for (int place = 0; place < size; place++) {
            long delay = 1_000_000L * (1 + draw.nextInt(50));
            long deadline = System.nanoTime() + delay;
            timers.set(place, delay, () -> {
                long now = System.nanoTime();
                late[count.getAndIncrement()] = (now - deadline) / 1e3;
            });
            if (place % 100 == 99) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
        }
        TimeUnit.MILLISECONDS.sleep(500);
        return Arrays.copyOf(late, count.get());
    }
}
