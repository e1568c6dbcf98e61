import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * Rings of 20 slots above one another, its default; slots wait in a delay queue, and tasks run on a thread of the timer's;
 * no move.
 */
final class Kafka implements Timers {
    private final SystemTimer timer;
    private final Task[] handles;

    private static final class Task extends TimerTask {
        private final Runnable call;

        Task(long delayMs, Runnable call) {
            super(delayMs);
            this.call = call;
        }

        @Override
        public void run() {
            call.run();
        }
    }

    Kafka(int n, long tickMs) {
        timer = new SystemTimer("peer", tickMs, 20, System.nanoTime() / 1_000_000);
        handles = new Task[n];
        Thread reaper = new Thread(this::advance, "reaper");
        reaper.setDaemon(true);
        reaper.start();
    }

    /** As Kafka's own reaper does. */
    private void advance() {
        try {
            while (true) {
                timer.advanceClock(200);
            }
        } catch (InterruptedException done) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void set(int place, long delayNs, Runnable call) {
        handles[place] = new Task((delayNs + 999_999) / 1_000_000, call);
        timer.add(handles[place]);
    }

    @Override
    public void cancel(int place) {
        handles[place].cancel();
    }

    @Override
    public void move(int place, long delayNs) {
        handles[place].cancel();
        set(place, delayNs, Bench.NOTHING);
    }
}
